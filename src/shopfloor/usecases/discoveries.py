"""Recording and reading discoveries."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from shopfloor.domain.chunks import digest_file
from shopfloor.domain.discoveries import Discovery
from shopfloor.domain.events import DiscoveryRecorded
from shopfloor.domain.file_kinds import detect_module
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.search.outdated import find_changed_files
from shopfloor.usecases.external import ExternalContext


def record_discovery(
    external: ExternalContext,
    type: str,
    content: str,
    module: str | None,
    supersedes: str | None,
    files: Sequence[str],
) -> tuple[Discovery, bool]:
    """Record a discovery; the flag says whether it is new.

    Recording the same content again stores nothing new, but updates the digests of its files.
    """
    if not content.strip():
        raise InvalidInput("'content' must not be blank", field="content", rule="blank")
    digests = {path: digest_file(external.gateways.files.read(path).data) for path in files}
    module = module or (detect_module(files[0]) if files else None)
    digest = hashlib.sha256("\0".join([type, module or "", content]).encode()).digest()
    superseded = None if supersedes is None else _parse_discovery_id(supersedes, "supersedes")

    def write(uow: UnitOfWork) -> tuple[Discovery, bool]:
        if superseded is not None:
            uow.discoveries.get(superseded)
        number, is_new = uow.discoveries.add(
            type=type,
            content=content,
            module=module,
            author=uow.actor.key,
            session=None,
            supersedes=superseded,
            digest=digest,
            files=digests,
            now=uow.now,
        )
        if superseded is not None and superseded != number:
            uow.discoveries.supersede(superseded, number)
        if not is_new and digests:
            uow.discoveries.replace_files(number, digests)
        if is_new:
            uow.emit(DiscoveryRecorded(discovery=number, by=uow.actor.key))
        return uow.discoveries.get(number), is_new

    return external.write(write)


def get_discovery(external: ExternalContext, id: str) -> tuple[Discovery, tuple[str, ...]]:
    """Return a discovery, and its files that changed since it was recorded."""
    number = _parse_discovery_id(id, "id")

    def read(uow: UnitOfWork) -> tuple[Discovery, tuple[str, ...]]:
        discovery = uow.discoveries.get(number)
        return discovery, find_changed_files(uow, external.gateways.files, discovery)

    return external.read(read)


def _parse_discovery_id(id: str, field: str) -> int:
    digits = id.removeprefix("discovery-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise InvalidInput(f"'{id[:64]}' is not a discovery id; expected one like discovery-1", field=field, rule="id")
    return int(digits)
