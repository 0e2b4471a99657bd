"""Tools for backups, exports and checks of the whole store."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import copies, decisions
from shopfloor.usecases.external import ExternalContext

_RESTORED = "backup_note_restore"
_IMPORTED = "export_note_import"

Target = Annotated[
    str, Field(description="Absolute path on the server: a new file, or a folder", min_length=1, max_length=4096)
]
SourceFile = Annotated[str, Field(description="Name of the file that was read", max_length=4096)]
NewFile = Annotated[
    str,
    Field(description="Absolute path of a new file on the server; .gz compresses it", min_length=1, max_length=4096),
]


@toolset.tool("backup_create", external=True, admin=True)
def create_backup(external: ExternalContext, target: Target) -> Json:
    """Back up all workspaces of the store while it is in use, check the copy, and write a manifest next to it."""
    return copies.create_backup(external, target)


@toolset.tool(_RESTORED, admin=True, listed=False)
def note_restore(
    uow: UnitOfWork,
    file: SourceFile,
    sha256: Annotated[str, Field(description="Digest of that file, in hexadecimal", max_length=64)],
) -> Json:
    """Record in the log of a restored store which backup it was restored from."""
    return {"log": decisions.log_decision(uow, "desk", _RESTORED, "Restored from a backup", f"{file}, sha256 {sha256}")}


@toolset.tool(_IMPORTED, admin=True, listed=False)
def note_import(
    uow: UnitOfWork, file: SourceFile, rows: Annotated[int, Field(description="Number of rows", ge=0)]
) -> Json:
    """Record in the log of an imported store which file it was imported from."""
    return {"log": decisions.log_decision(uow, "desk", _IMPORTED, "Imported from an export", f"{file}, {rows} rows")}


@toolset.tool("export_create", external=True, admin=True)
def create_export(external: ExternalContext, target: NewFile) -> Json:
    """Export all workspaces of the store as JSON lines, without the search index, which an import rebuilds."""
    return copies.export_store(external, target)


@toolset.tool("store_verify", read_only=True, external=True, admin=True)
def verify_store(external: ExternalContext) -> Json:
    """Read the whole store and check its pages, the index and the log."""
    checks = copies.verify_store(external)
    return {
        "ok": not any(check.problems for check in checks),
        "checks": [{"part": check.part, "problems": check.problems} for check in checks],
    }
