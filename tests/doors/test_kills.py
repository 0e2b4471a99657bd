"""kill -9 under load: whatever was acknowledged is there, once, and the server is soon back."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw
import httpx2
import pytest

from tests.doors.attacks import attack
from tests.doors.server import ERAS, PATIENCE, Server, bearer, request, until
from tests.doors.team import LOG_DECISION

CLIENTS = 16
DOORS = ("execute", "execute", *ERAS)
READY_SECONDS = 5.0  # what the contract says
BUSY = 4  # how much slower a busy machine may be


class Writers:
    """Clients that write decisions, each under a key of its own, and send again what was not answered."""

    def __init__(self, server: Server, token: str) -> None:
        self.ledger: dict[str, str] = {}
        self.odd: list[str] = []
        self.resent = 0
        self._server = server
        self._token = token
        self._up = threading.Event()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(DOORS[n % 4],)) for n in range(CLIENTS)]

    def begin(self) -> None:
        self._up.set()
        for thread in self._threads:
            thread.start()

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """While the server is gone."""
        self._up.clear()
        yield
        self._up.set()

    def finish(self) -> None:
        """Stop after what is under way has been answered."""
        self._over.set()
        self._up.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _write(self, door: str) -> None:
        with httpx2.Client(headers=bearer(self._token), timeout=PATIENCE, verify=False) as http:
            while not self._over.is_set():
                key = uuid.uuid4().hex
                self.ledger[key] = self._acknowledged(http, door, key)

    def _acknowledged(self, http: httpx2.Client, door: str, key: str) -> str:
        """The answer to one write, asked for until there is one."""
        while True:
            assert self._up.wait(PATIENCE)
            try:
                reply = self._send(http, door, key)
            except httpx2.TransportError:
                self.resent += 1
                continue
            answer = reply.json()
            if door != "execute":
                answer = answer["result"]["structuredContent"]
            if reply.status_code == 200 and answer["success"]:
                return str(answer["data"]["logId"])
            self.odd.append(reply.text)

    def _send(self, http: httpx2.Client, door: str, key: str) -> httpx2.Response:
        decision = {"title": key, "body": "Because of the load"}
        if door == "execute":
            body, headers = {"toolName": LOG_DECISION, "input": decision}, {"Idempotency-Key": key}
            return http.post(f"{self._server.url}/mcp/execute", json=body, headers=headers)
        params = {"name": LOG_DECISION, "arguments": decision, "_meta": {"shopfloor/idempotencyKey": key}}
        body, headers = request("tools/call", params, era=door)
        return http.post(f"{self._server.url}/mcp", json=body, headers=headers)


@attack("DUR-01")
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.long)])
def test_nothing_acknowledged_is_lost_or_doubled(fresh: Callable[..., Server], kills: int):
    server = fresh(log_level="warning")
    chance, ready = random.Random(kills), []
    with server:
        writers = Writers(server, server.agent("writer"))
        server.stick_to_its_port()
        writers.begin()
        for _ in range(kills):
            enough = len(writers.ledger) + chance.randint(1, 150)
            until(lambda enough=enough: len(writers.ledger) >= enough)  # type: ignore[misc]
            with writers.interrupted():
                server.kill()
                ready.append(server.start())
        writers.finish()
        _compare(server, writers)
        server.stop()
    if server.database is None:
        check = apsw.Connection(str(server.data / "shopfloor.db")).execute("PRAGMA integrity_check").fetchall()
        assert check == [("ok",)]
    print(
        f"{kills} kills on {'SQLite' if server.database is None else 'PostgreSQL'}: {len(writers.ledger)} writes"
        f" acknowledged, {writers.resent} sent again; ready again after {sorted(ready)[kills // 2]:.2f} s,"
        f" at most {max(ready):.2f} s"
    )
    assert writers.odd == []
    assert max(ready) < READY_SECONDS * BUSY


def _compare(server: Server, writers: Writers) -> None:
    """The store holds what the clients were told, and each of it once, with its event and its rows in the log."""
    kept = server.rows("SELECT decision, id FROM decision WHERE kind = 'manual'")
    assert len(kept) == len(writers.ledger)
    assert {title: f"log-{id}" for title, id in kept} == writers.ledger
    assert server.count("event", "name = 'decision.logged'") == len(kept)
    lonely = server.rows(
        "SELECT tool, reference FROM decision AS asked WHERE kind = 'invocation' AND process IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM decision WHERE reference = asked.reference AND kind IN ('result', 'error'))"
    )
    assert lonely == []
