"""Backups, exports and checks of the whole store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import seals
from shopfloor.usecases.external import ExternalContext


@dataclass(frozen=True, slots=True)
class Check:
    """One part of a verification, and what is wrong with it."""

    part: str
    problems: list[str]


def create_backup(external: ExternalContext, target: str) -> dict[str, Any]:
    """Back up the store to a new file, or to a new file in a folder."""
    return external.gateways.copies.back_up(_check_absolute(target))


def export_store(external: ExternalContext, target: str) -> dict[str, Any]:
    """Export the store as JSON lines to a new file."""
    return external.gateways.copies.export(_check_absolute(target))


def verify_store(external: ExternalContext) -> list[Check]:
    """Check the database, the index and the log, and return what is wrong with each."""
    # Damaged pages first: other checks would only report them again.
    checks = [Check("store", external.gateways.copies.find_damage())]
    if checks[0].problems:
        return checks
    return [*checks, *external.read(_check_rows), Check("seals", seals.verify_log(external.read, None).problems)]


def _check_rows(uow: UnitOfWork) -> list[Check]:
    chunks = uow.index.count_chunks_without_words()
    count, first = uow.decisions.count_results_without_invocation()
    return [
        Check("index", [f"{chunks} chunks cannot be found by their words"] if chunks else []),
        Check("log", [f"{count} results have no invocation, the first is log-{first}"] if count else []),
    ]


def _check_absolute(target: str) -> Path:
    path = Path(target)
    if not path.is_absolute():
        raise InvalidInput("The path must be absolute.", field="target")
    return path
