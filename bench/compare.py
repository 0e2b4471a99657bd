"""Measure two checkouts in turn: `python -m bench.compare BASE [NEW]`.

On a busy machine this is the only way to see whether a change made calls cheaper. BASE and NEW are checkouts in which
`make setup` has run; NEW is this one by default. Each is started with its own `shopfloor serve` and called over HTTP
alone, so that versions whose modules have other names can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import tools, transports
from bench.rounds import Measure, Sample, Samples, cpu_ratio, measure_rounds, median_cpu, median_rate, rate_ratio
from bench.subprocesses import CHECKOUT, TIMEOUT_SECONDS, Subprocess

SECONDS = 0.4
CLIENTS = (1, 64)
PROJECT_FILES = 40
"""Python files of the standard library's size that each server indexes."""
SEARCH = tools.Measured("context_search", {"query": "how are invoices rounded"})
LIST = tools.Measured("mcp__mail__list_inbox", {"limit": 10})
KINDS = {"mail send": tools.SEND, "get_status": tools.READ, "list_inbox": LIST, "context_search": SEARCH}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server of one checkout."""

    port: int
    pid: int
    tokens: dict[str, str]


def main() -> None:
    options = _parse_options()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))
        load = stack.enter_context(Subprocess("load"))
        base, new = (
            _build_measures(stack.enter_context(_serve(checkout.resolve(), folder / name)), load)
            for name, checkout in (("base", options.base), ("new", options.new))
        )
        # Interleaved, so that both see the same load of the machine.
        paired = {
            key: each
            for name in base
            if options.only in name
            for key, each in ((f"base {name}", base[name]), (f"new {name}", new[name]))
        }
        samples = measure_rounds(options.rounds, paired, lambda _: None)
    print(_format_table(samples, [name for name in base if options.only in name]))


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description="Compare the cost of calls of two checkouts."
    )
    parser.add_argument("base", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=CHECKOUT)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default="", help="measure only what has this text in its name")
    return parser.parse_args()


@contextmanager
def _serve(checkout: Path, project: Path) -> Iterator[Server]:
    """Start the server of a checkout in a new project, with agents, mail and files."""
    project.mkdir()
    for number in range(PROJECT_FILES):
        lines = [f'def total_{number}_{line}(invoice):\n    """Round invoice {line}."""\n' for line in range(40)]
        (project / f"module_{number}.py").write_text("\n".join(lines))
    command = str(checkout / ".venv" / "bin" / "shopfloor")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")}
    environment |= {"SHOPFLOOR_EMBEDDINGS": "off", "SHOPFLOOR_RATE_LIMITS": '{"context_search": 0}'}
    tokens = {}
    for agent in tools.AGENTS:
        added = subprocess.check_output([command, "agent", "add", agent, "--json"], cwd=project, env=environment)
        tokens[agent] = json.loads(added)["token"]
    with (project / "log").open("wb") as log:
        process = subprocess.Popen(
            [command, "serve", "--port", "0", "--log-level", "warning"],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        assert process.stdout is not None
        port = next(int(found[1]) for line in process.stdout if (found := re.search(rb"127\.0\.0\.1:(\d+)", line)))
        yield Server(port, process.pid, tokens)
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)


def _build_measures(server: Server, load: Subprocess) -> dict[str, Measure]:
    measures: dict[str, Measure] = {}
    for kind, tool in KINDS.items():
        for clients in CLIENTS:
            for transport in transports.TRANSPORTS:
                requests = transports.build_tool_requests(transport, tool, server.tokens)
                request = {"port": server.port, "pid": server.pid, "requests": requests, "clients": clients}
                measures[f"{kind}, {transport}, {clients}"] = _measure_by(load, **request)
    return measures


def _measure_by(program: Subprocess, **request: Any) -> Measure:
    def measure() -> Sample:
        sample = Sample.of(program.ask(**request, seconds=SECONDS))
        time.sleep(0.05)  # rows of reads are written after their responses
        return sample

    return measure


def _format_table(samples: Samples, names: list[str]) -> str:
    rows = [f"{'':36} {'base µs':>9} {'new µs':>9} {'× CPU':>7} {'base/s':>9} {'new/s':>9} {'× rate':>7}"]
    for name in names:
        base, new = samples[f"base {name}"], samples[f"new {name}"]
        costs = f"{median_cpu(base):9,.0f} {median_cpu(new):9,.0f} {cpu_ratio(new, base):7.2f}"
        rates = f"{median_rate(base):9,.0f} {median_rate(new):9,.0f} {rate_ratio(new, base):7.2f}"
        rows.append(f"{name:36} {costs} {rates}")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
