"""Seals of the log: digests of its rows in a chain, so that later changes, removals and additions of rows are detected.

A row is sealed once nothing can change it: its call has ended, and its count of rate-limited calls is final.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

MAX_SEALED_ROWS = 1000
FIRST_DIGEST = bytes(32)
"""The digest before the first seal."""

_LEAF = struct.Struct(">q16s")


@dataclass(frozen=True, slots=True)
class Seal:
    """A range of rows with their digests, and the digest of the previous seal."""

    number: int
    first_id: int
    last_id: int
    row_count: int
    previous: bytes
    digest: bytes
    leaves: bytes
    """The id and the digest of each row; empty once retention has deleted the rows."""
    last_at: int
    """The time of the newest row."""
    created_at: int
    purged_at: int | None

    @property
    def is_intact(self) -> bool:
        """Whether the row digests are the sealed ones. Without them only the chain can be checked."""
        return self.purged_at is not None or self.digest == _chain(self.previous, self.number, self.leaves)


def create_seal(before: Seal | None, rows: Sequence[Sequence[Any]], now: int) -> Seal:
    """Seal rows, each starting with its id and ending with its time, after the seal `before`."""
    number = 1 if before is None else before.number + 1
    previous = FIRST_DIGEST if before is None else before.digest
    leaves = b"".join(_LEAF.pack(id, digest) for id, digest in digest_rows(rows).items())
    return Seal(
        number=number,
        first_id=rows[0][0],
        last_id=rows[-1][0],
        row_count=len(rows),
        previous=previous,
        digest=_chain(previous, number, leaves),
        leaves=leaves,
        last_at=max(row[-1] for row in rows),
        created_at=now,
        purged_at=None,
    )


def digest_rows(rows: Iterable[Sequence[Any]]) -> dict[int, bytes]:
    """Return the digest of each row by its id."""
    return {row[0]: hashlib.sha256(to_json(list(row))).digest()[:16] for row in rows}


def find_differences(seal: Seal, rows: Iterable[Sequence[Any]]) -> list[str]:
    """Compare the current rows in the range of a seal with the sealed ones."""
    # If the digests themselves were changed, they say nothing about the rows.
    if not seal.is_intact:
        return []
    sealed = dict(_LEAF.iter_unpack(seal.leaves))
    found = digest_rows(rows)
    changes = [(id, "was removed") for id in sealed.keys() - found.keys()]
    changes += [(id, "was added") for id in found.keys() - sealed.keys()]
    changes += [(id, "was changed") for id in found.keys() & sealed.keys() if found[id] != sealed[id]]
    return [f"log-{id} {change} after seal {seal.number}" for id, change in sorted(changes)]


def _chain(previous: bytes, number: int, leaves: bytes) -> bytes:
    return hashlib.sha256(previous + number.to_bytes(8, "big") + leaves).digest()
