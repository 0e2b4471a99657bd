"""Faults, each a small function that begins and ends one."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.subprocesses import TICKS, cpu_seconds
from tests.postgres import PostgresServer
from tests.store.proxy import Proxy
from tests.transports.server import Server, bearer, request


def kill_server(server: Server) -> float:
    """Kill the server with SIGKILL, start it again, and return the seconds until it was ready."""
    server.kill()
    return server.start()


def try_to_restart(server: Server) -> bool:
    """Start the server again. Return False if its own fault ended it before it was ready."""
    try:
        kill_server(server)
    except RuntimeError:
        # On a slow machine, the delivery that ends it is due again before it is ready.
        if server.process.returncode != -signal.SIGKILL:
            raise
        return False
    return True


@contextmanager
def suspend(pids: list[int]) -> Iterator[None]:
    """Suspend processes with SIGSTOP, as a closed lid or a stalled machine does."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def switch_on(server: Server, fault: str, value: object = "") -> Iterator[None]:
    """Let a server that runs `chaos.faulty_server` have a fault."""
    switch = server.folder / "faults" / fault
    switch.parent.mkdir(exist_ok=True)
    # Renamed into place, so that the server never reads half of it.
    written = switch.with_suffix(".new")
    written.write_text(str(value))
    written.rename(switch)
    try:
        yield
    finally:
        switch.unlink()


def plant_damaged_event(server: Server, subscribers: Sequence[str]) -> None:
    """Add an event that cannot be read, with a delivery to each of these subscribers."""
    server.execute_sql(
        """
        INSERT INTO event (workspace, name, data, topics, created_at)
        SELECT min(id), 'damaged', '{', '', 0 FROM workspace
        """
    )
    for subscriber in subscribers:
        server.execute_sql(
            f"""
            INSERT INTO delivery (workspace, event, subscriber, due_at)
            SELECT workspace, max(id), '{subscriber}', 0 FROM event WHERE name = 'damaged' GROUP BY workspace
            """
        )


def list_postgres_processes(postgres: PostgresServer) -> list[int]:
    """Return the process of the server and those of its connections."""
    children = Path(f"/proc/{postgres.pid}/task/{postgres.pid}/children").read_text().split()
    return [postgres.pid, *map(int, children)]


def read_postgres_cpu(postgres: PostgresServer) -> float:
    """Return the CPU seconds of PostgreSQL so far, with those of connections that have ended."""
    # Once a connection has ended, its time is in that of the children of the first process.
    fields = Path(f"/proc/{postgres.pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[13]) + int(fields[14])) / TICKS
    for pid in list_postgres_processes(postgres):
        with suppress(FileNotFoundError):  # it has ended since
            seconds += cpu_seconds(pid)
    return seconds


@contextmanager
def limit_resource(server: Server, kind: int, soft: int) -> Iterator[None]:
    """Let a server have less of a resource, such as open files or the size of a file."""
    before = resource.prlimit(server.pid, kind)
    resource.prlimit(server.pid, kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, kind, before)


def count_open_files(server: Server) -> int:
    return sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())


class CommitCutter(Proxy):
    """A proxy that cuts a connection between COMMIT and its answer, once for each `cut`."""

    def __init__(self, url: str) -> None:
        self._cuts_due = 0
        self.cuts = 0
        super().__init__(url)

    def cut(self) -> None:
        self._cuts_due += 1

    def _forward(self, what: str, port: int, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
                if what == "request" and b"COMMIT" in data and self._cuts_due > 0:
                    self._cuts_due -= 1
                    self.cuts += 1
                    # The server gets the end of the connection after the COMMIT that it has already got.
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Switch(Proxy):
    """A proxy in front of the primary, which leads to another server after a failover."""

    def lead_to(self, postgres: PostgresServer) -> None:
        self._server = ("127.0.0.1", postgres.port)


def open_idle_connections(server: Server, count: int) -> list[socket.socket]:
    """Open connections that send half of a request's head, and nothing else."""
    opened = []
    for _ in range(count):
        connection = socket.create_connection(server.address, timeout=30)
        connection.sendall(b"POST /mcp/execute HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        opened.append(connection)
    return opened


def open_idle_streams(server: Server, token: str, count: int) -> list[socket.socket]:
    """Open streams of calls that wait for a mail, and read nothing from them."""
    params = {"name": "mcp__mail__wait", "arguments": {"timeoutSeconds": 50}, "_meta": {"progressToken": 1}}
    message, headers = request("tools/call", params)
    body = json.dumps(message).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in {**headers, **bearer(token)}.items())
    opened = []
    for _ in range(count):
        connection = socket.create_connection(server.address, timeout=30)
        start = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        connection.sendall(start.encode() + body)
        opened.append(connection)
    return opened


def send_and_vanish(server: Server, token: str, count: int) -> None:
    """Send calls and close the connection at once, without reading the answers."""
    body = b'{"toolName": "mcp__agent__get_status", "input": {}}'
    head = (
        f"POST /mcp/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    for _ in range(count):
        with socket.create_connection(server.address, timeout=30) as connection:
            connection.sendall(head.encode() + body)


def open_unread_connections(server: Server, token: str, count: int, calls: int) -> list[socket.socket]:
    """Open connections that send many calls and never read."""
    body = b'{"toolName": "mcp__mail__list_inbox", "input": {"limit": 200}}'
    head = (
        f"POST /mcp/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    opened = []
    for _ in range(count):
        connection = socket.create_connection(server.address, timeout=30)
        connection.settimeout(1.0)
        with suppress(OSError):
            connection.sendall((head.encode() + body) * calls)
        opened.append(connection)
    return opened


def send_burst(server: Server, token: str, count: int, connections: int = 500) -> int:
    """Send calls over many connections at the same time and return how many got no answer in HTTP."""
    body = b'{"toolName": "mcp__agent__get_status", "input": {}}'
    head = (
        f"POST /mcp/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )

    async def call(slots: asyncio.Semaphore) -> bool:
        async with slots:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(head.encode() + body)
            answer = await reader.read()
            writer.close()
            return any(answer.startswith(b"HTTP/1.1 %d " % status) for status in (200, 429, 503))

    async def call_all() -> list[bool | BaseException]:
        slots = asyncio.Semaphore(connections)
        return await asyncio.gather(*(call(slots) for _ in range(count)), return_exceptions=True)

    return sum(answered is not True for answered in asyncio.run(call_all()))


def wait_seconds(seconds: float) -> None:
    """Let a fault last: this is the duration of the fault, not a synchronisation."""
    time.sleep(seconds)
