"""kill -9 under load: whatever was acknowledged is there, once, and the server is soon back."""

from __future__ import annotations

import itertools
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apsw
import httpx2
import pytest

from tests.doors.attacks import attack
from tests.doors.server import ERAS, PATIENCE, Server, bearer, request, until

CLIENTS = 16
DOORS = ("execute", "execute", *ERAS)
READY_SECONDS = 5.0  # what the contract says
BUSY = 4  # how much slower a busy machine may be


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that is written under load: the call, how its answer names what it made, and where that is kept."""

    tool: str
    input: Callable[[str], dict[str, Any]]
    id: Callable[[dict[str, Any]], str]
    kept: str
    """What is in the store: the key that it was written under, and what an answer calls it."""
    by_user: bool = False


KINDS = [
    Kind(
        "mcp__system__log_decision",
        lambda key: {"title": key, "body": "Because of the load"},
        lambda data: str(data["logId"]),
        "SELECT decision, 'log-' || id FROM decision WHERE kind = 'manual'",
    ),
    Kind(
        "mcp__mail__send",
        lambda key: {"toHuman": True, "subject": key, "body": "There is load"},
        lambda data: str(data["mailId"]),
        "SELECT mail.subject, 'mail-' || mail.id FROM mail JOIN receipt ON receipt.mail = mail.id",
    ),
    Kind(
        "add_task",
        lambda key: {"title": key},
        lambda data: str(data["task"]["id"]),
        "SELECT title, CAST(number AS TEXT) FROM task",
        by_user=True,
    ),
    Kind(
        "record_discovery",
        lambda key: {"type": "pattern", "content": key},
        lambda data: str(data["id"]),
        "SELECT content, 'discovery-' || id FROM discovery",
    ),
]


class Writers:
    """Clients that write, each time under a key of its own, and send again what was not answered."""

    def __init__(self, server: Server, agent: str, user: str) -> None:
        self.ledgers: list[dict[str, str]] = [{} for _ in KINDS]
        self.odd: list[str] = []
        self.resent = 0
        self._server = server
        self._tokens = {False: agent, True: user}
        self._up = threading.Event()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(DOORS[n % 4], n // 4)) for n in range(CLIENTS)]

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.ledgers))

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

    def _write(self, door: str, begin: int) -> None:
        with httpx2.Client(timeout=PATIENCE, verify=False) as http:
            for number in itertools.count(begin):
                if self._over.is_set():
                    return
                key, place = uuid.uuid4().hex, number % len(KINDS)
                self.ledgers[place][key] = self._acknowledged(http, door, KINDS[place], key)

    def _acknowledged(self, http: httpx2.Client, door: str, kind: Kind, key: str) -> str:
        """The answer to one write, asked for until there is one."""
        while True:
            assert self._up.wait(PATIENCE)
            try:
                reply = self._send(http, door, kind, key)
            except httpx2.TransportError:
                self.resent += 1
                continue
            answer = reply.json()
            if door != "execute":
                answer = answer["result"]["structuredContent"]
            if reply.status_code == 200 and answer.get("success", True):
                return kind.id(answer.get("data", answer))
            self.odd.append(reply.text)

    def _send(self, http: httpx2.Client, door: str, kind: Kind, key: str) -> httpx2.Response:
        shown = bearer(self._tokens[kind.by_user])
        if door == "execute":
            body, headers = {"toolName": kind.tool, "input": kind.input(key)}, {"Idempotency-Key": key}
            return http.post(f"{self._server.url}/mcp/execute", json=body, headers=shown | headers)
        params = {"name": kind.tool, "arguments": kind.input(key), "_meta": {"shopfloor/idempotencyKey": key}}
        body, headers = request("tools/call", params, era=door)
        return http.post(f"{self._server.url}/mcp", json=body, headers=shown | headers)


@attack("DUR-01")
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.long)])
def test_nothing_acknowledged_is_lost_or_doubled(fresh: Callable[..., Server], kills: int):
    server = fresh(log_level="warning")
    chance, ready = random.Random(kills), []
    with server:
        writers = Writers(server, server.agent("writer"), server.user("owner"))
        server.stick_to_its_port()
        writers.begin()
        for _ in range(kills):
            enough = writers.acknowledged + chance.randint(1, 150)
            until(lambda enough=enough: writers.acknowledged >= enough)  # type: ignore[misc]
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
        f"{kills} kills on {'SQLite' if server.database is None else 'PostgreSQL'}: {writers.acknowledged} writes"
        f" acknowledged, {writers.resent} sent again; ready again after {sorted(ready)[kills // 2]:.2f} s,"
        f" at most {max(ready):.2f} s"
    )
    assert writers.odd == []
    assert max(ready) < READY_SECONDS * BUSY


def _compare(server: Server, writers: Writers) -> None:
    """The store holds what the clients were told, and each of it once, with its event and its rows in the log."""
    for kind, ledger in zip(KINDS, writers.ledgers, strict=True):
        kept = server.rows(kind.kept)
        assert len(kept) == len(ledger), kind.tool
        assert dict(kept) == ledger
    for name, ledger in zip(("decision.logged", "mail.sent"), writers.ledgers, strict=False):
        assert server.count("event", f"name = '{name}'") == len(ledger)
    lonely = server.rows(
        "SELECT tool, reference FROM decision AS asked WHERE kind = 'invocation' AND process IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM decision WHERE reference = asked.reference AND kind IN ('result', 'error'))"
    )
    assert lonely == []
