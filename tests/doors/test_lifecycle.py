"""Starting, being one of several, stopping, dying, and coming back."""

from __future__ import annotations

import contextlib
import json
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

import httpx2
import pytest

from shopfloor.transports.server import DRAIN_SECONDS
from tests.doors.attacks import attack
from tests.doors.server import (
    ERAS,
    HTTP,
    PATIENCE,
    SHOPFLOOR,
    WITH_FIXTURES,
    Server,
    bearer,
    environment,
    listening_addresses,
    request,
    run,
    serving,
    until,
)
from tests.doors.team import LOG_DECISION, STATUS, Team

LOOPBACK = {"0100007F", "00000000000000000000000001000000"}
SOON = 90.0  # where a contract says 3 s: what a very busy machine may make of it
DECISION = {"title": "Chose a queue", "body": "Because of the load"}
WAIT = "mcp__fixture__wait"


@attack("TRN-03")
def test_by_default_only_this_machine_is_listened_to(team: Team):
    heard = listening_addresses(team.server.pid)
    assert heard
    assert {address.rpartition(":")[0] for address in heard} <= LOOPBACK


@attack("TRN-04")
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_others_are_not_listened_to_without_credentials(tmp_path: Path, host: str):
    began = time.monotonic()
    done = run("serve", "--host", host, "--port", "0", cwd=tmp_path)
    assert time.monotonic() - began < SOON
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "Issue a token first: shopfloor agent add NAME" in done.stderr


def test_others_are_listened_to_once_there_are_credentials(tmp_path: Path):
    token = json.loads(run("agent", "add", "worker", "--json", cwd=tmp_path).stdout)["token"]
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        assert {address.rpartition(":")[0] for address in listening_addresses(server.pid)} == {"00000000"}
        assert server.call(STATUS, token=token).status_code == 200
        assert server.call(STATUS).status_code == 401
        assert server.call(STATUS, token=token, headers={"Host": "attacker.example"}).status_code == 421
        name = f"{socket.gethostname()}:{server.address[1]}"
        assert server.call(STATUS, token=token, headers={"Host": name}).status_code == 200


