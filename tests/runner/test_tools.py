"""Each tool of the loop toolset, through the public API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shopfloor.domain.runs import make_content_key
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import CallResult
from shopfloor.usecases import iterations, run_tasks, runs
from tests.operator_access import read_as_operator, write_as_operator
from tests.workbench import seed_agent

Call = Callable[..., str]


@pytest.fixture
def shopfloor(tmp_path: Path, database: str) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path, database=database)) as shopfloor:
        yield shopfloor


@pytest.fixture
def call(shopfloor: Shopfloor) -> Call:
    """Calls a tool as the run 'r'."""
    create_run(shopfloor, "r")
    return lambda tool, caller="r", **arguments: shopfloor.call("loop", tool, arguments, caller)


def create_run(shopfloor: Shopfloor, name: str) -> None:
    write_as_operator(shopfloor, lambda uow: runs.create_run(uow, name, spec="s", project="p", options="{}"))


def add_tasks(call: Call, *contents: str, **facts: Any) -> str:
    return call("task-add", tasks=[{"content": content, **facts} for content in contents])


def parse_error(answer: str) -> tuple[str, str]:
    """Split an error into its message and its next step."""
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
    assert Settings.model_fields["run_toolsets"].default == ("loop", "context", "factory")


def test_tasks_are_added_with_status_and_priority(call: Call):
    answer = call("task-add", tasks=[{"content": "a"}, {"content": "b", "status": "blocked", "priority": 0}])
    assert answer == "Added TAS-1 [remaining, priority 2] a\nAdded TAS-2 [blocked, priority 0] b"


@pytest.mark.parametrize("priority", [0, 0.0, 4, 4.0])
def test_an_integral_number_is_a_priority(call: Call, priority: float):
    assert f"priority {priority:.0f}]" in add_tasks(call, "a", priority=priority)
    assert f"priority {priority:.0f}]" in call("task-update", id="TAS-1", priority=priority)


@pytest.mark.parametrize("priority", [5, -1, 2.5, 1e300])
def test_a_number_outside_the_range_is_not_a_priority(call: Call, priority: float):
    message, next_step = parse_error(add_tasks(call, "a", priority=priority))
    assert message.endswith("is not a priority")
    assert next_step.startswith("Use a whole number: 0 critical")


@pytest.mark.parametrize("priority", [True, "2", [2]])
def test_a_value_that_is_not_a_number_is_not_a_priority(call: Call, priority: Any):
    assert "must be a number" in parse_error(add_tasks(call, "a", priority=priority))[0]


def test_a_batch_is_added_atomically(call: Call):
    parse_error(call("task-add", tasks=[{"content": "a"}, {"content": "b", "status": "done"}]))
    parse_error(call("task-add", tasks=[{"content": "a"}, {"content": "  "}]))
    assert call("task-list") == "There are no tasks yet. Add some with task-add."


def test_duplicate_content_is_rejected_also_within_a_batch(call: Call):
    add_tasks(call, "Write Tests")
    message, next_step = parse_error(add_tasks(call, "new", "  write tests\n"))
    assert message == "task 2 of 2: the same content is already in TAS-1: Write Tests"
    assert next_step.startswith("Nothing was added.")
    message, _ = parse_error(add_tasks(call, "x", "y", " X "))
    assert message == "tasks 1 and 3 of this call have the same content: X"
    assert "new" not in call("task-list")


def test_a_reopened_task_blocks_its_dependents_again(shopfloor: Shopfloor, call: Call):
    add_tasks(call, "first", "second")
    call("task-update", id="TAS-2", depends_on="TAS-1")
    call("task-update", id="TAS-1", status="completed")
    write_as_operator(shopfloor, lambda uow: run_tasks.reopen_task(uow, "r", 1))
    assert call("task-next").startswith("TAS-1")
    call("task-update", id="TAS-1", status="completed")
    assert call("task-next").startswith("TAS-2")


def test_another_run_may_have_the_same_content(shopfloor: Shopfloor, call: Call):
    create_run(shopfloor, "other")
    add_tasks(call, "a")
    assert call("task-add", "other", tasks=[{"content": "a"}]).startswith("Added TAS-")
    assert "task 'TAS-1' not found" in call("task-update", "other", id="TAS-1", status="completed")


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=20), st.sampled_from(["", " ", "\n", "\t "]))
def test_case_and_outer_space_do_not_distinguish_contents(text: str, space: str):
    assert make_content_key(f"{space}{text}{space}") == make_content_key(text)
    assert make_content_key(text.casefold()) == make_content_key(text)


def test_empty_fields_stay_unchanged(call: Call):
    add_tasks(call, "a", priority=1)
    assert call("task-update", id="TAS-1") == "Updated TAS-1 [remaining, priority 1] a"
    assert call("task-update", id="TAS-1", status="", depends_on="", priority=None).endswith(
        "[remaining, priority 1] a"
    )


def test_an_update_is_atomic(call: Call):
    add_tasks(call, "a", "b")
    parse_error(call("task-update", id="TAS-1", status="in_progress", priority=9))
    parse_error(call("task-update", id="TAS-1", status="in_progress", depends_on="TAS-2,TAS-77"))
    parse_error(call("task-update", id="TAS-1", depends_on="TAS-2", status="finished"))
    assert call("task-list") == "remaining (2):\n  TAS-1 [remaining, priority 2] a\n  TAS-2 [remaining, priority 2] b"


def test_one_task_at_a_time_is_in_progress(shopfloor: Shopfloor, call: Call):
    add_tasks(call, "a", "b")
    call("task-update", id="TAS-1", status="in_progress")
    message, next_step = parse_error(call("task-update", id="TAS-2", status="in_progress"))
    assert message == "TAS-1 is in progress, and only one task can be"
    assert "Finish TAS-1 first" in next_step
    parse_error(add_tasks(call, "c", status="in_progress"))
    assert call("task-update", id="TAS-1", status="in_progress").startswith("Updated TAS-1")
    create_run(shopfloor, "other")
    assert "in_progress" in call("task-add", "other", tasks=[{"content": "x", "status": "in_progress"}])


def test_batch_with_two_tasks_in_progress_names_their_positions(call: Call):
    tasks = [{"content": "a"}, {"content": "b", "status": "in_progress"}, {"content": "c", "status": "in_progress"}]
    message, next_step = parse_error(call("task-add", tasks=tasks))
    assert message == "tasks 2 and 3 of 3 are both in progress, and only one task can be"
    assert next_step == "Nothing was added. Set one of them to remaining"
    assert "TAS-" not in call("task-list")


def test_race_to_start_a_task_has_one_winner(call: Call):
    add_tasks(call, *(f"t{number}" for number in range(8)))
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: call("task-update", id=f"TAS-{n}", status="in_progress"), range(1, 9)))
    assert sum(answer.startswith("Updated") for answer in answers) == 1
    assert "in_progress (1):" in call("task-list")


def test_a_race_to_add_the_same_content_has_one_winner(call: Call):
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda space: add_tasks(call, f"{' ' * space}Same"), range(8)))
    assert sum(answer.startswith("Added") for answer in answers) == 1


@pytest.mark.parametrize("end", ["completed", "cancelled"])
def test_a_finished_task_stays_finished(call: Call, end: str):
    add_tasks(call, "a")
    call("task-update", id="TAS-1", status=end)
    message, next_step = parse_error(call("task-update", id="TAS-1", status="remaining"))
    assert (message, "task-add" in next_step) == (f"TAS-1 is {end}, and that is final", True)
    assert call("task-update", id="TAS-1", status=end).startswith("Updated TAS-1")


def test_blocked_task_may_change_to_any_status(call: Call):
    add_tasks(call, "a", status="blocked")
    for status in ("remaining", "in_progress", "blocked", "in_progress", "remaining", "blocked", "completed"):
        assert f"[{status}," in call("task-update", id="TAS-1", status=status)


def test_a_task_is_found_by_its_id_or_a_unique_prefix(call: Call):
    add_tasks(call, *(f"task {number}" for number in range(1, 13)))
    assert call("task-update", id="TAS-1", priority=0).startswith("Updated TAS-1 ")
    assert call("task-update", id=" tas-12 ", priority=0).startswith("Updated TAS-12 ")
    assert call("task-update", id="7", priority=0).startswith("Updated TAS-7 ")
    for status in ("TAS-", "T"):
        assert "is ambiguous" in parse_error(call("task-update", id=status, priority=0))[0]
    for unknown in ("TAS-99", "NOT-1", "", "TAS-1x", "-1"):
        assert parse_error(call("task-update", id=unknown, priority=0)) == (
            f"task '{unknown}' not found", "See the ids with task-list",
        )  # fmt: skip


def test_a_prefix_of_a_number_is_enough_when_it_is_unique(shopfloor: Shopfloor, call: Call):
    create_run(shopfloor, "first")
    call("task-add", "first", tasks=[{"content": f"t{number}"} for number in range(30)])
    add_tasks(call, "mine")
    assert call("task-update", id="TAS-3", priority=0).startswith("Updated TAS-31 ")


def test_dependencies_are_added_and_removed(call: Call):
    add_tasks(call, "a", "b", "c")
    assert call("task-update", id="TAS-1", depends_on="TAS-2, TAS-3,").endswith("a (depends on TAS-2, TAS-3)")
    assert call("task-update", id="TAS-1", depends_on="TAS-2").endswith("a (depends on TAS-2, TAS-3)")
    assert call("task-update", id="TAS-1", depends_on="-TAS-3").endswith("a (depends on TAS-2)")
    assert call("task-update", id="TAS-1", depends_on="-TAS-2,TAS-3").endswith("a (depends on TAS-3)")
    assert call("task-update", id="TAS-1", depends_on="-TAS-2").endswith("a (depends on TAS-3)")


def test_a_cycle_of_dependencies_is_rejected(call: Call):
    add_tasks(call, "a", "b", "c")
    call("task-update", id="TAS-1", depends_on="TAS-2")
    call("task-update", id="TAS-2", depends_on="TAS-3")
    assert parse_error(call("task-update", id="TAS-3", depends_on="TAS-1"))[0] == (
        "TAS-3 cannot depend on TAS-1, which depends on it"
    )
    assert parse_error(call("task-update", id="TAS-3", depends_on="TAS-3"))[0] == "TAS-3 cannot depend on itself"


def test_the_list_is_grouped_by_status_in_a_fixed_order(call: Call):
    for status in ("cancelled", "blocked", "completed", "in_progress", "remaining"):
        add_tasks(call, f"is {status}", status=status)
    assert [line for line in call("task-list").splitlines() if not line.startswith(" ")] == [
        "remaining (1):", "in_progress (1):", "completed (1):", "blocked (1):", "cancelled (1):",
    ]  # fmt: skip


def test_a_long_list_continues_with_a_cursor(call: Call):
    for start in range(0, 200, 100):
        add_tasks(call, *(f"{number} " + "x" * 300 for number in range(start, start + 100)))
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
    assert parse_error(call("task-list", cursor="nonsense"))[1] == "Call task-list without a cursor"


def test_next_is_unblocked_then_urgent_then_old_numerically(call: Call):
    add_tasks(call, *(f"t{number}" for number in range(1, 12)))
    assert call("task-next") == "TAS-1 [remaining, priority 2]\nt1"
    call("task-update", id="TAS-11", priority=0)
    call("task-update", id="TAS-10", priority=0)
    assert call("task-next").startswith("TAS-10 ")
    call("task-update", id="TAS-10", depends_on="TAS-9")
    assert call("task-next").startswith("TAS-11 ")
    call("task-update", id="TAS-9", status="completed")
    assert call("task-next").startswith("TAS-10 ")


def test_next_explains_why_no_task_is_ready(call: Call):
    assert call("task-next").startswith("No task remains.")
    add_tasks(call, "a", "b")
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
    assert parse_error(call("note-list", type="joke")) == (
        "'joke' is not a type of note", "Use one of learning, stuck, tip, decision",
    )  # fmt: skip


def test_notes_are_added_atomically_and_listed_in_pages(call: Call):
    parse_error(call("note-add", notes=[{"content": "a", "type": "tip"}, {"content": "b", "type": "joke"}]))
    parse_error(call("note-add", notes=[{"content": "a", "type": "tip"}, {"content": "b"}]))
    call("note-add", notes=[{"content": f"n{number}", "type": "tip"} for number in range(3)])
    first = call("note-list", limit=2)
    cursor = first.rpartition(" ")[2]
    assert first.count("NOT-") == 2
    assert [line.split()[-1] for line in call("note-list", limit=2, cursor=cursor).splitlines()] == ["n2"]


def test_a_stuck_note_raises_a_question(shopfloor: Shopfloor, call: Call):
    call("note-add", notes=[{"content": "which way?", "type": "stuck"}])
    pending = read_as_operator(shopfloor, lambda uow: uow.run_requests.list_pending(10))
    assert [(each.run, each.kind, each.question) for each in pending] == [("r", "stuck", "which way?")]


def test_an_iteration_has_one_summary(shopfloor: Shopfloor, call: Call):
    assert call("iteration-summary", summary="planned").startswith("Recorded the summary of iteration 0.")
    assert parse_error(call("iteration-summary", summary="again"))[0] == "iteration 0 already has its summary"
    write_as_operator(shopfloor, lambda uow: iterations.begin_iteration(uow, "r", 1, prompt_changed=False))
    assert call("iteration-summary", summary="worked").startswith("Recorded the summary of iteration 1.")
    parse_error(call("iteration-summary", summary="  "))


def test_notes_and_summaries_are_marked_for_the_index(shopfloor: Shopfloor, call: Call):
    call("note-add", notes=[{"content": "first", "type": "tip"}, {"content": "second", "type": "decision"}])
    call("iteration-summary", summary="planned")
    assert [note.content for note in read_as_operator(shopfloor, lambda uow: uow.notes.find_many([2, 99]))] == [
        "second"
    ]
    summary = read_as_operator(shopfloor, lambda uow: uow.runs.find_summary("r", 0))
    assert summary is not None
    assert summary[0] == "planned"
    marks = write_as_operator(shopfloor, lambda uow: uow.index_marks.take(10))
    assert marks == {"session": ["NOT-1", "NOT-2", "r/0"]}


def test_completion_is_rejected_while_a_task_is_open(call: Call):
    add_tasks(call, "a", "b")
    assert parse_error(call("session-complete"))[0] == "TAS-1 is remaining"
    call("task-update", id="TAS-1", status="in_progress")
    assert parse_error(call("session-complete"))[0] == "TAS-1 is in_progress"
    call("task-update", id="TAS-1", status="completed")
    call("task-update", id="TAS-2", status="blocked")
    assert call("session-complete").startswith("Recorded that the session is complete.")


def test_completion_returns_the_verdict_of_the_runner(shopfloor: Shopfloor, call: Call):
    write_as_operator(shopfloor, lambda uow: runs.drive_run(uow, "r", "{}"))

    def complete_with_verdict(verdict: str | None) -> CallResult:
        before = read_as_operator(shopfloor, lambda uow: uow.runs.get("r")).wish
        write_as_operator(shopfloor, lambda uow: runs.record_verdict(uow, "r", before + 1, verdict))
        return shopfloor.answer("loop", "session-complete", {}, "r")

    answer = complete_with_verdict("'make test' ended with exit code 2")
    assert parse_error(answer.body)[0] == "the session is not complete: 'make test' ended with exit code 2"
    assert answer.error is not None
    assert complete_with_verdict(None).body == "The session is complete: every check passed. End your turn now."


def test_every_error_is_text_with_a_next_step(shopfloor: Shopfloor, call: Call):
    cases: list[tuple[str, dict[str, Any]]] = [
        ("task-add", {}), ("task-add", {"tasks": []}), ("task-add", {"tasks": "x"}), ("task-add", {"tasks": [{}]}),
        ("task-add", {"tasks": [{"content": "x", "colour": "red"}]}), ("task-add", {"tasks": [{"content": "\x00"}]}),
        ("task-update", {}), ("task-update", {"id": 1}), ("task-list", {"limit": 0}), ("task-next", {"x": 1}),
        ("note-add", {"notes": [{"content": "x"}]}), ("iteration-summary", {}), ("no-such-tool", {}),
    ]  # fmt: skip
    for tool, arguments in cases:
        answer = shopfloor.answer("loop", tool, arguments, "r")
        assert answer.error is not None, (tool, arguments)
        parse_error(answer.body)


def test_the_latest_run_is_the_default(shopfloor: Shopfloor):
    assert parse_error(shopfloor.call("loop", "task-list"))[0] == "no run has been started yet"
    create_run(shopfloor, "first")
    create_run(shopfloor, "second")
    shopfloor.call("loop", "task-add", {"tasks": [{"content": "a"}]})
    assert shopfloor.call("loop", "task-list", {}, "first").startswith("There are no tasks")
    assert "run 'third' not found" in shopfloor.call("loop", "task-list", {}, "third").lower()


def list_proposals(shopfloor: Shopfloor) -> dict[int, str]:
    """List the open questions about acceptance commands, by number."""
    pending = read_as_operator(shopfloor, lambda uow: uow.run_requests.list_pending(10))
    return {request.number: request.question for request in pending if request.kind == "acceptance"}


def list_acceptance_commands(shopfloor: Shopfloor) -> list[str | None]:
    return [
        task.acceptance for task in read_as_operator(shopfloor, lambda uow: list(run_tasks.iterate_tasks(uow, "r")))
    ]


def test_proposed_command_is_set_when_a_user_approves_it(shopfloor: Shopfloor, call: Call):
    add_tasks(call, "a\nAcceptance command: `make  'the test'`", "b\n  acceptance COMMAND: rm -rf $HOME; id", "c")
    assert list_acceptance_commands(shopfloor) == [None, None, None]
    (first, second), questions = list_proposals(shopfloor), list(list_proposals(shopfloor).values())
    assert questions == [
        "May this command prove TAS-1 done? make 'the test'",
        "May this command prove TAS-2 done? rm -rf '$HOME;' id",
    ]
    for number, answer in ((first, "allow"), (second, "deny")):
        assert shopfloor.call("desk", "inbox_decide", {"request": number, "answer": answer})["answer"] == answer
    assert list_acceptance_commands(shopfloor) == ['["make", "the test"]', None, None]
    assert list_proposals(shopfloor) == {}


def test_command_set_by_a_user_closes_the_proposal(shopfloor: Shopfloor, call: Call):
    add_tasks(call, "a\nAcceptance command: make test")
    [number] = list_proposals(shopfloor)
    write_as_operator(shopfloor, lambda uow: run_tasks.set_acceptance_command(uow, "r", "TAS-1", ["make"]))
    assert (list_proposals(shopfloor), list_acceptance_commands(shopfloor)) == ({}, ['["make"]'])
    late = shopfloor.call("desk", "inbox_decide", {"request": number, "answer": "allow"})
    assert late["error"] == f"question {number} is already answered: withdrawn"
    assert list_acceptance_commands(shopfloor) == ['["make"]']


@pytest.mark.parametrize("command", ["make 'test", "", "`", f"x{'y' * 1000}", "make \u202etest", "make \x1b[31mtest"])
def test_a_command_that_cannot_be_parsed_or_shown_is_rejected(shopfloor: Shopfloor, call: Call, command: str):
    message, _ = parse_error(add_tasks(call, "fine", f"a\nAcceptance command: {command}"))
    assert message.startswith("task 2 of 2: the acceptance command cannot be read: ")
    assert (list_acceptance_commands(shopfloor), list_proposals(shopfloor)) == ([], {})


def test_an_agent_cannot_answer_its_own_proposal(shopfloor: Shopfloor, call: Call):
    add_tasks(call, "a\nAcceptance command: make test")
    [number] = list_proposals(shopfloor)
    seed_agent(shopfloor, "wim", "SUPERVISOR", with_token=False)
    refusal = shopfloor.call("desk", "inbox_decide", {"request": number, "answer": "allow"}, "wim")
    assert refusal["code"] == "PERMISSION_DENIED"
    assert list_acceptance_commands(shopfloor) == [None]


def test_an_invalid_item_of_a_batch_is_named(call: Call):
    tasks: list[dict[str, Any]] = [{"content": "a"}, {"content": "b", "status": "perhaps"}, {"content": "c"}]
    assert parse_error(call("task-add", tasks=tasks))[0] == "task 2 of 3: 'perhaps' is not a status"
    tasks[1] = {"content": 5}
    assert parse_error(call("task-add", tasks=tasks))[0] == "'tasks.1.content' must be a string"
    notes = [{"content": "a", "type": "tip"}, {"content": " ", "type": "tip"}]
    assert parse_error(call("note-add", notes=notes))[0] == "note 2 of 2: the content of a note must not be blank"
    assert parse_error(call("note-add", notes=notes[1:]))[0] == "the content of a note must not be blank"
