"""Writes on the event loop's own thread, which step aside while the writer works."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from shopfloor.store import aside
from tests.store.support import PATIENCE, put, titles

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


def wait_for(awaitable: Any) -> Any:
    async def waited() -> Any:
        return await asyncio.wait_for(awaitable(), PATIENCE)

    return asyncio.run(waited())


def test_the_loop_goes_on_while_a_write_waits(sqlite):
    hold = threading.Event()

    def slow(conn):
        assert hold.wait(PATIENCE)
        put("slow")(conn)

    async def both() -> None:
        writing = aside.begin(sqlite.write, slow)
        await asyncio.sleep(0)
        assert not writing.done()
        hold.set()  # only a loop that was not held up gets here
        await writing

    wait_for(both)
    assert titles(sqlite) == ["slow"]


def test_many_share_a_commit_and_each_gets_its_own_answer(sqlite):
    before = sqlite.gauges()["commits"]

    async def many() -> list[str]:
        def write(title: str) -> str:
            sqlite.write(put(title))
            sqlite.write(put(f"{title} again"))
            return title

        return await asyncio.gather(*(aside.begin(write, str(number)) for number in range(100)))

    assert wait_for(many) == [str(number) for number in range(100)]
    assert len(titles(sqlite)) == 200
    assert sqlite.gauges()["commits"] - before < 100


def test_what_a_write_raises_is_raised_where_it_is_awaited(sqlite):
    def fail(conn):
        raise ZeroDivisionError("of its own")

    async def failing() -> None:
        await aside.begin(sqlite.write, fail)

    with pytest.raises(ZeroDivisionError):
        wait_for(failing)


def test_whoever_stops_waiting_does_not_stop_the_write(sqlite):
    hold = threading.Event()

    def slow(conn):
        assert hold.wait(PATIENCE)
        put("kept")(conn)

    async def leaving() -> None:
        writing = aside.begin(sqlite.write, slow)
        waiter = asyncio.ensure_future(asyncio.shield(writing))
        await asyncio.sleep(0)
        waiter.cancel()
        hold.set()
        await writing

    wait_for(leaving)
    assert titles(sqlite) == ["kept"]


def test_a_loop_that_is_gone_does_not_stop_the_writer(sqlite):
    hold = threading.Event()

    def slow(conn):
        assert hold.wait(PATIENCE)
        put("late")(conn)

    async def leaving() -> None:
        aside.begin(sqlite.write, slow)

    asyncio.run(leaving())
    hold.set()
    sqlite.write(put("next"))
    assert titles(sqlite) == ["late", "next"]


def test_each_has_the_context_of_its_beginning():
    async def named() -> list[str]:
        def name() -> str:
            aside.pause(0.001)
            return NAME.get()

        walks = []
        for each in ("first", "second"):
            NAME.set(each)
            walks.append(aside.begin(name))
        NAME.set("third")
        return list(await asyncio.gather(*walks))

    assert wait_for(named) == ["first", "second"]


def test_on_any_other_thread_it_just_waits(sqlite):
    aside.pause(0)
    sqlite.write(put("plain"))
    assert not aside.steps_aside()
    assert titles(sqlite) == ["plain"]
