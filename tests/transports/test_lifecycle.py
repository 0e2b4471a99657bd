"""Start, stop, kill and restart a server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest

from shopfloor import Settings, Shopfloor
from shopfloor.transports.server import DRAIN_SECONDS
from tests.transports.attacks import attack
from tests.transports.server import (
    ERAS,
    HTTP,
    PATIENCE,
    SHOPFLOOR,
    WITH_FIXTURES,
    Server,
    bearer,
    environment,
    list_listening_addresses,
    request,
    run,
    serving,
    wait_until,
)
from tests.transports.team import LOG_DECISION, STATUS, Team

LOOPBACK = {"0100007F", "00000000000000000000000001000000"}
START_SECONDS = 90.0  # the contract says 3 s; a very busy machine needs more
DECISION = {"title": "Chose a queue", "body": "Because of the load"}
WAIT = "mcp__fixture__wait"


@attack("TRN-03")
def test_server_listens_only_on_loopback_by_default(team: Team):
    addresses = list_listening_addresses(team.server.pid)
    assert addresses
    assert {address.rpartition(":")[0] for address in addresses} <= LOOPBACK


@attack("TRN-04")
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_server_refuses_other_interfaces_without_credentials(tmp_path: Path, host: str):
    began = time.monotonic()
    result = run("serve", "--host", host, "--port", "0", cwd=tmp_path)
    assert time.monotonic() - began < START_SECONDS
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "Issue a token first: shopfloor agent add NAME" in result.stderr


def test_server_listens_on_other_interfaces_with_credentials(tmp_path: Path):
    token = json.loads(run("agent", "add", "worker", "--json", cwd=tmp_path).stdout)["token"]
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        assert {address.rpartition(":")[0] for address in list_listening_addresses(server.pid)} == {"00000000"}
        assert server.call(STATUS, token=token).status_code == 200
        assert server.call(STATUS).status_code == 401
        assert server.call(STATUS, token=token, headers={"Host": "attacker.example"}).status_code == 421
        name = f"{socket.gethostname()}:{server.address[1]}"
        assert server.call(STATUS, token=token, headers={"Host": name}).status_code == 200


def test_port_in_use_is_reported_with_the_next_step(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = run("serve", "--port", port, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    message, hint = result.stderr.splitlines()
    assert message == f"shopfloor: Cannot listen on 127.0.0.1:{port}: Address already in use"
    assert hint == "  Choose another port: shopfloor serve --port N (0 takes a free one)"
    assert "Traceback" not in result.stderr


def test_second_server_on_a_data_folder_names_the_first(tmp_path: Path):
    with serving(tmp_path) as server:
        began = time.monotonic()
        result = server.run("serve", "--port", "0")
        assert time.monotonic() - began < START_SECONDS
        assert (result.returncode, result.stdout) == (1, "")
        assert f"at {server.url} (process {server.pid})" in result.stderr
        assert server.call(STATUS).status_code == 200
        server.kill()
        assert server.start() > 0  # a lock dies with its process


@pytest.mark.parametrize(
    ("key", "value"),
    [("PORT", "x"), ("RATE_LIMITS", '{"a": -1}'), ("PROFILE", "nope"), ("DATABASE", "mysql://x")],
)
def test_invalid_setting_stops_the_start_and_is_named(tmp_path: Path, key: str, value: str):
    result = run("serve", cwd=tmp_path, **{key: value})
    assert (result.returncode, result.stdout) == (1, "")
    assert key.lower() in result.stderr.lower() or "mysql" in result.stderr
    assert "Traceback" not in result.stderr


def test_six_processes_start_at_once_on_an_empty_database(new_server: Callable[..., Server]):
    replicas = new_server().database is not None
    servers = [new_server() for _ in range(6 if replicas else 1)]
    names = [] if replicas else [f"agent-{number}" for number in range(5)]
    with ThreadPoolExecutor(6) as executor:
        started = [executor.submit(server.start) for server in servers]
        created = [executor.submit(servers[0].agent, name) for name in names]
        try:
            assert all(start.result() > 0 for start in started)
            assert all(token.result().startswith("sfa_") for token in created)
            for server in servers:
                assert HTTP.get(f"{server.url}/readyz").status_code == 200
                assert server.call(STATUS, token=server.operator).status_code == 200
        finally:
            stopped = [executor.submit(server.stop) for server in servers]
    assert {stop.result()[0] for stop in stopped} == {0}


def test_command_without_a_server_exits_with_its_outcome(tmp_path: Path):
    success = run("call", "factory", LOG_DECISION, json.dumps(DECISION), cwd=tmp_path)
    assert (success.returncode, json.loads(success.stdout)["success"]) == (0, True)
    failure = run("call", "factory", LOG_DECISION, "{}", cwd=tmp_path)
    assert (failure.returncode, json.loads(failure.stdout)["error"]["code"]) == (1, "INVALID_INPUT")


def test_newer_schema_is_refused(new_server: Callable[..., Server]):
    server = new_server()
    with server:
        server.execute_sql("INSERT INTO schema_version (number, name, applied_at) VALUES (9999, 'later', 0)")
        server.stop()
    for command in (["serve", "--port", "0"], ["agent", "list"]):
        result = server.run(*command)
        assert (result.returncode, result.stdout) == (1, "")
        assert "9999" in result.stderr
        assert "upgrade shopfloor" in result.stderr


@attack("LIF-01")
@pytest.mark.parametrize("times", [10, pytest.param(50, marks=pytest.mark.long)])
def test_server_accepts_connections_once_it_prints_ready(tmp_path: Path, times: int):
    server, seconds = Server(tmp_path), []
    for _ in range(times):
        seconds.append(server.start())
        with socket.create_connection(server.address) as connection:
            connection.sendall(f"GET /readyz HTTP/1.1\r\nHost: {server.address[0]}\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        server.signal(signal.SIGINT)
        assert server.wait() == 0
        server.kill()
    print(f"start to ready: {_format_seconds(seconds)}")


def _format_seconds(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"median {ordered[len(ordered) // 2]:.2f} s, fastest {ordered[0]:.2f} s, slowest {ordered[-1]:.2f} s"


class WaitingCalls:
    """Many waiting calls, half of them over streams, in both eras."""

    def __init__(self, server: Server, size: int) -> None:
        self.answered: dict[int, bool] = {}
        self.threads = [threading.Thread(target=self._wait, args=(server, number)) for number in range(size)]
        for thread in self.threads:
            thread.start()
        wait_until(lambda: server.count("decision", f"process IS NOT NULL AND tool = '{WAIT}'") == size)

    def _wait(self, server: Server, number: int) -> None:
        params: dict[str, Any] = {"name": WAIT, "arguments": {"topic": "never", "seconds": 600}}
        if number % 2:
            params["_meta"] = {"progressToken": str(number)}
        try:
            self.answered[number] = server.rpc("tools/call", params, era=ERAS[number // 2 % 2]).status_code == 200
        except httpx2.TransportError:
            self.answered[number] = False

    def join(self) -> tuple[list[bool], list[bool]]:
        """Report which calls were answered: plain ones and streams."""
        for thread in self.threads:
            thread.join(PATIENCE)
        ordered = [self.answered[number] for number in range(len(self.threads))]
        return ordered[::2], ordered[1::2]


def test_server_stops_in_time_with_a_hundred_waiting_calls(new_server: Callable[..., Server]):
    with new_server(program=WITH_FIXTURES, calls=128) as server:
        waiting_calls = WaitingCalls(server, 100)
        code, seconds = server.stop()
        plain, streams = waiting_calls.join()
        print(f"stopped with 100 waiting calls, half of them streams, after {seconds:.2f} s")
    assert (code, seconds < 30) == (0, True)
    assert len(streams) == 50  # streams are closed first, with or without a response
    assert len(plain) == 50
    assert all(plain) or seconds >= DRAIN_SECONDS  # a call that is still running by then gets no response
    assert server.count("decision", "process IS NOT NULL") == 0 or seconds >= DRAIN_SECONDS
    assert server.count("process") == 0 or seconds >= DRAIN_SECONDS
    assert "Traceback" not in server.log.read_text() or seconds >= DRAIN_SECONDS


def test_stuck_call_does_not_keep_the_server_from_stopping(tmp_path: Path):
    answers: list[httpx2.Response] = []
    with serving(tmp_path, program=WITH_FIXTURES) as server:
        stuck = threading.Thread(target=lambda: answers.append(server.call("mcp__fixture__hold", {"gate": "/nowhere"})))
        stuck.start()
        wait_until(lambda: server.count("decision", "process IS NOT NULL") == 1)
        success = server.call(LOG_DECISION, DECISION)
        code, seconds = server.stop()
        print(f"stopped with a stuck call after {seconds:.2f} s")
        assert (code, seconds < 30) == (0, True)
        stuck.join(PATIENCE)
        (cut,) = answers
        assert (cut.status_code, cut.headers["retry-after"]) == (503, "1")
        assert cut.json()["error"]["code"] == "TRANSIENT_ERROR"
        assert "Traceback" not in server.log.read_text()
        assert server.count("decision", f"id = {success.json()['data']['logId'].removeprefix('log-')}") == 1


def _ignore_http_errors(do: Callable[[], object]) -> None:
    with contextlib.suppress(httpx2.HTTPError):
        do()


def test_closed_terminal_stops_the_server_as_a_signal_does(tmp_path: Path):
    with serving(tmp_path) as server:
        server.signal(signal.SIGHUP)
        assert server.wait() == 0
        assert server.count("process") == 0


def test_stuck_store_does_not_keep_the_server_from_stopping(tmp_path: Path):
    with serving(tmp_path) as server:
        other = apsw.Connection(str(server.data / "shopfloor.db"))
        # The server writes its heartbeat meanwhile.
        other.set_busy_timeout(int(PATIENCE * 1000))
        other.execute("BEGIN IMMEDIATE")
        stuck = threading.Thread(target=lambda: _ignore_http_errors(lambda: server.call(LOG_DECISION, DECISION)))
        stuck.start()
        wait_until(lambda: HTTP.get(f"{server.url}/healthz").status_code == 200)
        code, seconds = server.stop()
        print(f"stopped with a stuck store after {seconds:.2f} s")
        other.close()
        stuck.join(PATIENCE)
        assert (code, seconds < 15) == (0, True)  # 10 s on a machine that is not busy


def test_server_stops_with_an_error_when_its_data_folder_is_deleted(tmp_path: Path):
    with serving(tmp_path) as server:
        assert server.call(LOG_DECISION, DECISION).status_code == 200
        shutil.rmtree(server.data)
        with contextlib.suppress(httpx2.HTTPError):
            assert server.call(LOG_DECISION, DECISION).status_code == 500
        assert server.wait() == 1
        assert "The database file was deleted, replaced or emptied" in server.log.read_text()


def test_second_signal_stops_the_server_immediately(tmp_path: Path):
    with serving(tmp_path, program=WITH_FIXTURES) as server:
        stuck = threading.Thread(
            target=lambda: _ignore_http_errors(lambda: server.call("mcp__fixture__hold", {"gate": "/nowhere"}))
        )
        stuck.start()
        wait_until(lambda: server.count("decision", "process IS NOT NULL") == 1)
        server.signal(signal.SIGTERM)
        wait_until(lambda: not _is_reachable(server))
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 128 + signal.SIGTERM
        assert time.monotonic() - began < DRAIN_SECONDS  # it did not drain
        stuck.join(PATIENCE)


def _is_reachable(server: Server) -> bool:
    try:
        socket.create_connection(server.address, PATIENCE).close()
    except OSError:
        return False
    return True


def test_calls_of_a_killed_server_are_closed_and_no_others(new_server: Callable[..., Server]):
    with new_server(program=WITH_FIXTURES) as server:
        waiting_calls = WaitingCalls(server, 3)
        other = subprocess.Popen(
            [sys.executable, *WITH_FIXTURES, "stdio"],
            env=environment(**server.settings),
            cwd=server.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert other.stdin is not None
            assert other.stdout is not None
            call = {"name": WAIT, "arguments": {"topic": "never", "seconds": 600}}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            other.stdin.write(json.dumps(request("initialize", params)[0]).encode() + b"\n")
            other.stdin.flush()
            assert b"serverInfo" in other.stdout.readline()  # a client must wait for this
            for line in (
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                request("tools/call", call, id=2)[0],
            ):
                other.stdin.write(json.dumps(line).encode() + b"\n")
            other.stdin.flush()
            wait_until(lambda: _count_open_calls(server) == 4)
            server.kill()
            waiting_calls.join()
            seconds = server.start()
            wait_until(lambda: _count_open_calls(server) == 1)
        finally:
            other.kill()
            other.wait(PATIENCE)
        unknown = server.rows("SELECT tool, code, context FROM decision WHERE kind = 'error'")
        assert [(tool, code) for tool, code, _ in unknown] == [(WAIT, "INTERNAL_ERROR")] * 3
        assert all("Outcome unknown" in context for _, _, context in unknown)
        wait_until(lambda: _count_open_calls(server) == 0)  # the other process was killed too
        assert server.count("decision", "kind = 'error'") == 4
        print(f"ready {seconds:.2f} s after a kill")


def _count_open_calls(server: Server) -> int:
    return server.count("decision", "process IS NOT NULL")


def test_health_and_readiness_need_no_credential(team: Team):
    health = HTTP.get(f"{team.server.url}/healthz")
    assert (health.status_code, health.json()) == (200, {"status": "alive"})
    ready = HTTP.get(f"{team.server.url}/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "missing": []})
    assert HTTP.get(f"{team.server.url}/metrics").status_code == 401
    assert HTTP.get(f"{team.server.url}/metrics", headers=bearer(team.tokens["worker_a"])).status_code == 200


def test_help_loads_neither_the_server_nor_its_libraries(tmp_path: Path):
    result = run("--help", program=("-X", "importtime", *SHOPFLOOR), cwd=tmp_path)
    assert (result.returncode, "Usage: " in result.stdout) == (0, True)
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "shopfloor.cli" in loaded
    assert loaded & {"shopfloor.app", "shopfloor.engine", "starlette", "mcp", "apsw", "numpy"} == set()


def test_a_server_whose_stop_is_cancelled_leaves_no_socket_to_the_event_loop(tmp_path: Path) -> None:
    # A number that the loop still watches is never polled for the next file that gets it.
    selector = selectors.DefaultSelector()

    async def cancel_stop() -> None:
        watched, stopping = set(selector.get_map()), asyncio.Event()

        async def serve() -> None:
            async with Shopfloor(Settings(project=tmp_path)) as shopfloor, shopfloor.serving(port=0):
                stopping.set()

        serving = asyncio.create_task(serve())
        await stopping.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert set(selector.get_map()) == watched

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(cancel_stop())
