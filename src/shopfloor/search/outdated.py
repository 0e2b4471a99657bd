"""Whether a discovery may no longer hold."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from shopfloor.domain.chunks import digest_file
from shopfloor.domain.discoveries import Discovery
from shopfloor.errors import ClientError
from shopfloor.gateways.files import Files
from shopfloor.repositories.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class Outdated:
    """Why a discovery may no longer hold."""

    superseded_by: str | None
    changed_files: tuple[str, ...]


def find_outdated(uow: UnitOfWork, files: Files, discovery: Discovery) -> Outdated | None:
    """Return why a discovery may no longer hold, or None if it still holds."""
    changed = find_changed_files(uow, files, discovery)
    if discovery.superseded_by is None and not changed:
        return None
    return Outdated(None if discovery.superseded_by is None else f"discovery-{discovery.superseded_by}", changed)


def find_changed_files(uow: UnitOfWork, files: Files, discovery: Discovery) -> tuple[str, ...]:
    """Return the files of a discovery whose content changed since it was recorded."""
    if not discovery.files:
        return ()
    indexed = uow.index.digests(list(discovery.files))
    changed = []
    for path, digest in discovery.files.items():
        now = indexed.get(path)
        # Not every file is indexed: one may be ignored, or too new.
        if now is None:
            with suppress(ClientError):
                now = digest_file(files.read(path).data)
        if now != digest:
            changed.append(path)
    return tuple(changed)
