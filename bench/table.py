"""The figures as one table for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench import calls, doors
from bench.calls import key
from bench.goals import Goal
from bench.rounds import Samples, cpu, rate, times_the_rate

_NAMES = {"execute": "/mcp/execute", calls.IN_PROCESS: "in process"}


def table(samples: Samples, engines: Sequence[str], clients: Sequence[int], tools: dict[str, str]) -> str:
    """Calls a second, CPU per call, and the rate in times of the bare SDK's, for each number of clients."""
    heads = "".join(f" │ {f'{count} client' + 's' * (count > 1):^29}" for count in clients)
    units = "".join(f" │ {'calls/s':>9} {'µs CPU':>8} {'× SDK':>10}" for _ in clients)
    blocks = [f"{'':24}{heads}", f"{'':24}{units}"]
    blocks += _block("bare echo", calls.BARE, "echo", doors.DOORS, samples, clients)
    for engine in engines:
        for kind, tool in tools.items():
            ways = (*doors.DOORS, calls.IN_PROCESS)
            blocks += _block(f"{engine}, {kind} ({tool})", engine, kind, ways, samples, clients)
    return "\n".join(blocks)


def _block(
    title: str, engine: str, kind: str, ways: Iterable[str], samples: Samples, clients: Sequence[int]
) -> list[str]:
    rows = ["", title]
    for way in ways:
        name = _NAMES.get(way, way) if engine != calls.BARE else _bare_name(way)
        cells = "".join(_cell(samples, engine, kind, way, count) for count in clients)
        rows.append(f"  {name:22}{cells}")
    return rows


def _bare_name(way: str) -> str:
    return "Starlette, JSON" if way == "execute" else way.replace("MCP", "SDK")


def _cell(samples: Samples, engine: str, kind: str, way: str, count: int) -> str:
    ours = samples[key(engine, kind, way, count)]
    base = samples[key(calls.BARE, "echo", way if way.startswith("MCP") else doors.DOORS[2], count)]
    return f" │ {rate(ours):9,.0f} {cpu(ours):8,.0f} {times_the_rate(ours, base):10.2f}"


def listed(title: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of figures as they are, one a line; nothing where there are none."""
    lines = [f"  {row['what']:36} {_facts(row)}" for row in rows]
    return ["\n".join([title, *lines])] if rows else []


def _facts(row: dict[str, Any]) -> str:
    return "   ".join(f"{name} {value}" for name, value in row.items() if name != "what")


def judged(goals: Iterable[Goal]) -> str:
    """Each goal with its figure, and whether it is reached."""
    return "\n".join(["goals", *map(_judged, goals)])


def _judged(goal: Goal) -> str:
    wanted = f"≤ {_figure(goal.at_most)}" if goal.at_most is not None else f"≥ {_figure(goal.at_least or 0)}"
    by_cpu = "" if goal.by_cpu is None else f"   by CPU {_figure(goal.by_cpu)}"
    figure = f"{_figure(goal.value):>8} {goal.unit:20} {wanted:8}"
    return f"  {goal.what:44} {figure} {'ok' if goal.reached else 'short':5}{by_cpu}".rstrip()


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.2f}"
