"""The archive: rows that retention deletes, as compressed JSON lines, one file per kind and month."""

from __future__ import annotations

import fcntl
import gzip
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from shopfloor.errors import StoreFull, StoreUnreachable


class Archive:
    """A folder of append-only files. Without a folder, nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def append(self, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows to the file of this month, and return once they are durable."""
        if self._folder is None:
            return
        data = gzip.compress(b"".join(to_json(row, bytes_mode="base64") + b"\n" for row in rows))
        path = self._folder / f"{kind}-{datetime.now(UTC):%Y-%m}.jsonl.gz"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A gzip file may have many members, so each batch is appended as one member.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                # Another replica may use the same folder, and writing a member can take several system calls.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                size = os.fstat(descriptor).st_size
                try:
                    with os.fdopen(os.dup(descriptor), "ab") as file:
                        file.write(data)
                    os.fsync(descriptor)
                except OSError:
                    # Half a member would make everything after it unreadable.
                    os.truncate(descriptor, size)
                    raise
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in (28, 122):  # ENOSPC, EDQUOT
                raise StoreFull from error
            raise StoreUnreachable(f"The archive {path} cannot be written: {error.strerror}.") from error
