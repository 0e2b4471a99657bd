"""Helpers of the store tests."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from shopfloor.store import Connection, Row, Store

HERE = Path(__file__).resolve().parent
MIGRATIONS = HERE / "migrations"
PATIENCE = 300.0


def increment_counter(conn: Connection, name: str = "hits") -> int:
    """Increment a counter by a read and a write, which loses updates without isolation. Return the new value."""
    row = conn.fetch_one(f"SELECT n FROM counter WHERE name = :name {conn.for_update}", name=name)
    if row is None:
        conn.execute("INSERT INTO counter (name, n) VALUES (:name, 1)", name=name)
        return 1
    conn.execute("UPDATE counter SET n = :n WHERE name = :name", n=row[0] + 1, name=name)
    return int(row[0]) + 1


def insert_thing(title: str) -> Callable[[Connection], Any]:
    return lambda conn: conn.execute("INSERT INTO thing (title) VALUES (:title)", title=title)


def list_titles(store: Store) -> list[str]:
    return [title for (title,) in store.read(lambda conn: conn.fetch_all("SELECT title FROM thing ORDER BY id"))]


def first_value(row: Row | None) -> Any:
    """Return the first value of a row that must exist."""
    assert row is not None
    return row[0]


class Rollback(Exception):
    """Raised by tests to roll back."""


@contextmanager
def roll_back_savepoint(conn: Connection) -> Iterator[None]:
    """Run the block in a savepoint and roll it back."""
    with suppress(Rollback), conn.savepoint():
        yield
        raise Rollback


def wait_until(condition: Callable[[], Any]) -> Any:
    """Return the first true value of the condition. The limit only ends a test that would hang."""
    limit = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < limit, "the condition never became true"
        time.sleep(0.002)
    return value


def run_together(*functions: Callable[[], Any]) -> list[Any]:
    """Run all functions at the same time and return what each returned or raised."""
    answers: list[Any] = [None] * len(functions)

    def run(place: int) -> None:
        try:
            answers[place] = functions[place]()
        except Exception as error:  # noqa: BLE001 - it is an answer
            answers[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return answers


class BlockedWriter:
    """Blocks the store's writer, so that the writes that follow are in one batch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._inside = threading.Event()
        self._free = threading.Event()
        self._thread = threading.Thread(target=lambda: store.write(self._wait))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._inside.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._free.set()
        self._thread.join(PATIENCE)

    def wait_until_queued(self, count: int) -> None:
        wait_until(lambda: self._store.gauges()["queue_depth"] == count)

    def _wait(self, conn: Connection) -> None:
        self._inside.set()
        assert self._free.wait(PATIENCE)


class Child:
    """A process that runs one of the functions of child.py once `start` is called."""

    def __init__(self, command: str, url: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.child", command, url, *arguments],
            cwd=HERE.parent.parent,
            env=os.environ | {"PYTHONPATH": str(HERE.parent.parent / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.read_line() == "ready\n"

    def start(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def read_rest(self) -> list[str]:
        """Return the remaining complete lines once the process has ended."""
        said, _ = self._process.communicate(timeout=PATIENCE)
        return [line for line in said.splitlines(keepends=True) if line.endswith("\n")]

    def kill(self) -> None:
        self._process.kill()
