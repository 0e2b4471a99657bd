"""Tools for figures: what calls cost, and how the store and the dispatcher are."""

from __future__ import annotations

from shopfloor.domain.times import iso
from shopfloor.repositories.work import Outside
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import figures


@toolset.tool("metrics", read_only=True, outside=True)
def metrics(outside: Outside) -> Json:
    """Calls per tool with p50, p95 and p99 of this replica since it started; store and dispatcher of the floor."""
    found = figures.figures(outside)
    seen, replica = found.figures, found.replica
    return {
        "replica": None
        if replica is None
        else {"host": replica.host, "pid": replica.pid, "startedAt": iso(replica.started_at)},
        "replicas": found.replicas,
        "tools": [
            {
                "toolset": tool.toolset,
                "tool": tool.tool,
                "calls": tool.calls,
                "failed": tool.failed,
                "perMinute": tool.per_minute,
                "limited": tool.limited,
                "retries": tool.retries,
                "p50Ms": _ms(tool.p50),
                "p95Ms": _ms(tool.p95),
                "p99Ms": _ms(tool.p99),
                "outcomes": dict(tool.outcomes),
            }
            for tool in seen.tools
        ],
        "perMinute": [{"at": iso(at), "calls": calls, "failed": failed} for at, calls, failed in seen.per_minute],
        "latency": [{"toMs": _ms(edge), "calls": count} for edge, count in seen.latency],
        "batches": [{"to": edge, "commits": count} for edge, count in seen.batches],
        "gauges": seen.gauges,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)
