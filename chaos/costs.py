"""Costs: what `chaos/capacity.py` computes with. `python -m chaos.costs` measures them on PostgreSQL."""

from __future__ import annotations

import base64
import json
import socket
import sys
import tempfile
from pathlib import Path

import psycopg

from bench import tools, transports
from bench.subprocesses import Subprocess
from chaos.faults import read_postgres_cpu
from tests.postgres import PostgresServer

CLIENTS = 32
SECONDS = 4.0
WAITS = 500
WAIT = tools.Measured("mcp__mail__wait", {"timeoutSeconds": 50})


def measure_costs(folder: Path) -> dict[str, float]:
    """Return CPU, rows and bytes of a write and a read, and the memory of a waiting call."""
    postgres = PostgresServer(fsync=True)
    try:
        database = postgres.create_database()
        with (
            Subprocess("server", str(folder / "data"), database, "0", log=folder / "server.log") as server,
            Subprocess("load", log=folder / "load.log") as load,
        ):
            costs: dict[str, float] = {}
            for name, tool in {"write": tools.SEND, "read": tools.READ}.items():
                before = _read_database(postgres, database)
                requests = transports.build_tool_requests("execute", tool, server.facts["tokens"])
                done = load.ask(port=server.facts["port"], pid=server.pid, requests=requests, clients=CLIENTS,
                                seconds=SECONDS)  # fmt: skip
                after = _read_database(postgres, database)
                # The load counts its calls without the warm-up, in which the database worked as well.
                calls = (after[1] - before[1]) / 2
                costs[f"{name}: server CPU (ms)"] = done["cpu"] / done["calls"] * 1000
                costs[f"{name}: database CPU (ms)"] = (after[0] - before[0]) / calls * 1000
                costs[f"{name}: rows"] = (after[2] - before[2]) / calls
                costs[f"{name}: bytes"] = (after[3] - before[3]) / calls
            costs["waiting: bytes"] = _measure_waits(server)
            return costs
    finally:
        postgres.stop()


def _read_database(postgres: PostgresServer, url: str) -> tuple[float, int, int, int]:
    """Return CPU seconds, rows of the log, rows of all tables, and bytes."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")
        log = connection.execute("SELECT count(*) FROM decision").fetchone()
        rows = connection.execute("SELECT sum(reltuples)::bigint FROM pg_class WHERE relkind = 'r' AND reltuples > 0"
                                  " AND relnamespace = 'public'::regnamespace").fetchone()  # fmt: skip
        size = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert log is not None
    assert rows is not None
    assert size is not None
    return read_postgres_cpu(postgres), int(log[0]), int(rows[0]), int(size[0])


def _measure_waits(server: Subprocess) -> float:
    """Return the memory that one waiting call takes. The mail of the load goes to the first agent, which does not wait."""
    requests = transports.build_tool_requests("execute", WAIT, server.facts["tokens"])[1:]
    before = _read_memory(server.pid)
    opened = []
    for number in range(WAITS):
        connection = socket.create_connection(("127.0.0.1", server.facts["port"]))
        connection.sendall(base64.b64decode(requests[number % len(requests)]))
        opened.append(connection)
    # An answer to a later call says that the server has taken all of them.
    with socket.create_connection(("127.0.0.1", server.facts["port"])) as connection:
        status = transports.build_tool_requests("execute", tools.READ, server.facts["tokens"])
        connection.sendall(base64.b64decode(status[0]))
        connection.recv(4096)
    grown = _read_memory(server.pid) - before
    for connection in opened:
        connection.close()
    return grown / WAITS


def _read_memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        json.dump(measure_costs(Path(name)), sys.stdout, indent=2)
