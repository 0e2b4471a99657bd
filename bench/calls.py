"""Measure every transport on both engines, a write and a read, for each number of clients."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench import tools, transports
from bench.plan import Plan
from bench.rounds import Measure, Sample, Samples, measure_rounds
from bench.subprocesses import Subprocess

BARE = "bare"
IN_PROCESS = "in process"
SQLITE, POSTGRES = "SQLite", "PostgreSQL"


def key(engine: str, kind: str, transport: str, clients: int) -> str:
    return f"{engine}/{kind}/{transport}/{clients}"


def measure(plan: Plan) -> tuple[Samples, dict[str, str]]:
    """Return the samples of every transport, and the names of the tools that were called."""
    measures: dict[str, Measure] = {}
    with ExitStack() as stack:
        load = stack.enter_context(Subprocess("load", log=plan.log("load")))
        baseline = stack.enter_context(Subprocess("baselines", log=plan.log("baselines")))
        servers = {engine: stack.enter_context(_start_server(plan, engine)) for engine in plan.databases}
        programs = {engine: stack.enter_context(_start_in_process(plan, engine)) for engine in plan.databases}
        chosen = tools.choose_tools(next(iter(servers.values())).facts["tools"])
        for clients in plan.clients:
            for transport in transports.TRANSPORTS:
                measures[key(BARE, "echo", transport, clients)] = _measure_over_http(
                    plan, load, baseline, transports.build_echo_requests(transport), clients
                )
            for engine, server in servers.items():
                for kind, tool in chosen.items():
                    for transport in transports.TRANSPORTS:
                        requests = transports.build_tool_requests(transport, tool, server.facts["tokens"])
                        measures[key(engine, kind, transport, clients)] = _measure_over_http(
                            plan, load, server, requests, clients
                        )
                    measures[key(engine, kind, IN_PROCESS, clients)] = _measure_in_process(
                        plan, programs[engine], kind, clients
                    )
        samples = measure_rounds(plan.rounds, measures, lambda what: plan.report(f"calls: {what}"))
    return samples, {kind: tool.name for kind, tool in chosen.items()}


def _start_server(plan: Plan, engine: str) -> Subprocess:
    name = f"server-{engine}"
    return Subprocess("server", plan.data(name), plan.databases[engine](), "0", log=plan.log(name))


def _start_in_process(plan: Plan, engine: str) -> Subprocess:
    name = f"in-process-{engine}"
    return Subprocess("in_process", plan.data(name), plan.databases[engine](), log=plan.log(name))


def _measure_over_http(plan: Plan, load: Subprocess, server: Subprocess, requests: list[str], clients: int) -> Measure:
    request: dict[str, Any] = {
        "port": server.facts["port"],
        "pid": server.pid,
        "requests": requests,
        "clients": clients,
    }
    return lambda: Sample.of(load.ask(**request, seconds=plan.seconds))


def _measure_in_process(plan: Plan, in_process: Subprocess, kind: str, clients: int) -> Measure:
    return lambda: Sample.of(in_process.ask(kind=kind, clients=clients, seconds=plan.seconds))
