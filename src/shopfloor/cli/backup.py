"""shopfloor backup, restore, verify, migrate and compact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, call_desk, check_database_exists, command, create_app, open_shopfloor
from shopfloor.cli.output import format_bytes, format_count, print_result
from shopfloor.errors import InvalidInput, SchemaOutdated
from shopfloor.settings import Settings
from shopfloor.store import open_store, schema_version
from shopfloor.store.backups import restore_backup, verify_backup
from shopfloor.store.migrate import load_migrations
from shopfloor.store.sqlite import compact_file
from shopfloor.transports.server import lock_data_folder

app = create_app()

BACKUP_FOLDER = "backups"


@command(app, "backup", existing=True)
def back_up(
    settings: Settings,
    target: Annotated[
        Path | None, typer.Argument(help="New file, or folder; by default the folder backups in the data folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Back up the store while it is in use, and check the copy. A manifest with its digest is written beside it.

    SQLite produces a database file, PostgreSQL an export as compressed JSON lines. Both contain secrets: keep them
    safe.
    """
    if target is None:
        target = settings.data / BACKUP_FOLDER
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_shopfloor(settings) as shopfloor:
        manifest = call_desk(shopfloor, "backup_create", target=str(target.absolute()))
    print_result(manifest, as_json, f"Backed up {_describe(manifest)} to {manifest['path']}")


@command(app, "restore")
def restore(
    settings: Settings,
    backup: Annotated[Path, typer.Argument(help="Backup file; its manifest is beside it.")],
    as_json: AsJson = False,
) -> None:
    """Restore a backup to a new place: a data folder without a database, or an empty PostgreSQL database.

    It refuses to run while a server uses that place. The backup is checked first, and the restored copy afterwards.
    """
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock_data_folder(settings):
        manifest = restore_backup(backup, settings.database_url)
        # The restore is logged in the restored store. With an older schema, that is possible only after its migration.
        if manifest["schema"] == len(load_migrations("sqlite")):
            with open_shopfloor(settings) as shopfloor:
                call_desk(shopfloor, "backup_note_restore", file=str(backup.absolute()), sha256=manifest["sha256"])
    print_result(manifest, as_json, f"Restored {_describe(manifest)} from {backup}")


@command(app, "verify", existing=lambda given: given["backup"] is None)
def verify(
    settings: Settings,
    backup: Annotated[Path | None, typer.Argument(help="Backup file; by default the store itself.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the store, its index and its log, or a backup and its manifest. Exits with 1 if something is wrong."""
    if backup is not None:
        manifest = verify_backup(backup)
        print_result(manifest, as_json, f"{backup} is complete and unchanged: {_describe(manifest)}")
        return
    with open_shopfloor(settings) as shopfloor:
        found = call_desk(shopfloor, "store_verify")
    lines = [f"{check['part']}: {'; '.join(check['problems']) or 'ok'}" for check in found["checks"]]
    print_result(found, as_json, "\n".join(lines))
    if not found["ok"]:
        raise typer.Exit(1)


@command(app, "migrate")
def migrate(
    settings: Settings,
    check: Annotated[
        bool, typer.Option("--check", help="Only report whether a migration is due; exit with 1 if so.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the database schema up to date without starting a server. It refuses to run while a server uses SQLite.

    SQLite is first copied to the folder backups in the data folder. Back up PostgreSQL yourself: shopfloor backup.
    """
    before, after = schema_version(settings.database_url), len(load_migrations("sqlite"))
    if check and 0 < before < after:
        raise SchemaOutdated(found=before, known=after)
    if not check:
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_data_folder(settings):
            open_store(settings.database_url).close()
    if before == after:
        done = f"The schema is at version {after}"
    else:
        done = "There is no database yet" if check else f"Migrated the schema from {before} to {after}"
    print_result({"from": before, "to": before if check else after}, as_json, done)


@command(app, "compact")
def compact(settings: Settings, as_json: AsJson = False) -> None:
    """Return the space of deleted rows to the disk. SQLite only, while no server is running.

    A server reuses the space of deleted rows, so this pays off only after a large deletion.
    """
    path = settings.database_file
    if path is None:
        raise InvalidInput("Only a SQLite database file can be compacted; PostgreSQL does it itself.")
    check_database_exists(settings)
    with lock_data_folder(settings):
        before, after = compact_file(path)
    done = f"The database has {format_bytes(after)}, {format_bytes(before - after)} less"
    print_result({"bytesBefore": before, "bytesAfter": after}, as_json, done)


def _describe(manifest: dict[str, Any]) -> str:
    rows = format_count(sum(manifest["rows"].values()), "row")
    return f"{rows}, {format_bytes(manifest['bytes'])}, schema {manifest['schema']}"
