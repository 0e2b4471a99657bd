"""Metrics: the team's results, and the cost of calls and of the store."""

from __future__ import annotations

import asyncio

from shopfloor.toolkit import Json
from shopfloor.web.filters import format_duration
from shopfloor.web.views.view import Given, parse_number, to_bars
from shopfloor.web.visitor import Visitor

DAYS = (7, 14, 30, 90)


async def load_metrics(visitor: Visitor, given: Given) -> Json:
    """Load the metrics of the work; with `view=system`, those of calls, store and deliveries."""
    if given.get("view") == "system":
        return {"view": "system", **await _load_system(visitor, given)}
    days = parse_number(given.get("days", "")) or 14
    days = days if days in DAYS else 14
    work, system = await asyncio.gather(visitor.ask("work_summary", days=days), visitor.ask("metrics"))
    calls = sum(minute["calls"] for minute in system["perMinute"])
    failed = sum(minute["failed"] for minute in system["perMinute"])
    total = work["total"]
    return {
        "view": "work",
        "days": days,
        "choices": DAYS,
        "work": work,
        "calls": calls,
        "failed_share": failed / calls if calls else 0.0,
        "retried_share": total["retried"] / total["completed"] if total["completed"] else 0.0,
        "completed_bars": [
            (day["day"], day["completed"], f"{day['completed']} completed, {day['retried']} of them after a retry")
            for day in work["days"]
        ],
        "retried": [day["retried"] for day in work["days"]],
        "cycle_bars": [
            (day["day"], (day["cycleSeconds"] or 0) / 60, f"{format_duration(day['cycleSeconds']) or 'no task'}")
            for day in work["days"]
        ],
        "token_bars": [
            (day["day"], day["tokens"], f"{day['tokens']:,} tokens, ${day['cost']:.2f}") for day in work["days"]
        ],
        "cost_bars": [(day["day"], day["cost"], f"${day['cost']:.2f}") for day in work["days"]],
        "minutes": to_bars(system["perMinute"]),
    }


async def _load_system(visitor: Visitor, given: Given) -> Json:
    seen, dead = await asyncio.gather(visitor.ask("metrics"), visitor.ask("dead_letters", cursor=given.get("cursor")))
    tools = [tool for tool in seen["tools"] if tool["toolset"] != "desk" or given.get("desk")]
    return {
        "seen": seen,
        "tools": tools,
        "top": max((tool["p99Ms"] or 0 for tool in tools), default=1),
        "minutes": to_bars(seen["perMinute"]),
        "latency": [(_format_step(step["toMs"]), step["calls"]) for step in seen["latency"] if step["calls"]],
        "batches": [(_format_edge(step["to"]), step["commits"]) for step in seen["batches"] if step["commits"]],
        "dead": dead,
    }


def _format_step(milliseconds: float | None) -> str:
    if milliseconds is None or milliseconds < 1000:
        return _format_edge(milliseconds, " ms")
    return _format_edge(milliseconds / 1000, " s")


def _format_edge(edge: float | None, unit: str = "") -> str:
    return "more" if edge is None else f"≤ {edge:g}{unit}"
