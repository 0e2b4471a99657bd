"""The version of all credentials in a database: it changes whenever one is revoked or its rights change.

The credential cache (`pipeline/authenticate.py`) compares it on every call. Querying the database instead cost four
statements on the event loop's thread; each of them releases the interpreter, which the writer then takes under load.

The rule: a transaction that changes what a credential may do notifies CREDENTIALS_TOPIC, and the version changes
after its commit and before its caller is answered. Then:

- SQLite: the version is 8 bytes of a file that every process on the database maps into memory. All of them see the
  change at once. Only a process that is killed between its commit and the change leaves the version unchanged.
- PostgreSQL: the version is a counter of this process. It changes with the process's own commits, and with each
  notification of another replica. A notification can be lost with its connection.

In both cases the cache's own lifetime (CACHE_SECONDS, 0.5 s) limits how long a missed change matters.
"""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Iterable
from itertools import count
from pathlib import Path

CREDENTIALS_TOPIC = "token"

_SIZE_BYTES = 8


class SharedVersion:
    """The version that all processes on one database file share."""

    def __init__(self, path: Path) -> None:
        # The map outlives the descriptor. The file is never truncated to zero or replaced: a process that maps it
        # would die with SIGBUS, or keep reading the old one.
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(file).st_size < _SIZE_BYTES:
                os.ftruncate(file, _SIZE_BYTES)
            self._map = mmap.mmap(file, _SIZE_BYTES)
        finally:
            os.close(file)
        # Read and written as one aligned word of 8 bytes, so that processes need no lock between them.
        self._number = memoryview(self._map).cast("Q")

    @property
    def value(self) -> int:
        return self._number[0]

    def bump(self) -> None:
        # Not `+= 1`: two processes that increment at the same time would write the same number.
        self._number[0] = random.getrandbits(64)  # nosec B311 # any other number will do

    def close(self) -> None:
        self._number.release()
        self._map.close()


class ProcessVersion:
    """The version that one process counts for itself."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.value = 0

    def bump(self) -> None:
        self.value = next(self._numbers)


def concerns_credentials(topics: Iterable[str]) -> bool:
    """Return whether a notification may be about credentials; one without topics may be about anything."""
    topics = list(topics)
    return not topics or CREDENTIALS_TOPIC in topics
