"""The tool that finds problems of a server and says how to fix them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shopfloor.domain.times import HOUR, MINUTE, SECOND, format_iso
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases.external import ExternalContext

MAX_WAL_BYTES = 256 * 1024 * 1024
MAX_CLOCK_SKEW = 5 * SECOND
MAX_SEAL_DELAY = HOUR


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. A problem needs a person; a warning will become one."""

    check: str
    level: Literal["ok", "warning", "problem"]
    message: str
    fix: str | None = None


@toolset.tool("doctor", read_only=True, external=True, admin=True)
def examine_server(external: ExternalContext) -> Json:
    """Check the store, its statistics, the clock, the outbox, the log and the processes; each finding has its fix."""
    findings = [*_check_store(external), *external.read(lambda uow: list(_check_rows(uow)))]
    return {
        "ok": not any(finding.level == "problem" for finding in findings),
        "findings": [
            {"check": each.check, "level": each.level, "message": each.message, "fix": each.fix} for each in findings
        ],
    }


def _check_store(external: ExternalContext) -> Iterator[Finding]:
    damage = external.gateways.copies.find_damage()
    yield (
        Finding("integrity", "problem", damage[0], "Stop the server, and restore a backup: shopfloor restore FILE")
        if damage
        else Finding("integrity", "ok", "the database is sound")
    )
    gauges = external.database.store.gauges()
    wal = int(gauges.get("wal_bytes", 0))
    yield (
        Finding(
            "wal", "warning", f"the write-ahead log has {wal // 1_000_000} MB", "End programs with long-running reads"
        )
        if wal > MAX_WAL_BYTES
        else Finding("wal", "ok", f"{wal // 1000} kB")
    )


def _check_rows(uow: UnitOfWork) -> Iterator[Finding]:
    yield (
        Finding("statistics", "ok", "the query planner has statistics")
        if uow.health.has_statistics()
        else Finding(
            "statistics", "warning", "there are none yet", "They are collected when a server or a command ends"
        )
    )
    yield _check_clock(uow)
    waiting, dead = uow.outbox.count_backlog()
    yield (
        Finding(
            "dead letters",
            "problem",
            f"{dead} deliveries were abandoned",
            "Retry: shopfloor call desk dead_letter_retry_all",
        )
        if dead
        else Finding("dead letters", "ok", f"none; pending deliveries: {waiting}")
    )
    orphans = len(uow.decisions.list_left_open(1000))
    yield (
        Finding("open calls", "warning", f"{orphans} were left by dead processes", "Start a server: shopfloor serve")
        if orphans
        else Finding("open calls", "ok", "none was left by a dead process")
    )
    yield _check_seals(uow)


def _check_clock(uow: UnitOfWork) -> Finding:
    fix = "Synchronize the clocks of all machines, for example with chrony"
    database = uow.health.read_clock()
    if database is not None and abs(database - uow.now) > MAX_CLOCK_SKEW:
        return Finding("clock", "problem", f"differs from the database's by {abs(database - uow.now) // SECOND} s", fix)
    latest = uow.health.latest_log_time()
    if latest > uow.now + MINUTE:
        return Finding("clock", "problem", f"the log has a row from {format_iso(latest)}, which is later than now", fix)
    return Finding("clock", "ok", format_iso(uow.now))


def _check_seals(uow: UnitOfWork) -> Finding:
    last = uow.seals.find_last()
    if last is None:
        return Finding("seals", "ok", "none yet; a server seals the log after two minutes")
    unsealed = uow.seals.list_rows(last.last_id + 1, uow.seals.newest_row_id(), 1)
    if unsealed and unsealed[0][-1] < uow.now - MAX_SEAL_DELAY:
        since = format_iso(unsealed[0][-1])
        return Finding(
            "seals", "warning", f"rows since {since} are not sealed", "Keep a server running: shopfloor serve"
        )
    return Finding("seals", "ok", f"{last.number}, the last at {format_iso(last.created_at)}")
