"""Numbered SQL files, applied in order and once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shopfloor.errors import SchemaOutdated, SchemaTooNew, StartupError
from shopfloor.store.protocol import Engine

MIGRATIONS = Path(__file__).parent / "migrations"

CURRENT_VERSION_SQL = "SELECT COALESCE(MAX(number), 0) FROM schema_version"
APPLIED_SQL = "SELECT number, name, digest FROM schema_version ORDER BY number"
ADD_DIGEST_SQL = "ALTER TABLE schema_version ADD COLUMN digest TEXT"

_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(engine: Engine, folder: Path | None = None) -> list[Migration]:
    """Return the migrations for this engine, 1 to n without a gap; `folder` holds one folder per engine."""
    found = []
    for file in sorted(((folder or MIGRATIONS) / engine).glob("*.sql")):
        match = _FILE_NAME.fullmatch(file.name)
        if match is None:
            raise StartupError(f"'{file.name}' is not a migration's name; expected for example 0007_delivery.sql.")
        found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    # The schema's version is the number of applied migrations, so a gap would skip one forever.
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise StartupError(f"The {engine} migrations are not numbered 0001 to {len(found):04} without gaps.")
    return found


def find_missing(current: int, known: list[Migration]) -> list[Migration]:
    """Return the migrations still to be applied to a store at schema `current`."""
    if current > len(known):
        raise SchemaTooNew(found=current, known=len(known))
    return known[current:]


def check_applied(applied: Sequence[tuple[int, str, str | None]], known: list[Migration]) -> None:
    """Raise if another build created the store, with different migrations under the same numbers.

    Migrations applied before digests were stored are compared by name.
    """
    for (number, name, digest), migration in zip(applied, known, strict=False):
        if name != migration.name or digest not in (None, migration.digest):
            raise StartupError(
                f"The database was made by another build of Shopfloor: its migration {number:04} ('{name}') is not "
                f"the one of this build ('{migration.name}'). Use the build that made it, or export and import its data"
            )


def refuse_outdated(current: int, known: list[Migration]) -> None:
    """Raise if a store exists and is older than this version."""
    if 0 < current < len(known):
        raise SchemaOutdated(found=current, known=len(known))
