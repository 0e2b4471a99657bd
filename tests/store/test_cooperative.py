"""Writes on the event loop's thread, which yield while the writer works."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from shopfloor.store import cooperative
from tests.store.support import PATIENCE, insert_thing, list_titles

NAME: ContextVar[str] = ContextVar("NAME", default="none")


def run_with_timeout(awaitable: Any) -> Any:
    async def run() -> Any:
        return await asyncio.wait_for(awaitable(), PATIENCE)

    return asyncio.run(run())


def test_event_loop_keeps_running_while_a_write_waits(sqlite):
    hold = threading.Event()

    def slow(conn):
        assert hold.wait(PATIENCE)
        insert_thing("slow")(conn)

    async def write_and_wait() -> None:
        writing = cooperative.spawn(sqlite.write, slow)
        await asyncio.sleep(0)
        assert not writing.done()
        hold.set()  # only a loop that was not held up gets here
        await writing

    run_with_timeout(write_and_wait)
    assert list_titles(sqlite) == ["slow"]


def test_concurrent_writes_share_a_commit_and_get_their_own_results(sqlite):
    before = sqlite.gauges()["commits"]

    async def write_many() -> list[str]:
        def write(title: str) -> str:
            sqlite.write(insert_thing(title))
            sqlite.write(insert_thing(f"{title} again"))
            return title

        return await asyncio.gather(*(cooperative.spawn(write, str(number)) for number in range(100)))

    assert run_with_timeout(write_many) == [str(number) for number in range(100)]
    assert len(list_titles(sqlite)) == 200
    assert sqlite.gauges()["commits"] - before < 100


def test_exception_of_a_write_is_raised_where_it_is_awaited(sqlite):
    def fail(conn):
        raise ZeroDivisionError("of its own")

    async def write_and_fail() -> None:
        await cooperative.spawn(sqlite.write, fail)

    with pytest.raises(ZeroDivisionError):
        run_with_timeout(write_and_fail)


def test_cancelled_caller_does_not_cancel_the_write(sqlite):
    hold = threading.Event()

    def slow(conn):
        assert hold.wait(PATIENCE)
        insert_thing("kept")(conn)

    async def write_and_leave() -> None:
        writing = cooperative.spawn(sqlite.write, slow)
        waiter = asyncio.ensure_future(asyncio.shield(writing))
        await asyncio.sleep(0)
        waiter.cancel()
        hold.set()
        await writing

    run_with_timeout(write_and_leave)
    assert list_titles(sqlite) == ["kept"]


def test_closed_event_loop_does_not_stop_the_writer(sqlite):
    hold = threading.Event()

    def slow(conn):
        assert hold.wait(PATIENCE)
        insert_thing("late")(conn)

    async def write_and_leave() -> None:
        cooperative.spawn(sqlite.write, slow)

    asyncio.run(write_and_leave())
    hold.set()
    sqlite.write(insert_thing("next"))
    assert list_titles(sqlite) == ["late", "next"]


def test_each_write_runs_in_the_context_of_its_caller():
    async def spawn_two() -> list[str]:
        def read_name() -> str:
            cooperative.sleep(0.001)
            return NAME.get()

        spawned = []
        for each in ("first", "second"):
            NAME.set(each)
            spawned.append(cooperative.spawn(read_name))
        NAME.set("third")
        return list(await asyncio.gather(*spawned))

    assert run_with_timeout(spawn_two) == ["first", "second"]


def test_write_on_another_thread_blocks_until_committed(sqlite):
    cooperative.sleep(0)
    sqlite.write(insert_thing("plain"))
    assert list_titles(sqlite) == ["plain"]
