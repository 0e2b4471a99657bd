"""Another process on the same store."""

from __future__ import annotations

import os
import resource
import sys
import threading
from itertools import count

from shopfloor.errors import ShopfloorError
from shopfloor.store import Connection, Store, open_store, schema_version
from tests.store.support import MIGRATIONS, increment_counter


def main() -> None:
    command, url, *arguments = sys.argv[1:]
    print_line("ready")
    sys.stdin.readline()
    globals()[command](url, *arguments)


def print_line(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def migrate(url: str) -> None:
    """Open the store, as a replica does at its start."""
    open_store(url, migrations=MIGRATIONS).close()
    print_line(str(schema_version(url)))


def notify(url: str, *topics: str) -> None:
    """Commit a write that notifies the topics."""
    store = open_store(url, migrations=MIGRATIONS)

    def write(conn: Connection) -> None:
        increment_counter(conn)
        conn.notify_on_commit(*topics)

    store.write(write)
    store.close()
    print_line("done")


def increment_many(url: str, times: str) -> None:
    store = open_store(url, migrations=MIGRATIONS)
    for _ in range(int(times)):
        store.write(increment_counter)
    store.close()
    print_line("done")


def write_ledger(url: str, first: str) -> None:
    """Write numbers from eight threads until killed, and print each one once it is acknowledged."""
    store = open_store(url, migrations=MIGRATIONS)
    numbers = count(int(first))
    threads = [threading.Thread(target=_write_entries, args=(store, numbers)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _write_entries(store: Store, numbers: count[int]) -> None:
    while True:
        entry = next(numbers)
        try:
            store.write(lambda conn, entry=entry: conn.execute("INSERT INTO ledger VALUES (:entry)", entry=entry))  # type: ignore[misc]
        except ShopfloorError:
            return
        print_line(str(entry))


def write_with_size_limit(url: str) -> None:
    """Write while the files cannot grow, and print the outcome of each write."""
    store = open_store(url, migrations=MIGRATIONS)
    print_line(_try_write(store, 1))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
    print_line(_try_write(store, 2, size=1 << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    print_line(_try_write(store, 3, size=1 << 20))
    store.close()


def _try_write(store: Store, number: int, size: int = 1) -> str:
    def write(conn: Connection) -> None:
        conn.execute("INSERT INTO thing (title, body) VALUES (:title, :body)", title=str(number), body=bytes(size))

    try:
        store.write(write)
    except ShopfloorError as error:
        return f"{number} {type(error).__name__}"
    return f"{number} done"


if __name__ == "__main__":
    main()
