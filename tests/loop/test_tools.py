"""Each tool of the loop, through the front door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shopfloor.domain.loops import content_key
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Answer
from shopfloor.usecases import loops

Call = Callable[..., str]


@pytest.fixture
def shopfloor(tmp_path: Path, database: str) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path, database=database)) as shopfloor:
        yield shopfloor


@pytest.fixture
def call(shopfloor: Shopfloor) -> Call:
    """Calls a tool of the run 'r'."""
    begin(shopfloor, "r")
    return lambda tool, caller="r", **arguments: shopfloor.call("loop", tool, arguments, caller)


def begin(shopfloor: Shopfloor, name: str) -> None:
    shopfloor.floor.administer(lambda work: loops.create(work, name, spec="s", project="p", options="{}"))


def add(call: Call, *contents: str, **facts: Any) -> str:
    return call("task-add", tasks=[{"content": content, **facts} for content in contents])


def refused(answer: str) -> tuple[str, str]:
    """A refusal, as its message and its next step."""
    first, second = answer.split("\n")
    assert first.startswith("error: ")
    assert second
    return first.removeprefix("error: "), second


def test_the_eight_tools_have_the_schemas_of_the_contract(shopfloor: Shopfloor):
    tools = {tool["name"]: tool["parameters"] for tool in shopfloor.schemas("loop")}
    assert list(tools) == [
        "note-add", "note-list", "iteration-summary", "session-complete",
        "task-add", "task-update", "task-list", "task-next",
    ]  # fmt: skip
    items = tools["task-add"]["properties"]["tasks"]["items"]
    assert (items["required"], set(items["properties"])) == (["content"], {"content", "status", "priority"})
    update = tools["task-update"]
    assert update["required"] == ["id"]
    kinds = {key: value["type"] for key, value in update["properties"].items()}
    assert kinds == {"id": "string", "status": "string", "priority": "number", "depends_on": "string"}
    notes = tools["note-add"]["properties"]["notes"]["items"]
    assert set(notes["required"]) == {"content", "type"}
    assert tools["iteration-summary"]["required"] == ["summary"]


def test_the_loop_is_not_part_of_the_default_profile():
    assert "loop" not in Settings.model_fields["profile"].default
    assert Settings.model_fields["run_toolsets"].default == ("loop",)


def test_tasks_are_added_with_status_and_priority(call: Call):
    answer = call("task-add", tasks=[{"content": "a"}, {"content": "b", "status": "blocked", "priority": 0}])
    assert answer == "Added TAS-1 [remaining, priority 2] a\nAdded TAS-2 [blocked, priority 0] b"


@pytest.mark.parametrize("priority", [0, 0.0, 4, 4.0])
def test_an_integral_number_is_a_priority(call: Call, priority: float):
    assert f"priority {priority:.0f}]" in add(call, "a", priority=priority)
    assert f"priority {priority:.0f}]" in call("task-update", id="TAS-1", priority=priority)


@pytest.mark.parametrize("priority", [5, -1, 2.5, 1e300])
def test_other_numbers_are_none(call: Call, priority: float):
    message, next_step = refused(add(call, "a", priority=priority))
    assert message.endswith("is not a priority")
    assert next_step.startswith("Use a whole number: 0 critical")


@pytest.mark.parametrize("priority", [True, "2", [2]])
def test_what_is_no_number_is_no_priority(call: Call, priority: Any):
    assert "valid number" in refused(add(call, "a", priority=priority))[0]


def test_a_batch_is_added_whole_or_not_at_all(call: Call):
    refused(call("task-add", tasks=[{"content": "a"}, {"content": "b", "status": "done"}]))
    refused(call("task-add", tasks=[{"content": "a"}, {"content": "  "}]))
    assert call("task-list") == "There are no tasks yet. Add some with task-add."


def test_the_same_content_is_refused_also_within_a_batch(call: Call):
    add(call, "Write Tests")
    message, next_step = refused(add(call, "new", "  write tests\n"))
    assert message == "the same content is in TAS-1 already: Write Tests"
    assert next_step.startswith("Nothing was added.")
    message, _ = refused(add(call, "x", "y", " X "))
    assert message == "tasks 1 and 3 of this call have the same content: X"
    assert "new" not in call("task-list")


def test_another_run_may_have_the_same_content(shopfloor: Shopfloor, call: Call):
    begin(shopfloor, "other")
    add(call, "a")
    assert call("task-add", "other", tasks=[{"content": "a"}]).startswith("Added TAS-")
    assert "there is no task 'TAS-1'" in call("task-update", "other", id="TAS-1", status="completed")


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=20), st.sampled_from(["", " ", "\n", "\t "]))
def test_case_and_outer_space_do_not_tell_contents_apart(text: str, space: str):
    assert content_key(f"{space}{text}{space}") == content_key(text)
    if text.upper().casefold() == text.casefold():
        assert content_key(text.upper()) == content_key(text)


def test_empty_fields_stay_unchanged(call: Call):
    add(call, "a", priority=1)
    assert call("task-update", id="TAS-1") == "Updated TAS-1 [remaining, priority 1] a"
    assert call("task-update", id="TAS-1", status="", depends_on="", priority=None).endswith(
        "[remaining, priority 1] a"
    )


def test_an_update_is_made_whole_or_not_at_all(call: Call):
    add(call, "a", "b")
    refused(call("task-update", id="TAS-1", status="in_progress", priority=9))
    refused(call("task-update", id="TAS-1", status="in_progress", depends_on="TAS-2,TAS-77"))
    refused(call("task-update", id="TAS-1", depends_on="TAS-2", status="finished"))
    assert call("task-list") == "remaining (2):\n  TAS-1 [remaining, priority 2] a\n  TAS-2 [remaining, priority 2] b"


def test_one_task_at_a_time_is_in_progress(shopfloor: Shopfloor, call: Call):
    add(call, "a", "b")
    call("task-update", id="TAS-1", status="in_progress")
    message, next_step = refused(call("task-update", id="TAS-2", status="in_progress"))
    assert message == "TAS-1 is in progress, and only one task can be"
    assert "Finish TAS-1 first" in next_step
    refused(add(call, "c", status="in_progress"))
    assert call("task-update", id="TAS-1", status="in_progress").startswith("Updated TAS-1")
    begin(shopfloor, "other")
    assert "in_progress" in call("task-add", "other", tasks=[{"content": "x", "status": "in_progress"}])


def test_a_race_for_the_one_place_in_progress_has_one_winner(call: Call):
    add(call, *(f"t{number}" for number in range(8)))
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: call("task-update", id=f"TAS-{n}", status="in_progress"), range(1, 9)))
    assert sum(answer.startswith("Updated") for answer in answers) == 1
    assert "in_progress (1):" in call("task-list")


def test_a_race_to_add_the_same_content_has_one_winner(call: Call):
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda space: add(call, f"{' ' * space}Same"), range(8)))
    assert sum(answer.startswith("Added") for answer in answers) == 1


@pytest.mark.parametrize("end", ["completed", "cancelled"])
def test_what_is_finished_stays_so(call: Call, end: str):
    add(call, "a")
    call("task-update", id="TAS-1", status=end)
    message, next_step = refused(call("task-update", id="TAS-1", status="remaining"))
    assert (message, "task-add" in next_step) == (f"TAS-1 is {end}, and that is final", True)
    assert call("task-update", id="TAS-1", status=end).startswith("Updated TAS-1")


def test_a_blocked_task_may_go_anywhere(call: Call):
    add(call, "a", status="blocked")
    for status in ("remaining", "in_progress", "blocked", "in_progress", "remaining", "blocked", "completed"):
        assert f"[{status}," in call("task-update", id="TAS-1", status=status)


def test_a_task_is_found_by_its_id_or_a_unique_prefix(call: Call):
    add(call, *(f"task {number}" for number in range(1, 13)))
    assert call("task-update", id="TAS-1", priority=0).startswith("Updated TAS-1 ")
    assert call("task-update", id=" tas-12 ", priority=0).startswith("Updated TAS-12 ")
    assert call("task-update", id="7", priority=0).startswith("Updated TAS-7 ")
    for status in ("TAS-", "T"):
        assert "more than one task" in refused(call("task-update", id=status, priority=0))[0]
    for unknown in ("TAS-99", "NOT-1", "", "TAS-1x", "-1"):
        assert refused(call("task-update", id=unknown, priority=0)) == (
            f"there is no task '{unknown}'", "See the ids with task-list",
        )  # fmt: skip


def test_a_prefix_of_a_number_is_enough_when_it_is_unique(shopfloor: Shopfloor, call: Call):
    begin(shopfloor, "first")
    call("task-add", "first", tasks=[{"content": f"t{number}"} for number in range(30)])
    add(call, "mine")
    assert call("task-update", id="TAS-3", priority=0).startswith("Updated TAS-31 ")


def test_dependencies_are_added_and_removed(call: Call):
    add(call, "a", "b", "c")
    assert call("task-update", id="TAS-1", depends_on="TAS-2, TAS-3,").endswith("a (depends on TAS-2, TAS-3)")
    assert call("task-update", id="TAS-1", depends_on="TAS-2").endswith("a (depends on TAS-2, TAS-3)")
    assert call("task-update", id="TAS-1", depends_on="-TAS-3").endswith("a (depends on TAS-2)")
    assert call("task-update", id="TAS-1", depends_on="-TAS-2,TAS-3").endswith("a (depends on TAS-3)")
    assert call("task-update", id="TAS-1", depends_on="-TAS-2").endswith("a (depends on TAS-3)")


def test_a_circle_of_dependencies_is_refused(call: Call):
    add(call, "a", "b", "c")
    call("task-update", id="TAS-1", depends_on="TAS-2")
    call("task-update", id="TAS-2", depends_on="TAS-3")
    assert refused(call("task-update", id="TAS-3", depends_on="TAS-1"))[0] == (
        "TAS-3 cannot wait for TAS-1, which waits for it"
    )
    assert refused(call("task-update", id="TAS-3", depends_on="TAS-3"))[0] == "TAS-3 cannot wait for itself"


def test_the_list_is_grouped_by_status_in_a_fixed_order(call: Call):
    for status in ("cancelled", "blocked", "completed", "in_progress", "remaining"):
        add(call, f"is {status}", status=status)
    assert [line for line in call("task-list").splitlines() if not line.startswith(" ")] == [
        "remaining (1):", "in_progress (1):", "completed (1):", "blocked (1):", "cancelled (1):",
    ]  # fmt: skip


def test_a_long_list_is_cut_and_goes_on_behind_a_cursor(call: Call):
    for start in range(0, 200, 100):
        add(call, *(f"{number} " + "x" * 300 for number in range(start, start + 100)))
    seen: list[str] = []
    cursor = ""
    while True:
        answer = call("task-list", cursor=cursor, limit=200)
        assert len(answer) < 12_000
        seen += [line.split()[0] for line in answer.splitlines() if line.startswith("  TAS-")]
        if "There are more: call task-list with cursor " not in answer:
            break
        cursor = answer.rpartition(" ")[2]
    assert seen == [f"TAS-{number}" for number in range(1, 201)]
    assert refused(call("task-list", cursor="nonsense"))[1] == "Call task-list without a cursor"


def test_next_is_unblocked_then_urgent_then_old_numerically(call: Call):
    add(call, *(f"t{number}" for number in range(1, 12)))
    assert call("task-next") == "TAS-1 [remaining, priority 2]\nt1"
    call("task-update", id="TAS-11", priority=0)
    call("task-update", id="TAS-10", priority=0)
    assert call("task-next").startswith("TAS-10 ")
    call("task-update", id="TAS-10", depends_on="TAS-9")
    assert call("task-next").startswith("TAS-11 ")
    call("task-update", id="TAS-9", status="completed")
    assert call("task-next").startswith("TAS-10 ")


def test_next_says_what_stands_in_the_way(call: Call):
    assert call("task-next").startswith("No task remains.")
    add(call, "a", "b")
    call("task-update", id="TAS-1", depends_on="TAS-2")
    call("task-update", id="TAS-2", status="cancelled")
    assert call("task-next").startswith("No task is ready: 1 remaining wait for others")
    call("task-update", id="TAS-1", status="in_progress")
    assert call("task-next") == "TAS-1 is in progress: finish it before you begin another.\na"


def test_notes_are_added_and_listed_by_type(call: Call):
    answer = call(
        "note-add", notes=[{"content": "use tabs", "type": "tip"}, {"content": "it is slow", "type": "learning"}]
    )
    assert answer == "Added NOT-1 [tip, iteration 0] use tabs\nAdded NOT-2 [learning, iteration 0] it is slow"
    assert call("note-list") == "NOT-1 [tip, iteration 0] use tabs\nNOT-2 [learning, iteration 0] it is slow"
    assert call("note-list", type="learning") == "NOT-2 [learning, iteration 0] it is slow"
    assert call("note-list", type="stuck") == "There are no notes yet. Add some with note-add."
    assert refused(call("note-list", type="joke")) == (
        "'joke' is not a type of note", "Use one of learning, stuck, tip, decision",
    )  # fmt: skip


def test_notes_are_all_or_nothing_and_pages_follow_one_another(call: Call):
    refused(call("note-add", notes=[{"content": "a", "type": "tip"}, {"content": "b", "type": "joke"}]))
    refused(call("note-add", notes=[{"content": "a", "type": "tip"}, {"content": "b"}]))
    call("note-add", notes=[{"content": f"n{number}", "type": "tip"} for number in range(3)])
    first = call("note-list", limit=2)
    cursor = first.rpartition(" ")[2]
    assert first.count("NOT-") == 2
    assert [line.split()[-1] for line in call("note-list", limit=2, cursor=cursor).splitlines()] == ["n2"]


def test_a_stuck_note_raises_a_question(shopfloor: Shopfloor, call: Call):
    call("note-add", notes=[{"content": "which way?", "type": "stuck"}])
    pending = shopfloor.floor.look(lambda work: work.run_talk.pending(10))
    assert [(each.run, each.kind, each.question) for each in pending] == [("r", "stuck", "which way?")]


def test_an_iteration_has_one_summary(shopfloor: Shopfloor, call: Call):
    assert call("iteration-summary", summary="planned").startswith("Recorded the summary of iteration 0.")
    assert refused(call("iteration-summary", summary="again"))[0] == "iteration 0 has its summary already"
    shopfloor.floor.administer(lambda work: loops.begin_iteration(work, "r", 1, retold=False))
    assert call("iteration-summary", summary="worked").startswith("Recorded the summary of iteration 1.")
    refused(call("iteration-summary", summary="  "))


def test_a_search_can_ask_for_what_was_written_since(shopfloor: Shopfloor, call: Call):
    call("note-add", notes=[{"content": "first", "type": "tip"}, {"content": "second", "type": "decision"}])
    call("iteration-summary", summary="planned")
    look = shopfloor.floor.look
    changes = look(lambda work: work.run_talk.unindexed_notes(0, 10))
    assert [ref for _, ref in changes] == ["NOT-1", "NOT-2"]
    assert look(lambda work: work.run_talk.unindexed_notes(changes[-1][0] + 1, 10)) == []
    assert [note.content for note in look(lambda work: work.run_talk.some_notes([2, 99]))] == ["second"]
    [(at, ref)] = look(lambda work: work.runs.unindexed_summaries(0, 10))
    assert (ref, look(lambda work: work.runs.summary("r", 0))) == ("r/0", ("planned", at))


def test_completion_is_refused_while_a_task_is_open(call: Call):
    add(call, "a", "b")
    assert refused(call("session-complete"))[0] == "TAS-1 is remaining"
    call("task-update", id="TAS-1", status="in_progress")
    assert refused(call("session-complete"))[0] == "TAS-1 is in_progress"
    call("task-update", id="TAS-1", status="completed")
    call("task-update", id="TAS-2", status="blocked")
    assert call("session-complete").startswith("Recorded that the session is complete.")


def test_the_runners_verdict_is_the_answer(shopfloor: Shopfloor, call: Call):
    shopfloor.floor.administer(lambda work: loops.drive(work, "r", "{}"))

    def judged(verdict: str | None) -> Answer:
        before = shopfloor.floor.look(lambda work: work.runs.get("r")).wish
        shopfloor.floor.administer(lambda work: loops.judge(work, "r", before + 1, verdict))
        return shopfloor.answer("loop", "session-complete", {}, "r")

    answer = judged("'make test' ended with exit code 2")
    assert refused(answer.body)[0] == "the session is not complete: 'make test' ended with exit code 2"
    assert answer.error is not None
    assert judged(None).body == "The session is complete: every check passed. End your turn now."


def test_every_refusal_is_text_with_a_next_step(shopfloor: Shopfloor, call: Call):
    cases: list[tuple[str, dict[str, Any]]] = [
        ("task-add", {}), ("task-add", {"tasks": []}), ("task-add", {"tasks": "x"}), ("task-add", {"tasks": [{}]}),
        ("task-add", {"tasks": [{"content": "x", "colour": "red"}]}), ("task-add", {"tasks": [{"content": "\x00"}]}),
        ("task-update", {}), ("task-update", {"id": 1}), ("task-list", {"limit": 0}), ("task-next", {"x": 1}),
        ("note-add", {"notes": [{"content": "x"}]}), ("iteration-summary", {}), ("no-such-tool", {}),
    ]  # fmt: skip
    for tool, arguments in cases:
        answer = shopfloor.answer("loop", tool, arguments, "r")
        assert answer.error is not None, (tool, arguments)
        refused(answer.body)


def test_the_latest_run_is_meant_when_none_is_named(shopfloor: Shopfloor):
    assert refused(shopfloor.call("loop", "task-list"))[0] == "there is no run yet"
    begin(shopfloor, "first")
    begin(shopfloor, "second")
    shopfloor.call("loop", "task-add", {"tasks": [{"content": "a"}]})
    assert shopfloor.call("loop", "task-list", {}, "first").startswith("There are no tasks")
    assert "there is no run 'third'" in shopfloor.call("loop", "task-list", {}, "third").lower()


def proposals(shopfloor: Shopfloor) -> dict[int, str]:
    """What is asked about acceptance commands, by the number of the question."""
    asked = shopfloor.floor.look(lambda work: work.run_talk.pending(10))
    return {request.number: request.question for request in asked if request.kind == "acceptance"}


def acceptance(shopfloor: Shopfloor) -> list[str | None]:
    return [task.acceptance for task in shopfloor.floor.look(lambda work: list(loops.all_tasks(work, "r")))]


def test_a_command_that_an_agent_proposes_counts_when_a_person_allows_it(shopfloor: Shopfloor, call: Call):
    add(call, "a\nAcceptance command: `make  'the test'`", "b\n  acceptance COMMAND: rm -rf $HOME; id", "c")
    assert acceptance(shopfloor) == [None, None, None]
    (first, second), questions = proposals(shopfloor), list(proposals(shopfloor).values())
    assert questions == [
        "May this command prove TAS-1 done? make 'the test'",
        "May this command prove TAS-2 done? rm -rf '$HOME;' id",
    ]
    for number, answer in ((first, "allow"), (second, "deny")):
        assert shopfloor.call("desk", "inbox_decide", {"request": number, "answer": answer})["answer"] == answer
    assert acceptance(shopfloor) == ['["make", "the test"]', None, None]
    assert proposals(shopfloor) == {}


def test_what_a_person_sets_settles_what_was_proposed(shopfloor: Shopfloor, call: Call):
    add(call, "a\nAcceptance command: make test")
    [number] = proposals(shopfloor)
    shopfloor.floor.administer(lambda work: loops.accept(work, "r", "TAS-1", '["make"]'))
    assert (proposals(shopfloor), acceptance(shopfloor)) == ({}, ['["make"]'])
    late = shopfloor.call("desk", "inbox_decide", {"request": number, "answer": "allow"})
    assert late["error"] == f"question {number} is answered already: withdrawn"
    assert acceptance(shopfloor) == ['["make"]']


@pytest.mark.parametrize("command", ["make 'test", "", "`", f"x{'y' * 1000}", "make \u202etest", "make \x1b[31mtest"])
def test_a_command_that_cannot_be_read_or_shown_is_refused(shopfloor: Shopfloor, call: Call, command: str):
    message, _ = refused(add(call, "fine", f"a\nAcceptance command: {command}"))
    assert message.startswith("the acceptance command cannot be read: ")
    assert (acceptance(shopfloor), proposals(shopfloor)) == ([], {})


def test_an_agent_cannot_answer_its_own_proposal(shopfloor: Shopfloor, call: Call):
    add(call, "a\nAcceptance command: make test")
    [number] = proposals(shopfloor)
    shopfloor.hire("wim", "SUPERVISOR", with_token=False)
    refusal = shopfloor.call("desk", "inbox_decide", {"request": number, "answer": "allow"}, "wim")
    assert refusal["code"] == "PERMISSION_DENIED"
    assert acceptance(shopfloor) == [None]
