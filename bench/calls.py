"""Every door, both engines, a write and a read, at each number of clients."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench import doors, tools
from bench.children import Child
from bench.plan import Plan
from bench.rounds import Measure, Sample, Samples, interleaved

BARE = "bare"
IN_PROCESS = "in process"


def key(engine: str, kind: str, door: str, clients: int) -> str:
    return f"{engine}/{kind}/{door}/{clients}"


def measure(plan: Plan) -> tuple[Samples, dict[str, str]]:
    """The samples of every way to call, and the names of the tools that were called."""
    measures: dict[str, Measure] = {}
    with ExitStack() as stack:
        load = stack.enter_context(Child("load", log=plan.log("load")))
        bare = stack.enter_context(Child("bare", log=plan.log("bare")))
        floors = {engine: stack.enter_context(_floor(plan, engine)) for engine in plan.databases}
        insides = {engine: stack.enter_context(_inside(plan, engine)) for engine in plan.databases}
        called = tools.chosen(next(iter(floors.values())).facts["tools"])
        for clients in plan.clients:
            for door in doors.DOORS:
                measures[key(BARE, "echo", door, clients)] = _over_http(plan, load, bare, doors.bare(door), clients)
            for engine, floor in floors.items():
                for kind, tool in called.items():
                    for door in doors.DOORS:
                        requests = doors.ours(door, tool, floor.facts["tokens"])
                        measures[key(engine, kind, door, clients)] = _over_http(plan, load, floor, requests, clients)
                    measures[key(engine, kind, IN_PROCESS, clients)] = _in_process(plan, insides[engine], kind, clients)
        samples = interleaved(plan.rounds, measures, lambda what: plan.said(f"calls: {what}"))
    return samples, {kind: tool.name for kind, tool in called.items()}


def _floor(plan: Plan, engine: str) -> Child:
    name = f"floor-{engine}"
    return Child("floor", plan.data(name), plan.databases[engine](), "0", log=plan.log(name))


def _inside(plan: Plan, engine: str) -> Child:
    name = f"inside-{engine}"
    return Child("inside", plan.data(name), plan.databases[engine](), log=plan.log(name))


def _over_http(plan: Plan, load: Child, server: Child, requests: list[str], clients: int) -> Measure:
    asked: dict[str, Any] = {"port": server.facts["port"], "pid": server.pid, "requests": requests, "clients": clients}
    return lambda: Sample.of(load.ask(**asked, seconds=plan.seconds))


def _in_process(plan: Plan, inside: Child, kind: str, clients: int) -> Measure:
    return lambda: Sample.of(inside.ask(kind=kind, clients=clients, seconds=plan.seconds))
