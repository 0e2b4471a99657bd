"""One call is one commit: rows, effect and events together, or only the rows of its failure."""

from __future__ import annotations

import asyncio

import pytest

from shopfloor.domain.times import SECOND
from tests.workbench import STATUS, busy, together, wrong_state


def events(floor):
    return floor.rows("SELECT name, reference FROM event ORDER BY id")


def test_rows_effect_and_event_share_one_reference(floor):
    floor.call("bench", "note", {"text": "x"})
    reference = floor.log()[0].reference
    assert [entry.reference for entry in floor.log()] == [reference] * 3
    assert events(floor) == [("decision.logged", reference)]


def test_a_tool_that_refuses_takes_its_effect_back_and_keeps_its_rows(floor):
    floor.tools.failures = [wrong_state()]
    floor.call("bench", "note", {"text": "x"})
    assert [entry.kind for entry in floor.log()] == ["invocation", "error"]
    assert events(floor) == []


def test_a_tool_that_breaks_takes_its_effect_back_and_keeps_its_rows(floor):
    floor.tools.failures = [RuntimeError("no")]
    floor.call("bench", "note", {"text": "x"})
    assert [entry.kind for entry in floor.log()] == ["invocation", "error"]
    assert events(floor) == [("call.escalated", floor.log()[0].reference)]


def test_of_several_attempts_only_the_last_one_leaves_rows(floor):
    floor.tools.failures = [busy(), busy()]
    floor.call("bench", "note", {"text": "x"})
    assert [entry.kind for entry in floor.log()] == ["invocation", "manual", "result"]


def test_a_tool_outside_keeps_what_it_wrote_before_it_failed(floor):
    floor.tools.inside = lambda text: None
    floor.call("bench", "fetch", {"text": "x"})
    assert [entry.kind for entry in floor.log()] == ["invocation", "manual", "result"]


def test_a_tool_outside_that_fails_closes_its_row(floor):
    floor.tools.failures = [RuntimeError("no")]
    floor.call("bench", "fetch", {"text": "x"})
    assert [entry.kind for entry in floor.log()] == ["invocation", "error"]
    assert floor.rows("SELECT count(*) FROM decision WHERE process IS NOT NULL") == [(0,)]


def test_while_a_tool_is_outside_its_row_says_so(floor):
    open_rows: list[object] = []
    floor.tools.inside = lambda text: open_rows.extend(
        floor.rows("SELECT kind, process FROM decision WHERE process IS NOT NULL")
    )
    floor.call("bench", "fetch", {"text": "x"})
    assert open_rows == [("invocation", floor.floor.works.process)]
    floor.floor.works.store.flush()
    assert floor.rows("SELECT count(*) FROM decision WHERE process IS NOT NULL") == [(0,)]


def test_a_tool_that_reads_cannot_write(floor):
    def write(text):
        floor.execute("SELECT 1")

    floor.tools.inside = write
    answer = floor.call("bench", "look", {"text": "x"})
    assert answer in ({"looked": "x"}, {"error": "INTERNAL_ERROR", "message": "An unexpected error occurred"})
    assert floor.traces() == []


def test_many_callers_at_once_each_leave_their_own_rows(floor):
    names = [f"agent-{number}" for number in range(8)]
    for name in names:
        floor.hire(name, "WORKER", with_token=False)

    def call(name):
        return lambda: [floor.call("bench", "note", {"text": f"{name} {turn}"}, name)["noted"] for turn in range(5)]

    answers = together(*(call(name) for name in names))
    assert sorted(text for texts in answers for text in texts) == sorted(floor.traces())
    for name in names:
        found = floor.floor.look(lambda work, name=name: work.decisions.page(limit=50, subject=f"agent:{name}"))
        assert len(found) == 15
        assert len({entry.reference for entry in found}) == 5


def test_an_agent_that_calls_was_there(floor):
    floor.hire("builder", "WORKER", with_token=False)
    floor.pass_time(60 * SECOND)
    before = floor.agent("builder").last_active_at
    floor.call("bench", "note", {"text": "x"}, "builder")
    assert floor.agent("builder").last_active_at >= before + 60 * SECOND


def test_an_agent_that_only_looks_was_there_too(floor):
    floor.hire("builder", "WORKER", with_token=False)
    floor.pass_time(60 * SECOND)
    before = floor.agent("builder").last_active_at
    floor.call("factory", STATUS, {}, "builder")
    floor.floor.works.store.flush()
    assert floor.agent("builder").last_active_at >= before + 60 * SECOND


@pytest.mark.parametrize("tool", ["note", "look", "fetch"])
def test_from_an_event_loop_it_is_the_same(floor, tool):
    answer = asyncio.run(floor.acall("bench", tool, {"text": "x"}))
    assert "x" in answer.values()
    assert [entry.kind for entry in floor.log() if entry.kind != "manual"] == ["invocation", "result"]
