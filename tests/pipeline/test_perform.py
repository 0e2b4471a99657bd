"""One call is one commit: rows, effect and events together, or only the rows of its failure."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from shopfloor.domain.times import SECOND
from tests.operator_access import read_agent, read_as_operator
from tests.workbench import STATUS, busy, run_together, wrong_state


def list_events(shopfloor):
    return shopfloor.rows("SELECT name, reference FROM event ORDER BY id")


def test_rows_effect_and_event_share_one_reference(shopfloor):
    shopfloor.call("bench", "note", {"text": "x"})
    reference = shopfloor.log()[0].reference
    assert [entry.reference for entry in shopfloor.log()] == [reference] * 3
    assert list_events(shopfloor) == [("decision.logged", reference)]


def test_rejecting_tool_rolls_back_its_effect_and_keeps_its_rows(shopfloor):
    shopfloor.tools.failures = [wrong_state()]
    shopfloor.call("bench", "note", {"text": "x"})
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "error"]
    assert list_events(shopfloor) == []


def test_crashing_tool_rolls_back_its_effect_and_keeps_its_rows(shopfloor):
    shopfloor.tools.failures = [RuntimeError("no")]
    shopfloor.call("bench", "note", {"text": "x"})
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "error"]
    assert list_events(shopfloor) == [("call.escalated", shopfloor.log()[0].reference)]


def test_only_the_last_of_several_attempts_is_logged(shopfloor):
    shopfloor.tools.failures = [busy(), busy()]
    shopfloor.call("bench", "note", {"text": "x"})
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "manual", "result"]


def test_outside_tool_keeps_what_it_wrote_before_it_failed(shopfloor):
    shopfloor.tools.inside = lambda text: None
    shopfloor.call("bench", "fetch", {"text": "x"})
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "manual", "result"]


def test_failing_outside_tool_closes_its_row(shopfloor):
    shopfloor.tools.failures = [RuntimeError("no")]
    shopfloor.call("bench", "fetch", {"text": "x"})
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "error"]
    assert shopfloor.rows("SELECT count(*) FROM decision WHERE process IS NOT NULL") == [(0,)]


def test_row_of_an_outside_tool_is_open_while_it_runs(shopfloor):
    open_rows: list[object] = []
    shopfloor.tools.inside = lambda text: open_rows.extend(
        shopfloor.rows("SELECT kind, process FROM decision WHERE process IS NOT NULL")
    )
    shopfloor.call("bench", "fetch", {"text": "x"})
    assert open_rows == [("invocation", shopfloor.engine.database.registration.number)]
    shopfloor.engine.database.store.flush()
    assert shopfloor.rows("SELECT count(*) FROM decision WHERE process IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("tool", ["fetch", "look"])
def test_end_of_a_call_that_is_logged_later_can_be_found_in_the_log(shopfloor, monkeypatch, tool):
    # The store asks for it when the outcome of its commit is unknown.
    store, queued = shopfloor.engine.database.store, []
    monkeypatch.setattr(store, "later", lambda fn, is_done=None: queued.append((fn, is_done)))
    shopfloor.call("bench", tool, {"text": "x"})
    [(fn, is_done)] = [each for each in queued if each[1] is not None]
    assert not store.read(is_done)
    store.write(fn)
    assert store.read(is_done)


def test_outside_tool_that_is_retried_has_one_row_for_its_start_and_one_for_its_end(shopfloor):
    shopfloor.tools.failures = [busy(), busy()]
    shopfloor.call("bench", "fetch", {"text": "x"})
    shopfloor.engine.database.store.flush()
    assert [entry.kind for entry in shopfloor.log() if entry.kind != "manual"] == ["invocation", "result"]
    assert shopfloor.rows("SELECT count(*) FROM decision WHERE process IS NOT NULL") == [(0,)]


def test_marking_mail_as_delivered_may_be_repeated(open_workbench, postgres_database, monkeypatch):
    # After a failover, the id of a transaction does not say whether it was committed.
    shopfloor = open_workbench(settings={"database": postgres_database})
    shopfloor.seed_agent("ann", "WORKER", with_token=False)
    shopfloor.call("factory", "mcp__mail__send", {"toAgentId": "ann", "subject": "s", "body": "b"})
    store, queued = shopfloor.engine.database.store, []
    monkeypatch.setattr(store, "later", lambda fn, is_done=None: queued.append((fn, is_done)))
    shopfloor.call("factory", "mcp__system__log_decision", {"title": "t", "body": "b"}, "ann")
    [(fn, is_done)] = queued
    for _ in range(2):
        store.write(fn)
        assert not store.read(is_done)
    assert shopfloor.rows("SELECT undelivered FROM receipt") == [(0,)]


def test_read_only_tool_cannot_write(shopfloor):
    def write(text):
        shopfloor.execute("SELECT 1")

    shopfloor.tools.inside = write
    answer = shopfloor.call("bench", "look", {"text": "x"})
    assert answer in ({"looked": "x"}, {"error": "INTERNAL_ERROR", "message": "An unexpected error occurred"})
    assert shopfloor.traces() == []


def list_rows(subject, uow):
    return uow.decisions.list_page(limit=50, subject=subject)


def test_concurrent_callers_each_have_their_own_rows(shopfloor):
    names = [f"agent-{number}" for number in range(8)]
    for name in names:
        shopfloor.seed_agent(name, "WORKER", with_token=False)

    def call(name):
        return lambda: [shopfloor.call("bench", "note", {"text": f"{name} {turn}"}, name)["noted"] for turn in range(5)]

    answers = run_together(*(call(name) for name in names))
    assert sorted(text for texts in answers for text in texts) == sorted(shopfloor.traces())
    for name in names:
        subject = f"agent:{name}"
        found = read_as_operator(shopfloor, partial(list_rows, subject))
        assert len(found) == 15
        assert len({entry.reference for entry in found}) == 5


def test_write_updates_the_agents_last_activity(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    shopfloor.pass_time(60 * SECOND)
    before = read_agent(shopfloor, "builder").last_active_at
    shopfloor.call("bench", "note", {"text": "x"}, "builder")
    assert read_agent(shopfloor, "builder").last_active_at >= before + 60 * SECOND


def test_read_updates_the_agents_last_activity(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    shopfloor.pass_time(60 * SECOND)
    before = read_agent(shopfloor, "builder").last_active_at
    shopfloor.call("factory", STATUS, {}, "builder")
    shopfloor.engine.database.store.flush()
    assert read_agent(shopfloor, "builder").last_active_at >= before + 60 * SECOND


@pytest.mark.parametrize("tool", ["note", "look", "fetch"])
def test_call_from_an_event_loop_returns_the_same(shopfloor, tool):
    answer = asyncio.run(shopfloor.acall("bench", tool, {"text": "x"}))
    assert "x" in answer.values()
    assert [entry.kind for entry in shopfloor.log() if entry.kind != "manual"] == ["invocation", "result"]


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_concurrent_calls_of_an_agent_with_unread_mail_run_once_each(shopfloor):
    _, token = shopfloor.seed_agent("builder", "WORKER", with_token=True)
    mail = {"toAgentId": "builder", "subject": "s", "body": "b"}
    assert shopfloor.call("factory", "mcp__mail__send", mail)["success"]
    notices: list[str | None] = []

    def call_again(text):
        if text == "first" and not notices:
            run_together(lambda: notices.append(shopfloor.ask("note", {"text": "second"}, token=token).record.notice))

    shopfloor.tools.inside = call_again
    notices.append(shopfloor.ask("note", {"text": "first"}, token=token).record.notice)
    assert set(notices) == {"You have 1 unread mail; newest from local: mcp__mail__list_inbox"}
    assert shopfloor.tools.seen == ["first", "second"]
    shopfloor.engine.database.store.flush()
    assert shopfloor.rows("SELECT undelivered FROM receipt") == [(0,)]
