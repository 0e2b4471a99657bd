"""Numbered SQL files, applied in order and never twice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from shopfloor.errors import SchemaTooNew, StartRefused
from shopfloor.store.interface import Engine

MIGRATIONS = Path(__file__).parent / "migrations"

CURRENT = "SELECT COALESCE(MAX(number), 0) FROM schema_version"

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str


def load(engine: Engine, folder: Path | None = None) -> list[Migration]:
    """The migrations for this engine, 1 to n without a gap; `folder` holds one folder per engine."""
    files = sorted(((folder or MIGRATIONS) / engine).glob("*.sql"))
    found = [_read(file) for file in files]
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise StartRefused(f"The {engine} migrations are not numbered 0001 to {len(found):04} without gaps.")
    return found


def missing(current: int, known: list[Migration]) -> list[Migration]:
    """What is still to be applied to a store at schema `current`."""
    if current > len(known):
        raise SchemaTooNew(found=current, known=len(known))
    return known[current:]


def _read(file: Path) -> Migration:
    match = _NAME.fullmatch(file.name)
    if match is None:
        raise StartRefused(f"'{file.name}' is not named like a migration, for example 0007_delivery.sql.")
    return Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
