"""The log at the desk."""

from __future__ import annotations

import json

import pytest

from shopfloor.domain.decisions import format_reference
from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.times import MINUTE, format_iso
from shopfloor.toolkit import Credential
from shopfloor.usecases import runs
from tests.rows_read import grew
from tests.toolsets.desk.conftest import Desk, count_rows, number_series_sql
from tests.workbench import busy


def _log_decision(desk: Desk, who: str, title: str) -> None:
    desk.call_as_agent(who, "mcp__system__log_decision", title=title, body=f"because {title.lower()}")


def test_timeline_shows_each_call_once_and_omits_calls_of_the_desk(desk: Desk) -> None:
    desk.call_as_agent("builder", "mcp__agent__get_status")
    desk("agent_list")
    desk.flush_log()
    calls = desk("log_search")["calls"]
    assert [(call["agent"], call["tool"], call["outcome"]) for call in calls] == [
        ("agent:builder", "mcp__agent__get_status", "ok")
    ]
    desk.flush_log()
    with_desk = desk("log_search", desk=True)["calls"]
    assert [call["tool"] for call in with_desk] == ["log_search", "agent_list", "mcp__agent__get_status"]


def test_list_call_of_a_page_counts_as_a_call_of_the_desk(desk: Desk) -> None:
    for tool in ("show_list", "show_deleted"):
        desk.shopfloor.answer("personal", tool, {}, "guest")
    desk.shopfloor.answer("personal", "add", {"title": "Water plants"}, "guest")
    desk.flush_log()
    assert [call["tool"] for call in desk("log_search")["calls"]] == ["add"]
    assert {call["tool"] for call in desk("log_search", desk=True)["calls"]} >= {"show_list", "show_deleted", "add"}


def test_timeline_omits_what_a_runner_did_unless_it_failed_or_is_asked_for(desk: Desk) -> None:
    desk.shopfloor.write(lambda uow: runs.create_run(uow, "night", spec="s", project=".", options="{}"))
    engine = desk.shopfloor.engine
    runner = Credential(trusted=Principal(Kind.RUNNER, "night"))
    desk.call_as_agent("builder", "mcp__agent__get_status")
    desk.flush_log()
    for tool in ("run_get", "run_finish"):
        engine.call(engine.new_request("run", tool, {}, runner, "test"))
    desk.flush_log()

    def search(**criteria: object) -> list[tuple[str, str]]:
        return [(call["tool"], call["outcome"]) for call in desk("log_search", **criteria)["calls"]]

    assert search() == [("run_finish", "INVALID_INPUT"), ("mcp__agent__get_status", "ok")]
    assert search(tool="run_get") == search(tool="run_g") == [("run_get", "ok")]
    assert ("run_get", "ok") in search(agent="runner:night")
    assert ("run_get", "ok") in search(desk=True)


def test_every_filter_narrows_the_timeline(desk: Desk) -> None:
    _log_decision(desk, "builder", "Use a queue")
    _log_decision(desk, "tester", "Use a stack")
    desk.shopfloor.answer("factory", "mcp__supervisor__list_agents", {}, "builder")
    desk.flush_log()

    def search(**criteria: object) -> list[tuple[str, str]]:
        return [(call["agent"], call["outcome"]) for call in desk("log_search", **criteria)["calls"]]

    assert search(agent="tester") == [("agent:tester", "ok"), ("agent:tester", "decision")]
    assert search(agent="agent:tester", outcome="decision") == [("agent:tester", "decision")]
    assert search(outcome="error") == [("agent:builder", "PERMISSION_DENIED")]
    assert search(outcome="PERMISSION_DENIED", agent="tester") == []
    assert search(tool="mcp__supervisor__list_agents") == [("agent:builder", "PERMISSION_DENIED")]
    assert search(outcome="decision") == [("agent:tester", "decision"), ("agent:builder", "decision")]
    assert {who for who, _ in search(text="A STACK")} == {"agent:tester"}
    assert search(text="100%") == []
    assert search(since="2100-01-01T00:00Z") == []
    assert search(until="2000-01-01") == []
    assert len(search(since="2000-01-01", until="2100-01-01T00:00+02:00")) == 5


def test_invalid_time_is_rejected_by_name(desk: Desk) -> None:
    assert (
        desk.expect_error("log_search", since="sometime")
        == "'since' must be a time such as 1h, yesterday, 09:30 or 2026-03-01T09:00Z, not 'sometime'"
    )


