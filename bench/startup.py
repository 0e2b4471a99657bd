"""Measure start-up: a new server until it is ready, `shopfloor --help`, and `initialize` over stdio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from statistics import median

from bench.plan import Plan
from bench.subprocesses import TIMEOUT_SECONDS
from bench.transports import OLDER

SHOPFLOOR = [sys.executable, "-m", "shopfloor"]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": OLDER,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def measure(plan: Plan) -> dict[str, float]:
    """Return the median seconds of several starts."""
    measures: dict[str, Callable[[int], float]] = {
        "ready": lambda number: _time_first_start(plan, number),
        "help": _time_help,
        "initialize": lambda number: _time_initialize(plan, number),
    }
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(plan.starts):
        plan.report(f"starting: {number + 1} of {plan.starts}")
        for name, one in measures.items():
            seconds[name].append(one(number))
    return {name: median(values) for name, values in seconds.items()}


def _time_help(_: int) -> float:
    started = time.perf_counter()
    subprocess.run([*SHOPFLOOR, "--help"], check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
    return time.perf_counter() - started


def _time_first_start(plan: Plan, number: int) -> float:
    data = plan.data(f"start-{number}")
    command = [*SHOPFLOOR, "serve", "--port", "0", "--data", data, "--project", str(plan.folder)]
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_clean_environment()
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            with urllib.request.urlopen(f"{url}/readyz", timeout=TIMEOUT_SECONDS) as response:
                assert json.load(response)["status"] == "ready"
            return time.perf_counter() - started
        finally:
            server.terminate()


def _time_initialize(plan: Plan, number: int) -> float:
    """Return the seconds until a new process has answered `initialize` over stdio."""
    command = [*SHOPFLOOR, "stdio", "--data", plan.data(f"stdio-{number}"), "--project", str(plan.folder)]
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_clean_environment(),
    ) as server:
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(f"{json.dumps(INITIALIZE)}\n")
            server.stdin.flush()
            assert "result" in json.loads(server.stdout.readline())
            return time.perf_counter() - started
        finally:
            server.terminate()


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")}
