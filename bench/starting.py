"""How long it takes to start: the first start of a new floor until it is ready, and `shopfloor --help`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from statistics import median

from bench.children import PATIENCE
from bench.plan import Plan

SHOPFLOOR = [sys.executable, "-m", "shopfloor"]


def measure(plan: Plan) -> dict[str, float]:
    """Seconds, the median of several starts."""
    measures: dict[str, Callable[[int], float]] = {"ready": lambda number: _serve(plan, number), "help": _help}
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(plan.starts):
        plan.said(f"starting: {number + 1} of {plan.starts}")
        for name, one in measures.items():
            seconds[name].append(one(number))
    return {name: median(values) for name, values in seconds.items()}


def _help(_: int) -> float:
    began = time.perf_counter()
    subprocess.run([*SHOPFLOOR, "--help"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    return time.perf_counter() - began


def _serve(plan: Plan, number: int) -> float:
    data = plan.data(f"start-{number}")
    command = [*SHOPFLOOR, "serve", "--port", "0", "--data", data, "--project", str(plan.folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")}
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            with urllib.request.urlopen(f"{url}/readyz", timeout=PATIENCE) as answer:
                assert json.load(answer)["status"] == "ready"
            return time.perf_counter() - began
        finally:
            server.terminate()
