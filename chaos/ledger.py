"""Clients that write under faults, and the ledger that proves what became of each acknowledged write."""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.transports.server import ERAS, PATIENCE, Server, bearer, request

CLIENTS = 16
TRANSPORTS = ("execute", "execute", *ERAS)
RESEND_PAUSE_SECONDS = 0.05
SETTLE_SECONDS = 300.0
"""A delivery that a killed process had leased is due again after a minute, and may fail a few times."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of write: the call, how its response names the row, and where the row is stored."""

    tool: str
    input: Callable[[str], dict[str, Any]]
    id: Callable[[dict[str, Any]], str]
    stored: str
    """SQL for the stored rows: the key that each was written with, and its id in the response."""
    event: str | None = None
    """The event that each write emits once."""
    by_user: bool = False


KINDS = [
    Kind(
        "mcp__system__log_decision",
        lambda key: {"title": key, "body": "Because of the load"},
        lambda data: str(data["logId"]),
        "SELECT decision, 'log-' || id FROM decision WHERE kind = 'manual'",
        event="decision.logged",
    ),
    Kind(
        "mcp__mail__send",
        lambda key: {"toHuman": True, "subject": key, "body": "There is load"},
        lambda data: str(data["mailId"]),
        "SELECT mail.subject, 'mail-' || mail.id FROM mail JOIN receipt ON receipt.mail = mail.id",
        event="mail.sent",
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


@dataclass(frozen=True, slots=True)
class Findings:
    """What the store has of the acknowledged writes. Everything but `acknowledged` and `resent` must be 0."""

    acknowledged: int
    resent: int
    absent: int
    doubled: int
    half_done: int
    unpaired: int
    undelivered: int
    unexpected: int

    @property
    def faults(self) -> int:
        return self.absent + self.doubled + self.half_done + self.unpaired + self.undelivered + self.unexpected


class Writers:
    """Clients that write with a new idempotency key each time, and resend calls until they are acknowledged."""

    def __init__(self, servers: Sequence[Server], agent: str, user: str, clients: int = CLIENTS) -> None:
        self.ledgers: list[dict[str, str]] = [{} for _ in KINDS]
        self.sent: set[str] = set()
        self.unexpected: list[str] = []
        self.resent = 0
        self._servers = servers
        self._tokens = {False: agent, True: user}
        self._up = threading.Event()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(TRANSPORTS[n % 4], n // 4)) for n in range(clients)]

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.ledgers))

    def begin(self) -> None:
        self._up.set()
        for thread in self._threads:
            thread.start()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause sending, for example while the only server is down."""
        self._up.clear()
        yield
        self._up.set()

    def finish(self) -> None:
        """Stop once the running calls are acknowledged."""
        self._over.set()
        self._up.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def inspect(self) -> Findings:
        """Compare the ledger with the store, after `finish`."""
        server = self._servers[0]
        absent = doubled = half_done = 0
        for kind, ledger in zip(KINDS, self.ledgers, strict=True):
            stored = server.rows(kind.stored)
            absent += len(set(ledger.items()) - set(stored))
            # The server writes mail too: two escalations of the same failure have the same subject.
            keys = [key for key, _ in stored if key in self.sent]
            doubled += len(keys) - len(set(keys))
            if kind.event is not None:
                half_done += abs(server.count("event", f"name = '{kind.event}'") - len(stored))
        return Findings(
            acknowledged=self.acknowledged,
            resent=self.resent,
            absent=absent,
            doubled=doubled,
            half_done=half_done,
            unpaired=_count_unpaired(server),
            undelivered=_count_undelivered(server),
            unexpected=len(self.unexpected),
        )

    def _write(self, transport: str, begin: int) -> None:
        with httpx2.Client(timeout=PATIENCE, verify=False) as http:
            for number in itertools.count(begin):
                if self._over.is_set():
                    return
                key, index = uuid.uuid4().hex, number % len(KINDS)
                self.sent.add(key)
                self.ledgers[index][key] = self._send_until_acknowledged(http, transport, KINDS[index], key)

    def _send_until_acknowledged(self, http: httpx2.Client, transport: str, kind: Kind, key: str) -> str:
        """Send one write until it is acknowledged, and return its id."""
        while True:
            assert self._up.wait(PATIENCE)
            try:
                reply = self._send(http, random.choice(self._servers), transport, kind, key)
            except httpx2.TransportError:
                self.resent += 1
                time.sleep(RESEND_PAUSE_SECONDS)
                continue
            # Not every rejection is JSON: the server answers a request that did not arrive in time in plain text.
            answer = reply.json() if reply.status_code == 200 else {}
            if transport != "execute":
                result = answer.get("result", {"isError": True})
                answer = {"success": False} if result.get("isError") else result["structuredContent"]
            if reply.status_code == 200 and answer.get("success", True):
                return kind.id(answer.get("data", answer))
            if not _may_be_resent(reply):
                self.unexpected.append(reply.text)
            self.resent += 1
            time.sleep(RESEND_PAUSE_SECONDS)

    def _send(self, http: httpx2.Client, server: Server, transport: str, kind: Kind, key: str) -> httpx2.Response:
        credential = bearer(self._tokens[kind.by_user])
        if transport == "execute":
            body, headers = {"toolName": kind.tool, "input": kind.input(key)}, {"Idempotency-Key": key}
            return http.post(f"{server.url}/mcp/execute", json=body, headers=credential | headers)
        params = {"name": kind.tool, "arguments": kind.input(key), "_meta": {"shopfloor/idempotencyKey": key}}
        body, headers = request("tools/call", params, era=transport)
        return http.post(f"{server.url}/mcp", json=body, headers=credential | headers)


def _may_be_resent(reply: httpx2.Response) -> bool:
    """Return whether the same call may succeed later. A server in trouble must not blame its clients."""
    blamed = any(code in reply.text for code in ("INVALID_INPUT", "PERMISSION_DENIED", "NOT_FOUND", "CONFLICT"))
    return not blamed and not 400 <= reply.status_code < 500


def _count_unpaired(server: Server) -> int:
    """Count the calls in the log without an end: those of a killed process are marked soon after its death."""
    return _count_once_settled(
        lambda: int(
            server.rows(
                "SELECT count(*) FROM decision AS asked WHERE kind = 'invocation' AND NOT EXISTS"
                " (SELECT 1 FROM decision WHERE reference = asked.reference AND kind IN ('result', 'error'))"
            )[0][0]
        )
    )


def _count_undelivered(server: Server) -> int:
    """Count the deliveries that are left or given up."""
    return _count_once_settled(lambda: server.count("delivery"))


def _count_once_settled(count: Callable[[], int]) -> int:
    """Return the count once it is 0, or what is left of it."""
    until = time.monotonic() + SETTLE_SECONDS
    while (left := count()) and time.monotonic() < until:
        time.sleep(0.1)
    return left
