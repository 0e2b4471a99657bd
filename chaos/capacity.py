"""Capacity: what 100 to 100,000 agents need, computed from measured costs. `python -m chaos.capacity` writes it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from chaos.report import replace_section

# CPU of writes: one interleaved run of 64 clients on a busy machine. The rest: `python -m chaos.costs`, on the same.
WRITE_SERVER_SECONDS = 0.0011
READ_SERVER_SECONDS = 0.0009
WRITE_DATABASE_SECONDS = 0.0012
READ_DATABASE_SECONDS = 0.0010
WRITE_BYTES = 4_500
READ_BYTES = 1_400
WAITING_BYTES = 10_000
"""Memory of a waiting call: its connection, its request and its task of the event loop."""
CONNECTIONS_PER_REPLICA = 19
WAITS_PER_REPLICA = 10_000
TARGET_UTILISATION = 0.6
"""Above it, queues grow faster than load."""

# The behaviour of agents.
CALLS_PER_AGENT_SECOND = 0.1
WRITE_SHARE = 0.2
WAITING_SHARE = 0.5
AGENT_COUNTS = (100, 1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a number of agents needs."""

    agents: int
    calls_per_second: float
    server_cores: float
    replicas: int
    database_cores: float
    connections: int
    waiting_megabytes: float
    gigabytes_per_day: float


def compute_capacity(agents: int) -> Capacity:
    """Compute what that many agents need, at the target utilisation."""
    calls = agents * CALLS_PER_AGENT_SECOND
    writes, reads = calls * WRITE_SHARE, calls * (1 - WRITE_SHARE)
    server = (writes * WRITE_SERVER_SECONDS + reads * READ_SERVER_SECONDS) / TARGET_UTILISATION
    database = (writes * WRITE_DATABASE_SECONDS + reads * READ_DATABASE_SECONDS) / TARGET_UTILISATION
    replicas = max(1, math.ceil(server), math.ceil(agents * WAITING_SHARE / WAITS_PER_REPLICA))
    return Capacity(
        agents=agents,
        calls_per_second=calls,
        server_cores=server,
        replicas=replicas,
        database_cores=database,
        connections=replicas * CONNECTIONS_PER_REPLICA,
        waiting_megabytes=agents * WAITING_SHARE * WAITING_BYTES / 1e6,
        gigabytes_per_day=(writes * WRITE_BYTES + reads * READ_BYTES) * 86_400 / 1e9,
    )


def format_capacity() -> list[str]:
    """Return a table: a row for each number of agents."""
    lines = [
        "| agents | calls/s | server cores | replicas | database cores | connections | waiting (MB) | GB per day |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.agents:,} | {each.calls_per_second:,.0f} | {each.server_cores:.2f} | {each.replicas}"
        f" | {each.database_cores:.2f} | {each.connections} | {each.waiting_megabytes:,.0f}"
        f" | {each.gigabytes_per_day:,.1f} |"
        for each in map(compute_capacity, AGENT_COUNTS)
    ]
    return lines


if __name__ == "__main__":
    replace_section("capacity", format_capacity(), page="scaling.md")
