"""The cost of a call with no further tools registered, and with a hundred: it must not grow."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench import doors, tools
from bench.children import Child
from bench.plan import Plan
from bench.rounds import Measure, Sample, Samples, interleaved

COUNTS = (0, 100)
CLIENTS = 8


def key(door: str, count: int) -> str:
    return f"{door}/{count}"


def measure(plan: Plan) -> Samples:
    """The samples of each door on each floor, reading."""
    measures: dict[str, Measure] = {}
    with ExitStack() as stack:
        load = stack.enter_context(Child("load", log=plan.log("load")))
        for count in COUNTS:
            name = f"further-{count}"
            floor = stack.enter_context(Child("floor", plan.data(name), "", str(count), log=plan.log(name)))
            for door in doors.DOORS:
                measures[key(door, count)] = _measure(plan, load, floor, door)
        return interleaved(max(plan.rounds, 2), measures, lambda what: plan.said(f"further tools: {what}"))


def _measure(plan: Plan, load: Child, floor: Child, door: str) -> Measure:
    asked: dict[str, Any] = {
        "port": floor.facts["port"],
        "pid": floor.pid,
        "requests": doors.ours(door, tools.READ, floor.facts["tokens"]),
        "clients": CLIENTS,
        "seconds": plan.seconds,
    }
    return lambda: Sample.of(load.ask(**asked))
