"""The tool behind the metrics page."""

from __future__ import annotations

from shopfloor.domain.times import format_iso
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import metrics
from shopfloor.usecases.external import ExternalContext


@toolset.tool("metrics", read_only=True, external=True)
def show_metrics(external: ExternalContext) -> Json:
    """Show calls per tool with p50, p95 and p99 of this replica since its start, and gauges of the store."""
    found = metrics.read_metrics(external)
    seen, replica = found.figures, found.replica
    return {
        "replica": None
        if replica is None
        else {"host": replica.host, "pid": replica.pid, "startedAt": format_iso(replica.started_at)},
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
                "p50Ms": _to_milliseconds(tool.p50),
                "p95Ms": _to_milliseconds(tool.p95),
                "p99Ms": _to_milliseconds(tool.p99),
                "outcomes": dict(tool.outcomes),
            }
            for tool in seen.tools
        ],
        "perMinute": [
            {"at": format_iso(at), "calls": calls, "failed": failed} for at, calls, failed in seen.per_minute
        ],
        "latency": [{"toMs": _to_milliseconds(edge), "calls": count} for edge, count in seen.latency],
        "batches": [{"to": edge, "commits": count} for edge, count in seen.batches],
        "gauges": seen.gauges,
    }


def _to_milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)
