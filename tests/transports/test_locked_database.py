"""Another process keeps SQLite locked: every caller gets an error soon, and nothing is lost or doubled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import apsw

from tests.transports.server import ERAS, HTTP, PATIENCE, Server, serving, wait_until

BOUND_SECONDS = 10.0
BUSY_FACTOR = 2.5
"""Before, calls were answered after 332 s, and commands after 33 s."""
TOOL = "mcp__system__log_decision"
ROUNDS = 3


@contextmanager
def lock_database(server: Server, *, whole_file: bool = False) -> Iterator[None]:
    """Hold the lock of the database as another program does, so that no process can write, or not even read."""
    other = apsw.Connection(str(server.data / "shopfloor.db"))
    try:
        other.set_busy_timeout(int(PATIENCE * 1000))
        if whole_file:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        if whole_file:
            other.execute("PRAGMA user_version = 0")  # the lock on the file is taken with the first write
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()


def send(server: Server, token: str, transport: str, title: str) -> tuple[str, str]:
    """Write once and return the code of the error, or the id of the row."""
    input = {"title": title, "body": "B"}
    if transport == "execute":
        answer = server.call(TOOL, input, token=token, key=title).json()
    else:
        params = {"name": TOOL, "arguments": input, "_meta": {"shopfloor/idempotencyKey": title}}
        result = server.rpc("tools/call", params, token=token, era=transport).json()["result"]
        answer = result.get("structuredContent") or json.loads(result["content"][0]["text"])
    return ("", answer["data"]["logId"]) if answer["success"] else (answer["error"]["code"], answer["error"]["message"])


def measure(do: Callable[[], object]) -> float:
    began = time.monotonic()
    do()
    return time.monotonic() - began


def test_locked_database_is_reported_by_every_transport_in_time_and_loses_nothing(tmp_path: Path):
    with serving(tmp_path) as server:
        token = server.agent("worker")
        writes = [(transport, f"{transport}-{number}") for transport in ("execute", *ERAS) for number in range(ROUNDS)]
        outcomes: dict[str, tuple[str, str]] = {}
        commands = []

        def write(transport: str, title: str) -> None:
            outcomes[title] = send(server, token, transport, title)

        with ThreadPoolExecutor(len(writes) + 1) as threads:
            with lock_database(server):
                calls = [threads.submit(measure, lambda item=item: write(*item)) for item in writes]  # type: ignore[misc]
                command = threads.submit(
                    measure, lambda: commands.append(server.run("task", "add", "Written by the command line"))
                )
                # Meanwhile the server is alive, says that it cannot serve, and serves what it can: reads.
                assert HTTP.get(f"{server.url}/healthz").status_code == 200
                ready = HTTP.get(f"{server.url}/readyz")
                assert (ready.status_code, ready.json()["status"]) == (503, "waiting")
                assert "Another process has locked the database" in ready.json()["missing"][0]
                assert server.call("mcp__mail__list_inbox", token=token).json()["success"] is True
                seconds = [call.result(PATIENCE) for call in (*calls, command)]
            print(f"answered after {min(seconds):.1f} to {max(seconds):.1f} s")
            assert max(seconds) < BOUND_SECONDS * BUSY_FACTOR

        locked = "Another process has locked the database; retry shortly."
        assert set(outcomes.values()) == {("TRANSIENT_ERROR", locked)}
        problem, hint = commands[0].stderr.splitlines()
        assert (commands[0].returncode, problem) == (1, f"shopfloor: {locked}")
        assert hint.startswith("  Try again later.")

        # Released: the same calls succeed, once each, and the log has both what failed and what succeeded.
        wait_until(lambda: HTTP.get(f"{server.url}/readyz").status_code == 200)
        assert server.count("task") == 0
        stored = [send(server, token, transport, title) for transport, title in writes]
        again = [send(server, token, transport, title) for transport, title in writes]
        assert (again, {code for code, _ in stored}) == (stored, {""})
        assert server.count("decision", "kind = 'manual'") == len(writes)
        assert server.count("event", "name = 'decision.logged'") == len(writes)
        unpaired = (
            "kind = 'invocation' AND reference NOT IN"
            " (SELECT reference FROM decision WHERE kind IN ('result', 'error') AND reference IS NOT NULL)"
        )
        wait_until(lambda: server.count("decision", unpaired) == 0)
        assert server.count("decision", "kind = 'error'") == len(writes)


def test_command_is_answered_in_time_while_a_program_holds_the_whole_file(tmp_path: Path):
    with serving(tmp_path) as server:
        server.stop()
        with lock_database(server, whole_file=True):
            done = []
            seconds = measure(lambda: done.append(server.run("task", "add", "Milk")))
            print(f"answered after {seconds:.1f} s")
            assert seconds < BOUND_SECONDS * BUSY_FACTOR
        assert done[0].stderr == "shopfloor: Another process has locked the database; retry shortly.\n"
        assert server.run("task", "add", "Milk").returncode == 0
        assert server.count("task") == 1
