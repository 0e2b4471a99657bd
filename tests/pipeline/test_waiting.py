"""A tool without a result yet waits for its topic, until a commit, its deadline or shutdown."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from shopfloor.toolkit import CallResult
from tests.workbench import LOG_DECISION, PATIENCE, wait_until, wait_until_async

LONG = {"text": "the mail came", "seconds": 3600}


@pytest.fixture
def waiting_answers(shopfloor):
    """The results of a call that waits in another thread; empty until it ends."""
    answers: list[CallResult] = []
    thread = threading.Thread(target=lambda: answers.append(shopfloor.ask("await", LONG)))
    thread.start()
    wait_until(lambda: shopfloor.tools.seen)
    wait_until(lambda: shopfloor.rows("SELECT id FROM decision WHERE process IS NOT NULL"))
    yield answers
    shopfloor.engine.cancel_waits()
    thread.join(PATIENCE)


def list_open_rows(shopfloor):
    shopfloor.engine.database.store.flush()
    return shopfloor.rows("SELECT kind, process FROM decision WHERE process IS NOT NULL")


def test_deadline_in_the_past_returns_immediately(shopfloor):
    assert shopfloor.call("bench", "await", {"text": "x", "seconds": 0}) == {"came": None, "state": "asked"}


def test_available_result_returns_without_waiting(shopfloor):
    shopfloor.call("bench", "note", {"text": "x"})
    assert shopfloor.call("bench", "await", {"text": "x"}) == {"came": "x"}
    assert shopfloor.tools.seen == ["x", "x"]


def test_call_waits_until_its_deadline(shopfloor):
    began = time.monotonic()
    assert shopfloor.call("bench", "await", {"text": "x", "seconds": 1}) == {"came": None, "state": "asked"}
    assert time.monotonic() - began >= 1


def test_commit_wakes_the_call(shopfloor, waiting_answers):
    shopfloor.call("factory", LOG_DECISION, {"title": "the mail came", "body": ""})
    wait_until(lambda: waiting_answers)
    assert waiting_answers[0].body == {"came": "the mail came"}


def test_commit_on_another_topic_does_not_wake_the_call(shopfloor, waiting_answers):
    shopfloor.call("factory", LOG_DECISION, {"title": "no mail", "body": ""})
    wait_until(lambda: len(shopfloor.tools.seen) > 1)
    assert waiting_answers == []


def test_commit_of_another_process_wakes_the_call(shopfloor, waiting_answers, open_workbench):
    other = open_workbench()
    other.call("factory", LOG_DECISION, {"title": "the mail came", "body": ""})
    wait_until(lambda: waiting_answers)
    assert waiting_answers[0].body == {"came": "the mail came"}


def test_waiting_call_has_an_open_row_with_its_process(shopfloor, waiting_answers):
    assert list_open_rows(shopfloor) == [("invocation", shopfloor.engine.database.registration.number)]


def test_answered_call_has_two_rows_and_none_is_open(shopfloor, waiting_answers):
    shopfloor.call("factory", LOG_DECISION, {"title": "the mail came", "body": ""})
    wait_until(lambda: waiting_answers)
    rows = [entry for entry in shopfloor.log() if entry.tool == "await"]
    assert [(entry.kind, entry.context) for entry in rows] == [
        ("invocation", '{"text":"the mail came","seconds":3600}'),
        ("result", '{"came":"the mail came"}'),
    ]
    assert list_open_rows(shopfloor) == []
    assert rows[1].duration == rows[1].created_at - rows[0].created_at


@pytest.mark.parametrize("error", [RuntimeError("no"), None])
def test_every_ending_of_a_waiting_call_closes_its_row(shopfloor, waiting_answers, error):
    if error:
        shopfloor.tools.failures = [error]
        shopfloor.call("factory", LOG_DECISION, {"title": "wake up", "body": ""})
    else:
        shopfloor.engine.cancel_waits()
    wait_until(lambda: waiting_answers)
    assert list_open_rows(shopfloor) == []
    assert [entry.kind for entry in shopfloor.log() if entry.tool == "await"] == [
        "invocation",
        "error" if error else "result",
    ]


def test_shutdown_ends_the_wait_as_its_deadline_would(shopfloor, waiting_answers):
    shopfloor.engine.cancel_waits()
    wait_until(lambda: waiting_answers)
    assert waiting_answers[0].body == {"came": None, "state": "asked"}


def test_revoked_token_ends_the_wait_and_closes_its_row(shopfloor):
    _, token = shopfloor.seed_agent("builder", "WORKER", with_token=True)
    answers: list[CallResult] = []
    thread = threading.Thread(target=lambda: answers.append(shopfloor.ask("await", LONG, token=token)))
    thread.start()
    wait_until(lambda: list_open_rows(shopfloor))
    for issued in shopfloor.list_tokens():
        shopfloor.revoke_token(issued["id"])

    def wake_and_read_answers():
        shopfloor.call("factory", LOG_DECISION, {"title": "wake up", "body": ""})
        return answers

    wait_until(wake_and_read_answers)
    thread.join(PATIENCE)
    assert answers[0].body["error"] == "PERMISSION_DENIED"
    assert list_open_rows(shopfloor) == []


def test_waiting_calls_hold_no_thread_and_no_slot_and_all_resume(open_workbench):
    shopfloor = open_workbench(settings={"calls": 4})

    async def start_waits():
        calls: list[asyncio.Future[CallResult]] = []
        while len(calls) < 100:
            calls.append(asyncio.ensure_future(shopfloor.engine.acall(shopfloor.new_request("await", LONG))))
            await wait_until_async(lambda: shopfloor.engine._admission.waiting == len(calls))
        threads = threading.active_count()
        served = await shopfloor.engine.acall(shopfloor.new_request("look", {}))
        shopfloor.engine.cancel_waits()
        return threads, served.body, [answer.body for answer in await asyncio.gather(*calls)]

    threads, served, answers = asyncio.run(start_waits())
    assert threads < 40
    assert served == {"looked": ""}
    assert answers == [{"came": None, "state": "asked"}] * 100
    assert list_open_rows(shopfloor) == []


def test_caller_that_leaves_while_its_call_waits_to_resume_leaves_no_open_row(open_workbench):
    shopfloor = open_workbench(settings={"calls": 1})
    engine = shopfloor.engine

    async def leave_while_resuming():
        call = asyncio.ensure_future(engine.acall(shopfloor.new_request("await", LONG)))
        await wait_until_async(lambda: engine._admission.waiting == 1)
        async with engine._resumptions:
            engine.topics.wake_all()
            await wait_until_async(lambda: engine._admission.waiting == 0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(leave_while_resuming())
    assert list_open_rows(shopfloor) == []


def test_wait_over_the_limit_is_rejected_as_transient_and_leaves_no_open_row(open_workbench):
    shopfloor = open_workbench(settings={"waits": 1})

    async def start_two_waits():
        first = asyncio.ensure_future(shopfloor.engine.acall(shopfloor.new_request("await", LONG)))
        await wait_until_async(lambda: shopfloor.engine._admission.waiting)
        second = await shopfloor.engine.acall(shopfloor.new_request("await", LONG))
        shopfloor.engine.cancel_waits()
        return await first, second

    first, second = asyncio.run(start_two_waits())
    assert first.body == {"came": None, "state": "asked"}
    assert second.body == {
        "error": "TRANSIENT_ERROR",
        "message": "Too many calls in flight; retry shortly.",
    }
    assert list_open_rows(shopfloor) == []


def test_waits_that_are_all_woken_resume_a_few_at_a_time(open_workbench):
    shopfloor = open_workbench(settings={"calls": 2})
    in_flight: list[int] = []

    async def wake_all():
        calls: list[asyncio.Future[CallResult]] = []
        while len(calls) < 12:
            calls.append(asyncio.ensure_future(shopfloor.engine.acall(shopfloor.new_request("await", LONG))))
            await wait_until_async(lambda: shopfloor.engine._admission.waiting == len(calls))
        shopfloor.tools.inside = lambda _: in_flight.append(shopfloor.engine._admission.in_flight)
        shopfloor.engine.topics.wake_all()
        await wait_until_async(lambda: len(in_flight) == 12)
        await wait_until_async(lambda: shopfloor.engine._admission.waiting == len(calls))
        shopfloor.engine.cancel_waits()
        await asyncio.gather(*calls)

    asyncio.run(wake_all())
    assert max(in_flight) <= 2


def test_abandoned_call_keeps_its_slot_until_it_has_ended(open_workbench):
    shopfloor = open_workbench(settings={"calls": 1})
    begun, released = threading.Event(), threading.Event()

    def hang(text):
        begun.set()
        assert released.wait(PATIENCE)

    async def abandon():
        shopfloor.tools.inside = hang
        call = asyncio.ensure_future(shopfloor.engine.acall(shopfloor.new_request("fetch", {"text": "hangs"})))
        await wait_until_async(begun.is_set)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        rejected = await shopfloor.engine.acall(shopfloor.new_request("fetch", {"text": "second"}))
        released.set()
        await wait_until_async(lambda: shopfloor.engine._admission.in_flight == 0)
        return rejected, await shopfloor.engine.acall(shopfloor.new_request("fetch", {"text": "third"}))

    rejected, served = asyncio.run(abandon())
    assert rejected.body["error"] == "TRANSIENT_ERROR"
    assert served.error is None
    assert shopfloor.tools.seen == ["hangs", "third"]


def test_disconnected_caller_leaves_no_open_row(shopfloor):
    async def give_up():
        call = asyncio.ensure_future(shopfloor.engine.acall(shopfloor.new_request("await", LONG)))
        await wait_until_async(lambda: shopfloor.engine._admission.waiting)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(give_up())
    wait_until(lambda: list_open_rows(shopfloor) == [])
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "error"]