def test_pages_follow_each_other_without_a_gap(desk: Desk) -> None:
    for number in range(7):
        _log_decision(desk, "builder", f"Decision {number}")
    desk.flush_log()
    seen: list[int] = []
    cursor = None
    while True:
        page = desk("log_search", limit=3, **({"cursor": cursor} if cursor else {}))
        seen += [call["id"] for call in page["calls"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 14
    assert seen == sorted(seen, reverse=True)


def test_call_is_found_by_its_reference(desk: Desk) -> None:
    desk.call_as_agent("builder", "mcp__mail__send", toAgentId="tester", subject="Hello", body="A body")
    desk.flush_log()
    call = desk("log_search", tool="mcp__mail__send")["calls"][0]
    opened = desk("log_call", reference=call["reference"])
    assert opened["input"] == {"toAgentId": "tester", "subject": "Hello", "body": "A body"}
    assert opened["answer"]["mailId"] == "mail-1"
    assert opened["outcome"] == "ok"
    assert opened["ms"] >= 0
    assert opened["retries"] == 0
    assert [event["name"] for event in opened["events"]] == ["mail.sent"]
    assert [row["kind"] for row in opened["rows"]] == ["invocation", "result"]


def test_failed_call_shows_its_stack_and_retries_to_users(desk: Desk) -> None:
    desk.shopfloor.tools.failures += [busy(), busy()]
    reference = desk.shopfloor.answer("bench", "note", {"text": "twice"}).record.reference
    assert desk("log_call", reference=format_reference(reference))["retries"] == 2
    desk.shopfloor.tools.failures.append(RuntimeError("a bug"))
    broken = desk.shopfloor.answer("bench", "note", {"text": "broken"}).record.reference
    opened = desk("log_call", reference=format_reference(broken))
    assert opened["outcome"] == "INTERNAL_ERROR"
    assert "RuntimeError: a bug" in opened["stack"]
    assert [event["name"] for event in opened["events"]] == ["call.escalated"]


def test_unknown_reference_is_not_found(desk: Desk) -> None:
    for text in ("ref-zzz", "nonsense!", "ref-zzzzzzzzzzzzz", "0"):
        assert desk.expect_error("log_call", reference=text) == "Call not found"


def test_result_of_a_desk_call_is_not_stored_twice(desk: Desk) -> None:
    _log_decision(desk, "builder", "Once")
    desk.flush_log()
    desk("log_search")
    desk.flush_log()
    row = next(entry for entry in desk.shopfloor.log() if entry.tool == "log_search" and entry.kind == "result")
    assert set(json.loads(row.context)) == {"size"}


def _insert_rows(desk: Desk, many: int) -> None:
    """Insert calls by one statement. The tests measure only how the log is read."""
    desk.shopfloor.execute(
        "INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
        f" created_at, duration) SELECT 1, i, 'result', 'agent:w' || (i % 20), 'agent:w', 'factory', 'tool' || (i % 7),"
        f" 'd', 'r', '{{}}', i, 1000 FROM ({number_series_sql(desk)}) AS numbers",
        many=many,
    )
    if desk.engine == "postgres":
        desk.shopfloor.execute("ANALYZE decision")


@pytest.mark.parametrize("many", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_page_of_a_large_log_reads_as_many_rows_as_one_of_a_small_log(desk: Desk, many: int) -> None:
    _insert_rows(desk, 10_000)
    searches: list[dict[str, object]] = [{}, {"agent": "w3"}, {"tool": "tool3"}, {"until": format_iso(50 * MINUTE)}]
    before = [count_rows(desk, "log_search", **criteria) for criteria in searches]
    _insert_rows(desk, many)
    after = [count_rows(desk, "log_search", **criteria) for criteria in searches]
    for criteria, short, long in zip(searches, before, after, strict=True):
        assert not grew(short, long), (criteria, short, long)


def test_search_without_matches_ends_and_returns_where_it_stopped(desk: Desk) -> None:
    _insert_rows(desk, 45_000)
    pages, cursor = 0, None
    while True:
        page = desk("log_search", text="nowhere to be found", **({"cursor": cursor} if cursor else {}))
        assert page["calls"] == []
        pages += 1
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert pages == 3


def test_summary_of_a_call_whose_response_says_nothing_is_taken_from_its_input(desk: Desk) -> None:
    desk.shopfloor.settings.project.joinpath("cart.py").write_text("total = 1\n")
    desk.shopfloor.answer("context", "read_file", {"path": "cart.py"}, "builder")
    desk.call_as_agent("builder", "mcp__task__claim")
    task = desk("task_create", title="Sum the cart", assignee="builder")["id"]
    desk.call_as_agent("builder", "mcp__task__add_comment", taskId=task, body="In  integer\ncents")
    desk.call_as_agent("builder", "mcp__mail__send", toHuman=True, subject="Wrong prices", body="They are too low")
    _log_decision(desk, "lead", "Use integers")
    desk.flush_log()
    assert desk("log_search", outcome="decision")["calls"][0]["summary"] == "Use integers"
    summaries = {call["tool"]: call["summary"] for call in desk("log_search")["calls"]}
    assert summaries["read_file"] == "cart.py"
    assert summaries["mcp__task__add_comment"] == "In integer cents"
    assert summaries["mcp__task__claim"] == "No task without an epic is ready; you have no epic"
    assert summaries["mcp__mail__send"] == "mail-2 · Wrong prices"
    shown = {call["tool"]: call["summary"] for call in desk("agent_show", name="builder")["calls"]}
    assert shown["mcp__task__add_comment"] == "In integer cents"
