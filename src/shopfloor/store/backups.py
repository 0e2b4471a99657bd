"""Back up a store while it is in use, check a backup, and restore one to a new place.

A backup of SQLite is a database file, made in one step: a copy in many steps starts over whenever another process
commits, and never ends on a busy server. A backup of PostgreSQL is an export (transfer.py): unlike pg_dump it needs no
program of the server's version, and its digest is checked before anything is restored.

Beside each backup is a manifest with its digest, its schema and the number of rows per table.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shopfloor.errors import InvalidInput, SchemaTooNew, StoreDamaged, StoreFull
from shopfloor.store import open_store, parse_sqlite_url, schema_version
from shopfloor.store.migrate import load_migrations
from shopfloor.store.protocol import Store
from shopfloor.store.sqlite import count_rows, find_file_damage, sqlite_schema_version
from shopfloor.store.transfer import check_export, import_rows, read_header, write_export

MANIFEST_SUFFIX = ".manifest.json"
SUFFIXES = {"sqlite": ".db", "postgres": ".jsonl.gz"}
SQLITE_MAGIC = b"SQLite format 3\0"
BUFFER_BYTES = 1 << 20
PART_SUFFIX = ".shopfloor-part"
MAX_PART_AGE_SECONDS = 6 * 3600
_MANIFEST_FIELDS = frozenset({"engine", "file", "bytes", "sha256", "schema", "rows", "createdAt"})

Manifest = dict[str, Any]


def create_backup(store: Store, target: Path) -> Manifest:
    """Back up a store to a new file, or to a new file in a folder, and return the manifest with its path."""
    if target.is_dir():
        target /= f"shopfloor-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}{SUFFIXES[store.engine]}"
    with _new_file(target) as part:
        if store.engine == "sqlite":
            store.copy_to(part)
            _raise_damage(find_file_damage(part))
            schema, rows = sqlite_schema_version(part), count_rows(part)
        else:
            rows = write_export(store, part, compressed=True)
            schema = read_header(part).schema
            # Read it back: a file that cannot be restored is not a backup.
            check_export(part)
        manifest: Manifest = {
            "shopfloor": "backup",
            "engine": store.engine,
            "file": target.name,
            "bytes": part.stat().st_size,
            "sha256": _digest_file(part),
            "schema": schema,
            "rows": rows,
            "createdAt": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        }
    with _new_file(_manifest_path(target)) as part:
        part.write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest | {"path": str(target)}


def write_export_file(store: Store, target: Path) -> Manifest:
    """Export a store to a new file, compressed if its name ends with .gz, and return the number of rows per table."""
    with _new_file(target) as part:
        rows = write_export(store, part, compressed=target.suffix == ".gz")
    return {"path": str(target), "rows": rows, "bytes": target.stat().st_size}


def verify_backup(path: Path) -> Manifest:
    """Compare a backup with its manifest, read all of it, and return the manifest; raise if anything is wrong."""
    manifest = _read_manifest(path)
    if (path.stat().st_size, _digest_file(path)) != (manifest["bytes"], manifest["sha256"]):
        raise StoreDamaged(f"{path} has changed since the backup was made: its digest differs from the manifest.")
    if _is_sqlite(path):
        _raise_damage(find_file_damage(path))
        schema, rows = sqlite_schema_version(path), count_rows(path)
    else:
        schema, rows = read_header(path).schema, check_export(path)
    # The digest covers the backup only, and its manifest says what an operator may expect of it.
    if (schema, rows) != (manifest["schema"], manifest["rows"]):
        raise StoreDamaged(f"{path} does not have the schema and the row counts of its manifest.")
    return manifest


def restore_backup(path: Path, url: str) -> Manifest:
    """Restore a backup to a database that does not exist yet or is empty, check it, and return its manifest.

    The schema is not migrated; that is a separate step.
    """
    manifest = verify_backup(path)
    target = parse_sqlite_url(url) if url.startswith("sqlite") else None
    known = len(load_migrations("sqlite"))
    if manifest["schema"] > known:
        raise SchemaTooNew(found=manifest["schema"], known=known)
    if not _is_sqlite(path):
        import_file(path, url, migrate=False)
        return manifest
    if target is None:
        raise InvalidInput("This is a SQLite backup, and the database is PostgreSQL.", rule="other_engine")
    leftover = next((each for each in (target, *_side_files(target)) if each.exists()), None)
    if leftover is not None:
        raise InvalidInput(f"{leftover} already exists.", rule="target_exists")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _new_file(target) as part:
        with path.open("rb") as source, part.open("r+b") as copy:
            shutil.copyfileobj(source, copy, BUFFER_BYTES)
        if _digest_file(part) != manifest["sha256"]:
            raise StoreDamaged(f"The copy of {path} differs from it. Nothing was restored.")
    return manifest


def import_file(path: Path, url: str, *, migrate: bool = True) -> dict[str, int]:
    """Import an export into an empty database in one transaction, and return the number of rows per table.

    An export of an older schema is imported into that schema and then migrated.
    """
    header = read_header(path)
    header.check(load_migrations("sqlite"))
    found = schema_version(url)
    if found > header.schema:
        raise InvalidInput(
            f"The database has schema {found}, and the export is of schema {header.schema}. Import it into a database "
            "without tables, where it is migrated afterwards."
        )
    store = open_store(url, version=header.schema)
    try:
        rows = store.write(lambda connection: import_rows(connection, path))
    finally:
        store.close()
    if migrate:
        open_store(url).close()
    return rows


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """Yield an empty file beside the target, readable by its owner only, that becomes the target at the end."""
    if target.exists():
        raise InvalidInput(f"{target} already exists.", hint="Name a new file, or a folder")
    _remove_leftovers(target.parent)
    part = target.with_name(f".{target.name}.{os.getpid()}{PART_SUFFIX}")
    try:
        # Backups contain token digests, password hashes and the signing key.
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.rename(target)
        folder = os.open(target.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except StoreFull as error:
        raise _describe_full_disk(target) from error
    except OSError as error:
        if error.errno in (28, 122):  # ENOSPC, EDQUOT
            raise _describe_full_disk(target) from error
        raise InvalidInput(f"{target} cannot be written: {error.strerror}") from error
    finally:
        # On a read-only disk, even removing a file that does not exist fails.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the files of processes that were killed: each may be as large as the database."""
    for leftover in folder.glob(f".*{PART_SUFFIX}*"):
        # Another process, perhaps on another machine, may be writing it.
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime > MAX_PART_AGE_SECONDS:
                leftover.unlink()


def _describe_full_disk(target: Path) -> StoreFull:
    return StoreFull(
        f"The disk that holds {target.parent} is full; nothing was written. Free some space, or name another disk."
    )


def _read_manifest(path: Path) -> Manifest:
    try:
        manifest: Manifest = json.loads(_manifest_path(path).read_text("utf-8"))
        if manifest["shopfloor"] != "backup" or not manifest.keys() >= _MANIFEST_FIELDS:
            raise ValueError(manifest["shopfloor"])
    except FileNotFoundError:
        raise InvalidInput(f"{_manifest_path(path)} not found: a backup is a file and its manifest.") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput(f"{_manifest_path(path)} is not a backup manifest.") from error
    if not path.is_file():
        raise InvalidInput(f"{path} not found.")
    return manifest


def _manifest_path(path: Path) -> Path:
    return path.with_name(path.name + MANIFEST_SUFFIX)


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def _side_files(path: Path) -> list[Path]:
    """Return the files that SQLite would treat as part of the database."""
    return [Path(f"{path}{suffix}") for suffix in ("-wal", "-journal")]


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _raise_damage(problems: list[str]) -> None:
    if problems:
        raise StoreDamaged(f"The copy is damaged: {problems[0]}")