def test_a_taken_port_is_said_with_what_to_do(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = run("serve", "--port", port, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_server_on_one_folder_is_told_where_the_first_is(tmp_path: Path):
    with serving(tmp_path) as server:
        began = time.monotonic()
        done = server.run("serve", "--port", "0")
        assert time.monotonic() - began < SOON
        assert (done.returncode, done.stdout) == (1, "")
        assert f"at {server.url} (process {server.pid})" in done.stderr
        assert server.call(STATUS).status_code == 200
        server.kill()
        assert server.start() > 0  # a lock dies with its process


@pytest.mark.parametrize(
    ("key", "value"),
    [("PORT", "x"), ("PORTS", "1"), ("RATE_LIMITS", '{"a": -1}'), ("PROFILE", "nope"), ("DATABASE", "mysql://x")],
)
def test_a_wrong_setting_stops_the_start_by_name(tmp_path: Path, key: str, value: str):
    done = run("serve", cwd=tmp_path, **{key: value})
    assert (done.returncode, done.stdout) == (1, "")
    assert key.lower() in done.stderr.lower() or "mysql" in done.stderr
    assert "Traceback" not in done.stderr


def test_six_processes_start_at_once_on_nothing(fresh: Callable[..., Server]):
    replicas = fresh().database is not None
    servers = [fresh() for _ in range(6 if replicas else 1)]
    names = [] if replicas else [f"agent-{number}" for number in range(5)]
    with ThreadPoolExecutor(6) as hands:
        started = [hands.submit(server.start) for server in servers]
        hired = [hands.submit(servers[0].agent, name) for name in names]
        try:
            assert all(start.result() > 0 for start in started)
            assert all(hire.result().startswith("sfa_") for hire in hired)
            for server in servers:
                assert HTTP.get(f"{server.url}/readyz").status_code == 200
                assert server.call(STATUS, token=server.operator).status_code == 200
        finally:
            stopped = [hands.submit(server.stop) for server in servers]
    assert {stop.result()[0] for stop in stopped} == {0}


def test_a_command_works_without_a_server_and_says_how_it_went(tmp_path: Path):
    made = run("call", "factory", LOG_DECISION, json.dumps(DECISION), cwd=tmp_path)
    assert (made.returncode, json.loads(made.stdout)["success"]) == (0, True)
    refused = run("call", "factory", LOG_DECISION, "{}", cwd=tmp_path)
    assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (1, "INVALID_INPUT")


def test_a_newer_schema_is_refused(fresh: Callable[..., Server]):
    server = fresh()
    with server:
        server.reach_in("INSERT INTO schema_version (number, name, applied_at) VALUES (9999, 'later', 0)")
        server.stop()
    for command in (["serve", "--port", "0"], ["agent", "list"]):
        done = server.run(*command)
        assert (done.returncode, done.stdout) == (1, "")
        assert "9999" in done.stderr
        assert "upgrade shopfloor" in done.stderr


@attack("LIF-01")
@pytest.mark.parametrize("times", [10, pytest.param(50, marks=pytest.mark.long)])
def test_ready_means_listening(tmp_path: Path, times: int):
    server, seconds = Server(tmp_path), []
    for _ in range(times):
        seconds.append(server.start())
        with socket.create_connection(server.address) as connection:
            connection.sendall(f"GET /readyz HTTP/1.1\r\nHost: {server.address[0]}\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        server.signal(signal.SIGINT)
        assert server.wait() == 0
        server.kill()
    print(f"start to ready: {_figures(seconds)}")


def _figures(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"median {ordered[len(ordered) // 2]:.2f} s, fastest {ordered[0]:.2f} s, slowest {ordered[-1]:.2f} s"


class Crowd:
    """Many callers who wait for something: half of them over streams, in both eras."""

    def __init__(self, server: Server, size: int) -> None:
        self.answered: dict[int, bool] = {}
        self.threads = [threading.Thread(target=self._wait, args=(server, number)) for number in range(size)]
        for thread in self.threads:
            thread.start()
        until(lambda: server.count("decision", f"process IS NOT NULL AND tool = '{WAIT}'") == size)

    def _wait(self, server: Server, number: int) -> None:
        params: dict[str, Any] = {"name": WAIT, "arguments": {"topic": "never", "seconds": 600}}
        if number % 2:
            params["_meta"] = {"progressToken": str(number)}
        try:
            self.answered[number] = server.rpc("tools/call", params, era=ERAS[number // 2 % 2]).status_code == 200
        except httpx2.TransportError:
            self.answered[number] = False

    def ended(self) -> tuple[list[bool], list[bool]]:
        """Who was answered: those who waited for an answer in one piece, and those with a stream."""
        for thread in self.threads:
            thread.join(PATIENCE)
        ordered = [self.answered[number] for number in range(len(self.threads))]
        return ordered[::2], ordered[1::2]


def test_a_server_stops_in_time_with_a_hundred_callers_waiting(fresh: Callable[..., Server]):
    with fresh(program=WITH_FIXTURES, calls=128) as server:
        crowd = Crowd(server, 100)
        code, seconds = server.stop()
        plain, streams = crowd.ended()
        print(f"stopped with 100 waiting calls, half of them streams, after {seconds:.2f} s")
    assert (code, seconds < 30) == (0, True)
    assert len(streams) == 50  # these are closed first, with an answer or without
    if seconds < DRAIN_SECONDS:  # later than that, whoever has no answer yet gets none
        assert plain == [True] * 50
        assert server.count("decision", "process IS NOT NULL") == 0
        assert server.count("process") == 0
        assert "Traceback" not in server.log.read_text()


def test_a_call_that_cannot_be_ended_does_not_keep_the_server(tmp_path: Path):
    answers: list[httpx2.Response] = []
    with serving(tmp_path, program=WITH_FIXTURES) as server:
        stuck = threading.Thread(target=lambda: answers.append(server.call("mcp__fixture__hold", {"gate": "/nowhere"})))
        stuck.start()
        until(lambda: server.count("decision", "process IS NOT NULL") == 1)
        made = server.call(LOG_DECISION, DECISION)
        code, seconds = server.stop()
        print(f"stopped with a stuck call after {seconds:.2f} s")
        assert (code, seconds < 30) == (0, True)
        stuck.join(PATIENCE)
        (cut,) = answers
        assert (cut.status_code, cut.headers["retry-after"]) == (503, "1")
        assert cut.json()["error"]["code"] == "TRANSIENT_ERROR"
        assert "Traceback" not in server.log.read_text()
        assert server.count("decision", f"id = {made.json()['data']['logId'].removeprefix('log-')}") == 1


def _ignore(do: Callable[[], object]) -> None:
    with contextlib.suppress(httpx2.HTTPError):
        do()


def test_a_second_signal_ends_it_at_once(tmp_path: Path):
    with serving(tmp_path, program=WITH_FIXTURES) as server:
        stuck = threading.Thread(
            target=lambda: _ignore(lambda: server.call("mcp__fixture__hold", {"gate": "/nowhere"}))
        )
        stuck.start()
        until(lambda: server.count("decision", "process IS NOT NULL") == 1)
        server.signal(signal.SIGTERM)
        until(lambda: not _reachable(server))
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 128 + signal.SIGTERM
        assert time.monotonic() - began < DRAIN_SECONDS  # it waited for nobody
        stuck.join(PATIENCE)


def _reachable(server: Server) -> bool:
    try:
        socket.create_connection(server.address, PATIENCE).close()
    except OSError:
        return False
    return True


def test_what_a_killed_server_left_open_is_closed_and_nothing_else(fresh: Callable[..., Server]):
    with fresh(program=WITH_FIXTURES) as server:
        crowd = Crowd(server, 3)
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
            assert b"serverInfo" in other.stdout.readline()  # only then may a client go on
            for line in (
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                request("tools/call", call, id=2)[0],
            ):
                other.stdin.write(json.dumps(line).encode() + b"\n")
            other.stdin.flush()
            until(lambda: _open(server) == 4)
            server.kill()
            crowd.ended()
            seconds = server.start()
            until(lambda: _open(server) == 1)
        finally:
            other.kill()
            other.wait(PATIENCE)
        unknown = server.rows("SELECT tool, code, context FROM decision WHERE kind = 'error'")
        assert [(tool, code) for tool, code, _ in unknown] == [(WAIT, "INTERNAL_ERROR")] * 3
        assert all("Outcome unknown" in context for _, _, context in unknown)
        until(lambda: _open(server) == 0)  # the other one has died as well
        assert server.count("decision", "kind = 'error'") == 4
        print(f"ready {seconds:.2f} s after a kill")


def _open(server: Server) -> int:
    return server.count("decision", "process IS NOT NULL")


def test_health_and_readiness(team: Team):
    health = HTTP.get(f"{team.server.url}/healthz")
    assert (health.status_code, health.json()) == (200, {"status": "alive"})
    ready = HTTP.get(f"{team.server.url}/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "missing": []})
    assert HTTP.get(f"{team.server.url}/metrics").status_code == 401
    assert HTTP.get(f"{team.server.url}/metrics", headers=bearer(team.tokens["worker_a"])).status_code == 200


def test_help_is_quick(tmp_path: Path):
    began = time.monotonic()
    done = run("--help", program=SHOPFLOOR, cwd=tmp_path)
    print(f"--help after {time.monotonic() - began:.2f} s")
    assert done.returncode == 0
