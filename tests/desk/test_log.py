"""The log as people look into it."""

from __future__ import annotations

import json

import pytest

from shopfloor.domain.decisions import spell_reference
from shopfloor.domain.times import MINUTE, iso
from tests.desk.conftest import Desk, cost, series
from tests.workbench import busy


def _decide(desk: Desk, who: str, title: str) -> None:
    desk.agent(who, "mcp__system__log_decision", title=title, body=f"because {title.lower()}")


def test_the_timeline_shows_each_call_once_and_none_of_the_desks_own(desk: Desk) -> None:
    desk.agent("builder", "mcp__agent__get_status")
    desk("people_agents")
    desk.settle()
    calls = desk("log_search")["calls"]
    assert [(call["agent"], call["tool"], call["outcome"]) for call in calls] == [
        ("agent:builder", "mcp__agent__get_status", "ok")
    ]
    desk.settle()
    with_desk = desk("log_search", desk=True)["calls"]
    assert [call["tool"] for call in with_desk] == ["log_search", "people_agents", "mcp__agent__get_status"]


def test_a_look_of_a_page_at_a_list_is_one_of_the_desks_own(desk: Desk) -> None:
    for tool in ("show_list", "show_deleted"):
        desk.floor.answer("personal", tool, {}, "guest")
    desk.floor.answer("personal", "add", {"title": "Water plants"}, "guest")
    desk.settle()
    assert [call["tool"] for call in desk("log_search")["calls"]] == ["add"]
    assert {call["tool"] for call in desk("log_search", desk=True)["calls"]} >= {"show_list", "show_deleted", "add"}


def test_every_filter_narrows_the_timeline(desk: Desk) -> None:
    _decide(desk, "builder", "Use a queue")
    _decide(desk, "tester", "Use a stack")
    desk.floor.answer("factory", "mcp__supervisor__list_agents", {}, "builder")
    desk.settle()

    def found(**sought: object) -> list[tuple[str, str]]:
        return [(call["agent"], call["outcome"]) for call in desk("log_search", **sought)["calls"]]

    assert found(agent="tester") == [("agent:tester", "ok"), ("agent:tester", "decision")]
    assert found(agent="agent:tester", outcome="decision") == [("agent:tester", "decision")]
    assert found(outcome="error") == [("agent:builder", "PERMISSION_DENIED")]
    assert found(outcome="PERMISSION_DENIED", agent="tester") == []
    assert found(tool="mcp__supervisor__list_agents") == [("agent:builder", "PERMISSION_DENIED")]
    assert found(outcome="decision") == [("agent:tester", "decision"), ("agent:builder", "decision")]
    assert {who for who, _ in found(text="A STACK")} == {"agent:tester"}
    assert found(text="100%") == []
    assert found(since="2100-01-01T00:00Z") == []
    assert found(until="2000-01-01") == []
    assert len(found(since="2000-01-01", until="2100-01-01T00:00+02:00")) == 5


def test_a_time_that_is_none_is_refused_by_name(desk: Desk) -> None:
    assert desk.refusal("log_search", since="yesterday") == "'yesterday' is not a time; write 2026-03-01T09:00Z"


def test_pages_follow_each_other_without_a_gap(desk: Desk) -> None:
    for number in range(7):
        _decide(desk, "builder", f"Decision {number}")
    desk.settle()
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


def test_a_call_is_opened_by_its_reference(desk: Desk) -> None:
    desk.agent("builder", "mcp__mail__send", toAgentId="tester", subject="Hello", body="A body")
    desk.settle()
    call = desk("log_search", tool="mcp__mail__send")["calls"][0]
    opened = desk("log_call", reference=call["reference"])
    assert opened["input"] == {"toAgentId": "tester", "subject": "Hello", "body": "A body"}
    assert opened["answer"]["mailId"] == "mail-1"
    assert opened["outcome"] == "ok"
    assert opened["ms"] >= 0
    assert opened["retries"] == 0
    assert [event["name"] for event in opened["events"]] == ["mail.sent"]
    assert [row["kind"] for row in opened["rows"]] == ["invocation", "result"]


def test_a_failed_call_shows_its_stack_and_retries_to_people(desk: Desk) -> None:
    desk.floor.tools.failures += [busy(), busy()]
    reference = desk.floor.answer("bench", "note", {"text": "twice"}).call.reference
    assert desk("log_call", reference=spell_reference(reference))["retries"] == 2
    desk.floor.tools.failures.append(RuntimeError("a bug"))
    broken = desk.floor.answer("bench", "note", {"text": "broken"}).call.reference
    opened = desk("log_call", reference=spell_reference(broken))
    assert opened["outcome"] == "INTERNAL_ERROR"
    assert "RuntimeError: a bug" in opened["stack"]
    assert [event["name"] for event in opened["events"]] == ["call.escalated"]


def test_what_is_no_reference_is_not_found(desk: Desk) -> None:
    for text in ("ref-zzz", "nonsense!", "ref-zzzzzzzzzzzzz", "0"):
        assert desk.refusal("log_call", reference=text) == "There is no call with this reference"


def test_an_answer_of_the_desk_is_not_kept_twice(desk: Desk) -> None:
    _decide(desk, "builder", "Once")
    desk.settle()
    desk("log_search")
    desk.settle()
    row = next(entry for entry in desk.floor.log() if entry.tool == "log_search" and entry.kind == "result")
    assert set(json.loads(row.context)) == {"size"}


def _fill(desk: Desk, many: int) -> None:
    """So many calls, written as one statement: what counts is how the log is looked through."""
    desk.floor.execute(
        "INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
        f" created_at, duration) SELECT 1, i, 'result', 'agent:w' || (i % 20), 'agent:w', 'factory', 'tool' || (i % 7),"
        f" 'd', 'r', '{{}}', i, 1000 FROM ({series(desk)}) AS numbers",
        many=many,
    )
    if desk.engine == "postgres":
        desk.floor.execute("ANALYZE decision")


@pytest.mark.parametrize("many", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_log_of_many_rows_opens_as_fast_as_one_of_a_hundred(desk: Desk, many: int) -> None:
    _fill(desk, 100)
    searches: list[dict[str, object]] = [{}, {"agent": "w3"}, {"tool": "tool3"}, {"until": iso(50 * MINUTE)}]
    before = [cost(desk, "log_search", **sought) for sought in searches]
    _fill(desk, many)
    after = [cost(desk, "log_search", **sought) for sought in searches]
    for sought, short, long in zip(searches, before, after, strict=True):
        assert long < 4 * short + 0.02, (sought, short, long)


def test_a_search_for_what_is_not_there_ends_and_says_where(desk: Desk) -> None:
    _fill(desk, 45_000)
    pages, cursor = 0, None
    while True:
        page = desk("log_search", text="nowhere to be found", **({"cursor": cursor} if cursor else {}))
        assert page["calls"] == []
        pages += 1
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert pages == 3
