"""Format the figures as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench import calls, transports
from bench.calls import key
from bench.goals import Goal
from bench.rounds import Samples, median_cpu, median_rate, rate_ratio

_NAMES = {"execute": "/mcp/execute", calls.IN_PROCESS: "in process"}


def format_calls(samples: Samples, engines: Sequence[str], clients: Sequence[int], tools: dict[str, str]) -> str:
    """Format calls per second, CPU per call and the rate relative to the bare SDK, for each number of clients."""
    heads = "".join(f" │ {f'{count} client' + 's' * (count > 1):^29}" for count in clients)
    units = "".join(f" │ {'calls/s':>9} {'µs CPU':>8} {'× SDK':>10}" for _ in clients)
    blocks = [f"{'':24}{heads}", f"{'':24}{units}"]
    blocks += _block("bare echo", calls.BARE, "echo", transports.TRANSPORTS, samples, clients)
    for engine in engines:
        for kind, tool in tools.items():
            ways = (*transports.TRANSPORTS, calls.IN_PROCESS)
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
    tool_requests = samples[key(engine, kind, way, count)]
    base = samples[key(calls.BARE, "echo", way if way.startswith("MCP") else transports.TRANSPORTS[2], count)]
    return f" │ {median_rate(tool_requests):9,.0f} {median_cpu(tool_requests):8,.0f} {rate_ratio(tool_requests, base):10.2f}"


def format_rows(title: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Format rows of figures, one per line; return an empty list without rows."""
    lines = [f"  {row['what']:36} {_format_fields(row)}" for row in rows]
    return ["\n".join([title, *lines])] if rows else []


def _format_fields(row: dict[str, Any]) -> str:
    return "   ".join(f"{name} {value}" for name, value in row.items() if name != "what")


def format_goals(goals: Iterable[Goal]) -> str:
    """Format each goal with its figure and whether it is reached."""
    return "\n".join(["goals", *map(_format_goal, goals)])


def _format_goal(goal: Goal) -> str:
    wanted = (
        f"≤ {_format_figure(goal.at_most)}" if goal.at_most is not None else f"≥ {_format_figure(goal.at_least or 0)}"
    )
    by_cpu = "" if goal.by_cpu is None else f"   by CPU {_format_figure(goal.by_cpu)}"
    figure = f"{_format_figure(goal.value):>8} {goal.unit:20} {wanted:8}"
    return f"  {goal.what:44} {figure} {'ok' if goal.reached else 'short':5}{by_cpu}".rstrip()


def _format_figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.2f}"
