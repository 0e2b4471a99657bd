"""Another process on the same store."""

from __future__ import annotations

import os
import resource
import sys
import threading
from itertools import count

from shopfloor.errors import ShopfloorError
from shopfloor.store.database import Connection, Store, open_store, schema_version
from tests.store.support import MIGRATIONS, bump


def main() -> None:
    command, url, *arguments = sys.argv[1:]
    say("ready")
    sys.stdin.readline()
    globals()[command](url, *arguments)


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def migrate(url: str) -> None:
    """Open the store, as a replica does at its start."""
    open_store(url, migrations=MIGRATIONS).close()
    say(str(schema_version(url)))


def hint(url: str, *topics: str) -> None:
    """Commit something, and tell of it."""
    store = open_store(url, migrations=MIGRATIONS)

    def write(conn: Connection) -> None:
        bump(conn)
        conn.hint(*topics)

    store.write(write)
    store.close()
    say("done")


def bumps(url: str, times: str) -> None:
    store = open_store(url, migrations=MIGRATIONS)
    for _ in range(int(times)):
        store.write(bump)
    store.close()
    say("done")


def ledger(url: str, first: str) -> None:
    """Write numbers from eight threads until killed, each one said aloud after it was acknowledged."""
    store = open_store(url, migrations=MIGRATIONS)
    numbers = count(int(first))
    threads = [threading.Thread(target=_enter, args=(store, numbers)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _enter(store: Store, numbers: count[int]) -> None:
    while True:
        entry = next(numbers)
        try:
            store.write(lambda conn, entry=entry: conn.execute("INSERT INTO ledger VALUES (:entry)", entry=entry))  # type: ignore[misc]
        except ShopfloorError:
            return
        say(str(entry))


def small_disk(url: str) -> None:
    """Write on a disk that is full for a while: files cannot grow. Says what became of each write."""
    store = open_store(url, migrations=MIGRATIONS)
    say(_try(store, 1))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
    say(_try(store, 2, size=1 << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    say(_try(store, 3, size=1 << 20))
    store.close()


def _try(store: Store, number: int, size: int = 1) -> str:
    def write(conn: Connection) -> None:
        conn.execute("INSERT INTO thing (title, body) VALUES (:title, :body)", title=str(number), body=bytes(size))

    try:
        store.write(write)
    except ShopfloorError as error:
        return f"{number} {type(error).__name__}"
    return f"{number} done"


if __name__ == "__main__":
    main()
