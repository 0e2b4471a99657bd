"""A number that all processes on one database file see without asking the database.

It changes whenever credentials have changed, before whoever changed them is answered. What was remembered about them
under another number no longer holds. A process that is killed between its commit and the change is found out by those
who watch for the commits of others.
"""

from __future__ import annotations

import mmap
import os
import random
from pathlib import Path

TOPIC = "token"
"""What a transaction hints at that changes who somebody is."""

_SIZE = 8


class Epoch:
    """The number, in a file that is mapped into memory."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(file).st_size < _SIZE:
                os.ftruncate(file, _SIZE)
            self._map = mmap.mmap(file, _SIZE)
        finally:
            os.close(file)
        self._number = memoryview(self._map).cast("Q")

    @property
    def now(self) -> int:
        return self._number[0]

    def change(self) -> None:
        self._number[0] = random.getrandbits(64)  # nosec B311: any other number will do

    def close(self) -> None:
        self._number.release()
        self._map.close()
