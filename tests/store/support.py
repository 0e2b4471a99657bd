"""What the tests of the store share."""

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

from shopfloor.store.database import Connection, Row, Store

HERE = Path(__file__).resolve().parent
MIGRATIONS = HERE / "migrations"
PATIENCE = 60.0


def bump(conn: Connection, name: str = "hits") -> int:
    """The counter after adding one to it the naive way, which is only right if nobody comes between."""
    row = conn.one(f"SELECT n FROM counter WHERE name = :name {conn.for_update}", name=name)
    if row is None:
        conn.execute("INSERT INTO counter (name, n) VALUES (:name, 1)", name=name)
        return 1
    conn.execute("UPDATE counter SET n = :n WHERE name = :name", n=row[0] + 1, name=name)
    return int(row[0]) + 1


def put(title: str) -> Callable[[Connection], Any]:
    return lambda conn: conn.execute("INSERT INTO thing (title) VALUES (:title)", title=title)


def titles(store: Store) -> list[str]:
    return [title for (title,) in store.read(lambda conn: conn.all("SELECT title FROM thing ORDER BY id"))]


def only(row: Row | None) -> Any:
    """The first value of a row that must be there."""
    assert row is not None
    return row[0]


class Undone(Exception):
    """Raised by the tests to undo something."""


@contextmanager
def undone(conn: Connection) -> Iterator[None]:
    """A savepoint that ends badly."""
    with suppress(Undone), conn.savepoint():
        yield
        raise Undone


def until(condition: Callable[[], Any]) -> Any:
    """The first true value of the condition. The limit only ends a test that would hang."""
    limit = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < limit, "this never became true"
        time.sleep(0.002)
    return value


def together(*functions: Callable[[], Any]) -> list[Any]:
    """What each function returned or raised, all of them run at the same time."""
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


class Busy:
    """Keeps the store's writer occupied, so that what comes meanwhile ends up in one batch."""

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

    def queued(self, count: int) -> None:
        until(lambda: self._store.gauges()["queue_depth"] == count)

    def _wait(self, conn: Connection) -> None:
        self._inside.set()
        assert self._free.wait(PATIENCE)


class Child:
    """A process of its own that runs one of the functions of child.py, from `go` on."""

    def __init__(self, command: str, url: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.child", command, url, *arguments],
            cwd=HERE.parent.parent,
            env=os.environ | {"PYTHONPATH": str(HERE.parent.parent / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready\n"

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def rest(self) -> list[str]:
        """The whole lines it still says, until it has ended."""
        said, _ = self._process.communicate(timeout=PATIENCE)
        return [line for line in said.splitlines(keepends=True) if line.endswith("\n")]

    def kill(self) -> None:
        self._process.kill()
