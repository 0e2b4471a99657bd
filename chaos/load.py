"""Load: what a durable mail costs at 1, 2 and 4 replicas on PostgreSQL."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import tools, transports
from bench.subprocesses import Subprocess
from chaos.faults import read_postgres_cpu
from tests.postgres import PostgresServer

REPLICAS = (1, 2, 4)
CLIENTS = (8, 64)
ROUNDS = 3
SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Load:
    """The medians of one number of replicas and clients."""

    replicas: int
    clients: int
    calls_per_second: float
    server_ms: float
    database_ms: float
    client_ms: float

    @property
    def used_cores(self) -> float:
        """The cores that servers, database and clients used together: if it is all that there are, they are the limit."""
        return self.calls_per_second * (self.server_ms + self.database_ms + self.client_ms) / 1000


def measure_load(folder: Path, report: Callable[[str], None]) -> list[Load]:
    """Send mail to each number of replicas from each number of clients, in interleaved rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[int, int], list[tuple[float, ...]]] = {}
    postgres = PostgresServer(fsync=True)
    try:
        with ExitStack() as stack:
            database = postgres.create_database()
            servers = [
                stack.enter_context(Subprocess("server", str(folder / str(n)), database, "0", log=folder / f"{n}.log"))
                for n in range(REPLICAS[-1])
            ]
            loads = [stack.enter_context(Subprocess("load", log=folder / f"load-{n}.log")) for n in range(REPLICAS[-1])]
            for number in range(ROUNDS):
                report(f"load: round {number + 1} of {ROUNDS}")
                for replicas in REPLICAS:
                    for clients in CLIENTS:
                        sample = _measure(postgres, servers[:replicas], loads, clients)
                        found.setdefault((replicas, clients), []).append(sample)
    finally:
        postgres.stop()
    return [
        Load(replicas, clients, *(statistics.median(values) for values in zip(*samples, strict=True)))
        for (replicas, clients), samples in found.items()
    ]


def _measure(
    postgres: PostgresServer, servers: list[Subprocess], loads: list[Subprocess], clients: int
) -> tuple[float, ...]:
    before = read_postgres_cpu(postgres)
    used = loads[: len(servers)]
    for server, load in zip(servers, used, strict=True):
        # The tokens of one replica are known to all.
        requests = transports.build_tool_requests("execute", tools.SEND, server.facts["tokens"])
        load.send(port=server.facts["port"], pid=server.pid, requests=requests,
                  clients=max(1, clients // len(servers)), seconds=SECONDS)  # fmt: skip
    answers = [load.receive() for load in used]
    calls = max(1, sum(answer["calls"] for answer in answers))
    rate = sum(answer["calls"] / answer["seconds"] for answer in answers)
    database = read_postgres_cpu(postgres) - before
    server, client = (sum(answer[name] for answer in answers) for name in ("cpu", "own_cpu"))
    return rate, server / calls * 1000, database / calls * 1000, client / calls * 1000


def format_load(loads: list[Load]) -> list[str]:
    """Return a table: a row for each number of replicas and clients."""
    lines = [
        f"The machine had {os.cpu_count()} cores, which servers, database and clients shared.",
        "",
        "| replicas | clients | calls/s | server CPU per call (ms) | database CPU per call (ms) | cores used |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {load.replicas} | {load.clients} | {load.calls_per_second:.0f} | {load.server_ms:.2f}"
        f" | {load.database_ms:.2f} | {load.used_cores:.1f} |"
        for load in loads
    ]
    return lines
