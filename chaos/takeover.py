"""Takeover: how long a workspace on PostgreSQL has no leader after its replica was killed or suspended."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import TupleRow

from chaos import faults
from shopfloor.store.postgres_leadership import LOCK_CLASS
from tests.postgres import PostgresServer
from tests.transports.server import Server, serving, wait_until

REPLICAS = 3
ROUNDS = 20
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Takeover:
    """A fault of the leader, and the seconds until another replica led."""

    fault: str
    seconds: list[float]


def measure_takeover(folder: Path, rounds: int, report: Callable[[str], None]) -> list[Takeover]:
    """Kill and suspend the replica that leads, in turns, and measure when another one leads."""
    chance = random.Random(1)
    found = [Takeover("kill the leader", []), Takeover("suspend the leader", [])]
    with ExitStack() as stack:
        postgres = PostgresServer(fsync=True)
        stack.callback(postgres.stop)
        database = postgres.create_database()
        connection = stack.enter_context(psycopg.connect(database, autocommit=True))
        # The name of a connection says whose it is.
        servers = {
            name: stack.enter_context(
                serving(folder / name, database=f"{database}?application_name={name}", log_level="warning")
            )
            for name in (f"replica-{number}" for number in range(REPLICAS))
        }
        for number in range(rounds):
            report(f"takeover: round {number + 1} of {rounds}")
            found[0].seconds.append(_kill_leader(connection, servers, chance))
            found[1].seconds.append(_suspend_leader(connection, servers, chance))
    return found


def find_leader(connection: psycopg.Connection[TupleRow]) -> str | None:
    """Return the name of the connection that holds the lock of the leader."""
    row = connection.execute(
        """
        SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND classid::bigint = %s AND granted AND datname = current_database()
        """,
        (LOCK_CLASS,),
    ).fetchone()
    return None if row is None else str(row[0])


def _kill_leader(connection: psycopg.Connection[TupleRow], servers: dict[str, Server], chance: random.Random) -> float:
    leader = _wait_for_leader(connection, servers, chance)
    began = time.monotonic()
    servers[leader].kill()
    seconds = _wait_for_other(connection, leader, began)
    servers[leader].start()
    return seconds


def _suspend_leader(
    connection: psycopg.Connection[TupleRow], servers: dict[str, Server], chance: random.Random
) -> float:
    leader = _wait_for_leader(connection, servers, chance)
    began = time.monotonic()
    with faults.suspend([servers[leader].pid]):
        return _wait_for_other(connection, leader, began)


def _wait_for_leader(
    connection: psycopg.Connection[TupleRow], servers: dict[str, Server], chance: random.Random
) -> str:
    """Return the leader at some moment between two of its questions to the database."""
    wait_until(lambda: find_leader(connection) in servers)
    faults.wait_seconds(chance.uniform(0, 2))
    leader = find_leader(connection)
    assert leader is not None
    return leader


def _wait_for_other(connection: psycopg.Connection[TupleRow], leader: str, began: float) -> float:
    while find_leader(connection) in (None, leader):
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def format_takeover(takeovers: list[Takeover]) -> list[str]:
    """Return a table: a row for each fault."""
    lines = ["| fault | rounds | median (s) | longest (s) |", "|---|---|---|---|"]
    lines += [
        f"| {each.fault} | {len(each.seconds)} | {statistics.median(each.seconds):.1f} | {max(each.seconds):.1f} |"
        for each in takeovers
    ]
    return lines
