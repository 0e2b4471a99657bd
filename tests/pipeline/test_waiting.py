"""A tool that has nothing to say yet waits for its topic: woken by the commit, by its deadline, or by the end."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from shopfloor.toolkit import Answer
from tests.workbench import LOG_DECISION, PATIENCE, until, until_then

LONG = {"text": "the mail came", "seconds": 3600}


@pytest.fixture
def waiting(floor):
    """A call that waits in another thread: `answers` fills when it ends."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(floor.ask("await", LONG)))
    thread.start()
    until(lambda: floor.tools.seen)
    until(lambda: floor.rows("SELECT id FROM decision WHERE process IS NOT NULL"))
    yield answers
    floor.floor.interrupt()
    thread.join(PATIENCE)


def open_rows(floor):
    floor.floor.works.store.flush()
    return floor.rows("SELECT kind, process FROM decision WHERE process IS NOT NULL")


def test_a_deadline_in_the_past_is_an_answer_at_once(floor):
    assert floor.call("bench", "await", {"text": "x", "seconds": 0}) == {"came": None, "state": "asked"}


def test_what_is_there_already_needs_no_waiting(floor):
    floor.call("bench", "note", {"text": "x"})
    assert floor.call("bench", "await", {"text": "x"}) == {"came": "x"}
    assert floor.tools.seen == ["x", "x"]


def test_it_waits_until_the_deadline(floor):
    began = time.monotonic()
    assert floor.call("bench", "await", {"text": "x", "seconds": 1}) == {"came": None, "state": "asked"}
    assert time.monotonic() - began >= 1


def test_the_commit_wakes_it(floor, waiting):
    floor.call("factory", LOG_DECISION, {"title": "the mail came", "body": ""})
    until(lambda: waiting)
    assert waiting[0].body == {"came": "the mail came"}


def test_a_commit_about_something_else_lets_it_go_on_waiting(floor, waiting):
    floor.call("factory", LOG_DECISION, {"title": "no mail", "body": ""})
    until(lambda: len(floor.tools.seen) > 1)
    assert waiting == []


def test_the_commit_of_another_process_wakes_it(floor, waiting, opened):
    other = opened()
    other.call("factory", LOG_DECISION, {"title": "the mail came", "body": ""})
    until(lambda: waiting)
    assert waiting[0].body == {"came": "the mail came"}


def test_while_it_waits_its_row_is_open_and_the_process_is_named(floor, waiting):
    assert open_rows(floor) == [("invocation", floor.floor.works.process)]


def test_when_it_has_its_answer_the_log_has_two_rows_and_none_is_open(floor, waiting):
    floor.call("factory", LOG_DECISION, {"title": "the mail came", "body": ""})
    until(lambda: waiting)
    rows = [entry for entry in floor.log() if entry.tool == "await"]
    assert [(entry.kind, entry.context) for entry in rows] == [
        ("invocation", '{"text":"the mail came","seconds":3600}'),
        ("result", '{"came":"the mail came"}'),
    ]
    assert open_rows(floor) == []
    assert rows[1].duration == rows[1].created_at - rows[0].created_at


@pytest.mark.parametrize("error", [RuntimeError("no"), None])
def test_whatever_ends_it_closes_its_row(floor, waiting, error):
    if error:
        floor.tools.failures = [error]
        floor.call("factory", LOG_DECISION, {"title": "wake up", "body": ""})
    else:
        floor.floor.interrupt()
    until(lambda: waiting)
    assert open_rows(floor) == []
    assert [entry.kind for entry in floor.log() if entry.tool == "await"] == [
        "invocation",
        "error" if error else "result",
    ]


def test_the_end_of_the_floor_is_the_deadline(floor, waiting):
    floor.floor.interrupt()
    until(lambda: waiting)
    assert waiting[0].body == {"came": None, "state": "asked"}


def test_a_token_revoked_meanwhile_ends_it_and_closes_its_row(floor):
    _, token = floor.hire("builder", "WORKER", with_token=True)
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(floor.ask("await", LONG, token=token)))
    thread.start()
    until(lambda: open_rows(floor))
    for issued in floor.tokens():
        floor.revoke_token(issued.id)

    def refused():
        floor.call("factory", LOG_DECISION, {"title": "wake up", "body": ""})
        return answers

    until(refused)
    thread.join(PATIENCE)
    assert answers[0].body["error"] == "PERMISSION_DENIED"
    assert open_rows(floor) == []


def test_many_that_wait_hold_no_thread_and_no_place_and_all_are_let_in_again(opened):
    floor = opened(settings={"calls": 4})

    async def all_wait():
        calls: list[asyncio.Future[Answer]] = []
        while len(calls) < 100:
            calls.append(asyncio.ensure_future(floor.floor.acall(floor.a_call("await", LONG))))
            await until_then(lambda: floor.floor._waiting == len(calls))
        threads = threading.active_count()
        served = await floor.floor.acall(floor.a_call("look", {}))
        floor.floor.interrupt()
        return threads, served.body, [answer.body for answer in await asyncio.gather(*calls)]

    threads, served, answers = asyncio.run(all_wait())
    assert threads < 40
    assert served == {"looked": ""}
    assert answers == [{"came": None, "state": "asked"}] * 100
    assert open_rows(floor) == []


def test_one_too_many_that_wants_to_wait_is_told_to_come_back_and_leaves_nothing_open(opened):
    floor = opened(settings={"waits": 1})

    async def two():
        first = asyncio.ensure_future(floor.floor.acall(floor.a_call("await", LONG)))
        await until_then(lambda: floor.floor._waiting)
        second = await floor.floor.acall(floor.a_call("await", LONG))
        floor.floor.interrupt()
        return await first, second

    first, second = asyncio.run(two())
    assert first.body == {"came": None, "state": "asked"}
    assert second.body == {
        "error": "TRANSIENT_ERROR",
        "message": "Too many calls are under way; try again in a moment.",
    }
    assert open_rows(floor) == []


def test_a_caller_that_goes_away_leaves_nothing_open(floor):
    async def give_up():
        call = asyncio.ensure_future(floor.floor.acall(floor.a_call("await", LONG)))
        await until_then(lambda: floor.floor._waiting)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(give_up())
    until(lambda: open_rows(floor) == [])
    assert [entry.kind for entry in floor.log()] == ["invocation", "error"]
