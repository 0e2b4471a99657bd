"""Run a real `shopfloor serve` in a process of its own, and send requests to it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import apsw
import httpx2
import psycopg
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # only to end a test that would hang
SHOPFLOOR = ("-m", "shopfloor")
WITH_FIXTURES = ("-m", "tests.transports.fixtures")
"""The same program with more tools, which wait, report progress and fail; see fixtures.py."""

ERAS = ("legacy", "2026-07-28")

HTTP = httpx2.Client(timeout=PATIENCE, verify=False, limits=httpx2.Limits(max_keepalive_connections=0))
"""A client that opens a connection for each request, because servers restart."""

T = TypeVar("T")


class Server:
    """A server on a data folder, which can be stopped, killed and started again."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        database: str | None = None,
        program: Sequence[str] = SHOPFLOOR,
        stderr: int | None = None,
        **settings: Any,
    ) -> None:
        """Log to the descriptor `stderr`, or without one to a file."""
        self.folder = folder
        self._stderr = stderr
        self.data = folder / ".shopfloor"
        self.database = database
        self.settings = {"project": folder, **({"database": database} if database else {}), **settings}
        self._arguments = arguments
        self._program = program
        self._process: subprocess.Popen[str] | None = None
        self.log = folder / "log"
        self.url = ""

    def start(self) -> float:
        """Start the server and return the seconds until it printed that it is ready."""
        began = time.monotonic()
        arguments = self._arguments if "--port" in self._arguments else ("--port", "0", *self._arguments)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._program, "serve", *arguments],
                env=environment(**self.settings),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log if self._stderr is None else self._stderr,
                text=True,
            )
        atexit.register(self.kill)
        line = _read_first_line(self._process)
        if " is ready at " not in line:
            self.kill()
            raise RuntimeError(f"The server did not start: {line}\n{self.log.read_text()}")
        self.url = line.rpartition(" ")[2].strip()
        return time.monotonic() - began

    def keep_port(self) -> None:
        """Use the present port for later starts, so that clients can reconnect."""
        self._arguments = ("--port", str(self.address[1]), *self._arguments)

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def operator(self) -> str:
        """Return the operator's token, from the file that the server wrote."""
        return (self.data / "operator.token").read_text().strip()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def stop(self) -> tuple[int, float]:
        """Stop the server and return its exit code and the seconds that it took."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.wait(), time.monotonic() - began
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process without a chance to clean up."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait(PATIENCE)
            if self._process.stdout is not None:
                self._process.stdout.close()
        atexit.unregister(self.kill)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def cli(self, *arguments: str, program: Sequence[str] | None = None) -> Any:
        """Run a command on the data folder of this server and return the JSON that it prints."""
        done = self.run(*arguments, "--json", program=program)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, *arguments: str, program: Sequence[str] | None = None) -> subprocess.CompletedProcess[str]:
        return run(*arguments, program=program or self._program, cwd=self.folder, **self.settings)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the store from outside of the server."""
        if self.database is not None:
            with psycopg.connect(self.database) as remote:
                return remote.execute(sql.encode()).fetchall()
        connection = apsw.Connection(str(self.data / "shopfloor.db"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()

    def count(self, table: str, where: str = "1 = 1") -> int:
        return int(self.rows(f"SELECT count(*) FROM {table} WHERE {where}")[0][0])

    def execute_sql(self, sql: str) -> None:
        """Change the store from outside of the server."""
        if self.database is not None:
            with psycopg.connect(self.database) as remote:
                remote.execute(sql.encode())
            return
        connection = apsw.Connection(str(self.data / "shopfloor.db"), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(int(PATIENCE * 1000))
            connection.execute(sql)
        finally:
            connection.close()

    def agent(self, name: str, type: str = "WORKER", *options: str) -> str:
        """Create an agent and return its token."""
        return str(self.cli("agent", "add", name, "--type", type, *options)["token"])

    def user(self, name: str) -> str:
        return str(self.cli("user", "add", name)["token"])

    def call(
        self,
        tool: str,
        input: Any = None,
        *,
        token: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> httpx2.Response:
        """Call a tool with POST /mcp/execute."""
        sent = {**bearer(token), **({"Idempotency-Key": key} if key is not None else {}), **(headers or {})}
        body = {"toolName": tool, "input": {} if input is None else input, **fields}
        return HTTP.post(f"{self.url}/mcp/execute", json=body, headers=sent)

    def rpc(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        token: str | None = None,
        era: str = "legacy",
        path: str = "/mcp",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send one MCP request without a client library."""
        body, sent = request(method, params, era=era)
        sent = {**sent, **bearer(token), **(headers or {})}
        return HTTP.post(f"{self.url}{path}", json=body, headers=sent)

    @asynccontextmanager
    async def client(
        self, era: str = "legacy", token: str | None = None, path: str = "/mcp", **options: Any
    ) -> AsyncIterator[Client]:
        """Connect the official client."""
        async with (
            httpx2.AsyncClient(headers=bearer(token), timeout=PATIENCE) as http,
            Client(streamable_http_client(f"{self.url}{path}", http_client=http), mode=era, **options) as client,
        ):
            yield client


@contextmanager
def serving(folder: Path, *arguments: str, **options: Any) -> Iterator[Server]:
    """Run a server for the duration of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with Server(folder, *arguments, **options) as server:
        yield server


def run(
    *arguments: str, program: Sequence[str] = SHOPFLOOR, cwd: Path, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command and wait for it to end."""
    return subprocess.run(
        [sys.executable, *program, *arguments],
        env=environment(**settings),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def environment(**settings: Any) -> dict[str, str]:
    """Return the environment of this process with only these settings of Shopfloor."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")}
    formatted = {f"SHOPFLOOR_{name.upper()}": _format_setting(value) for name, value in settings.items()}
    return {**inherited, "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}", **formatted}


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def request(
    method: str, params: Mapping[str, Any] | None = None, *, era: str = "legacy", id: Any = 1
) -> tuple[dict[str, Any], dict[str, str]]:
    """Build the body and headers of an MCP request for an era of the protocol."""
    parameters = dict(params or {})
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if era == "legacy":
        headers["MCP-Protocol-Version"] = "2025-11-25"
    else:
        headers |= {"MCP-Protocol-Version": era, "Mcp-Method": method}
        if "name" in parameters:
            headers["Mcp-Name"] = parameters["name"]
        parameters["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": era,
            "io.modelcontextprotocol/clientCapabilities": {},
            **parameters.get("_meta", {}),
        }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}, headers


def wait_until(condition: Callable[[], T]) -> T:
    """Poll the condition until it is true, and return its value."""
    limit = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < limit, "the condition never became true"
        time.sleep(0.005)
    return value


def _format_setting(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _read_first_line(process: subprocess.Popen[str]) -> str:
    """Read the first line that the process prints; an empty one when it ends without."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(PATIENCE):
            process.kill()
            raise RuntimeError("The process printed nothing")
    return process.stdout.readline()


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def list_listening_addresses(pid: int) -> set[str]:
    """Return the addresses and ports on which a process listens, in the hexadecimal form of the kernel."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            sockets.add(str(entry.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1])
    return found
