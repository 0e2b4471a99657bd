"""kill -9 under load: acknowledged writes are stored exactly once, and the server is soon ready again."""

from __future__ import annotations

import random
from collections.abc import Callable

import apsw
import pytest

from bench.subprocesses import cpu_seconds
from chaos.ledger import Writers
from tests.transports.attacks import attack
from tests.transports.server import Server, wait_until

READY_CPU_SECONDS = 5.0
"""The limit of the contract, of CPU: on a machine with five times more work than cores, a start took 27 s by the clock."""


def _check_integrity(server: Server) -> str:
    """Run the integrity check of SQLite; PostgreSQL checks its own files."""
    if server.database is not None:
        return "ok"
    [(answer,)] = apsw.Connection(str(server.data / "shopfloor.db")).execute("PRAGMA integrity_check").fetchall()
    return str(answer)


@attack("DUR-01")
@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.long)])
def test_acknowledged_writes_survive_kills_exactly_once(new_server: Callable[..., Server], kills: int):
    server = new_server(log_level="warning")
    chance, ready, cpu = random.Random(kills), [], []
    with server:
        writers = Writers([server], server.agent("writer"), server.user("owner"))
        server.keep_port()
        writers.begin()
        for _ in range(kills):
            enough = writers.acknowledged + chance.randint(1, 150)
            wait_until(lambda enough=enough: writers.acknowledged >= enough)  # type: ignore[misc]
            with writers.pause():
                server.kill()
                ready.append(server.start())
                cpu.append(cpu_seconds(server.pid))
        writers.finish()
        findings = writers.inspect()
        server.stop()
    assert _check_integrity(server) == "ok"
    print(
        f"{kills} kills on {'SQLite' if server.database is None else 'PostgreSQL'}: {writers.acknowledged} writes"
        f" acknowledged, {writers.resent} sent again; ready again after {sorted(ready)[kills // 2]:.2f} s,"
        f" at most {max(ready):.2f} s; {max(cpu):.2f} s of CPU at most"
    )
    assert findings.faults == 0, (findings, writers.unexpected[:3])
    assert max(cpu) < READY_CPU_SECONDS
