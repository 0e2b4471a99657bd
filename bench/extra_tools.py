"""Measure a call with no extra tools registered and with a hundred: unused tools must not make a call slower."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench import tools, transports
from bench.plan import Plan
from bench.rounds import Measure, Sample, Samples, measure_rounds
from bench.subprocesses import Subprocess

COUNTS = (0, 100)
CLIENTS = 8


def key(transport: str, count: int) -> str:
    return f"{transport}/{count}"


def measure(plan: Plan) -> Samples:
    """Return the samples of a read over each transport, with and without the extra tools."""
    measures: dict[str, Measure] = {}
    with ExitStack() as stack:
        load = stack.enter_context(Subprocess("load", log=plan.log("load")))
        for count in COUNTS:
            name = f"extra-tools-{count}"
            server = stack.enter_context(Subprocess("server", plan.data(name), "", str(count), log=plan.log(name)))
            for transport in transports.TRANSPORTS:
                measures[key(transport, count)] = _measure(plan, load, server, transport)
        return measure_rounds(max(plan.rounds, 2), measures, lambda what: plan.report(f"extra tools: {what}"))


def _measure(plan: Plan, load: Subprocess, server: Subprocess, transport: str) -> Measure:
    request: dict[str, Any] = {
        "port": server.facts["port"],
        "pid": server.pid,
        "requests": transports.build_tool_requests(transport, tools.READ, server.facts["tokens"]),
        "clients": CLIENTS,
        "seconds": plan.seconds,
    }
    return lambda: Sample.of(load.ask(**request))
