"""Metrics of this process: counters and histograms for Prometheus, and a summary for the desk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_DURATION_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


DESK = "desk"
"""The toolset of the pages. Its calls are excluded from the calls per minute that the pages show."""


@dataclass(frozen=True, slots=True)
class ToolMetrics:
    """The calls of one tool; quantiles in seconds."""

    toolset: str
    tool: str
    calls: int
    failed: int
    per_minute: float
    limited: int
    retries: int
    p50: float | None
    p95: float | None
    p99: float | None
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class MetricsSummary:
    """What this process has counted since it started."""

    tools: list[ToolMetrics]
    per_minute: list[tuple[int, int, int]]
    latency: list[tuple[float | None, int]]
    batches: list[tuple[float | None, int]]
    gauges: dict[str, float]


class Metrics:
    """The counters and histograms of this process."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "shopfloor_calls", "Calls by tool and outcome", ["toolset", "tool", "outcome"], registry=self.registry
        )
        self._seconds = Histogram(
            "shopfloor_call_seconds",
            "Duration of calls",
            ["toolset", "tool"],
            buckets=_DURATION_BUCKETS,
            registry=self.registry,
        )
        # Looking up a labelled child takes a lock and a tuple; the cache saves both on every call.
        self._counter = cache(self._calls.labels)
        self._timer = cache(self._seconds.labels)
        self._limited = Counter("shopfloor_rate_limited", "Calls over a rate limit", ["tool"], registry=self.registry)
        self._retries = Counter("shopfloor_retries", "Attempts after the first", ["tool"], registry=self.registry)
        self._escalations = Counter("shopfloor_escalations", "Failures escalated", ["tool"], registry=self.registry)
        self._failed_authentications = Counter(
            "shopfloor_failed_authentications", "Rejected credentials by reason", ["reason"], registry=self.registry
        )
        self._slow = Counter("shopfloor_slow_calls", "Calls over their time budget", ["tool"], registry=self.registry)
        self._batch = Histogram(
            "shopfloor_commit_batch_size",
            "Writes per commit",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=self.registry,
        )
        self._gauges = gauges
        self._lock = threading.Lock()
        self._minutes = _Minutes()
        self._since = time.monotonic()
        self.registry.register(_Gauges(gauges))

    def count_call(self, toolset: str, tool: str, outcome: str, seconds: float) -> None:
        """Count a call that has ended. `outcome` is ok or the code of its error."""
        self._counter(toolset, tool, outcome).inc()
        self._timer(toolset, tool).observe(seconds)
        if toolset != DESK:
            with self._lock:
                self._minutes.count(outcome != "ok")

    def count_rate_limited(self, tool: str) -> None:
        self._limited.labels(tool).inc()

    def count_retry(self, tool: str) -> None:
        self._retries.labels(tool).inc()

    def count_escalation(self, tool: str) -> None:
        self._escalations.labels(tool).inc()

    def count_failed_authentication(self, reason: str) -> None:
        self._failed_authentications.labels(reason).inc()

    def count_slow_call(self, tool: str) -> None:
        self._slow.labels(tool).inc()

    def count_commit(self, writes: int) -> None:
        self._batch.observe(writes)

    def list_minutes(self) -> list[tuple[int, int, int]]:
        """List the last 60 minutes, oldest first, each with its calls and failures."""
        with self._lock:
            return self._minutes.list_last(60)

    def summarize(self) -> MetricsSummary:
        """Summarize everything for people."""
        outcomes: dict[tuple[str, str], dict[str, int]] = {}
        for labels, value in _samples(self._calls, "shopfloor_calls_total"):
            outcomes.setdefault((labels["toolset"], labels["tool"]), {})[labels["outcome"]] = int(value)
        buckets: dict[tuple[str, str], list[tuple[float, int]]] = {}
        for labels, value in _samples(self._seconds, "shopfloor_call_seconds_bucket"):
            buckets.setdefault((labels["toolset"], labels["tool"]), []).append((float(labels["le"]), int(value)))
        limited, retries = (
            {labels["tool"]: int(value) for labels, value in _samples(counter, name)}
            for counter, name in (
                (self._limited, "shopfloor_rate_limited_total"),
                (self._retries, "shopfloor_retries_total"),
            )
        )
        minutes = max((time.monotonic() - self._since) / 60, 1.0)
        tools = [
            ToolMetrics(
                toolset=toolset,
                tool=tool,
                calls=sum(counts.values()),
                failed=sum(count for outcome, count in counts.items() if outcome != "ok"),
                per_minute=round(sum(counts.values()) / minutes, 1),
                limited=limited.get(tool, 0),
                retries=retries.get(tool, 0),
                p50=estimate_quantile(buckets.get((toolset, tool), []), 0.5),
                p95=estimate_quantile(buckets.get((toolset, tool), []), 0.95),
                p99=estimate_quantile(buckets.get((toolset, tool), []), 0.99),
                outcomes=counts,
            )
            for (toolset, tool), counts in sorted(outcomes.items())
        ]
        edges: dict[float, int] = {}
        for edge, count in chain.from_iterable(buckets.values()):
            edges[edge] = edges.get(edge, 0) + count
        return MetricsSummary(
            tools=sorted(tools, key=lambda tool: -tool.calls),
            per_minute=self.list_minutes(),
            latency=_to_intervals(sorted(edges.items())),
            batches=_to_intervals(
                [
                    (float(labels["le"]), int(value))
                    for labels, value in _samples(self._batch, "shopfloor_commit_batch_size_bucket")
                ]
            ),
            gauges=dict(self._gauges()),
        )

    def render(self) -> bytes:
        """Render everything in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    """Gauges that are read when Prometheus scrapes."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        for name, value in sorted(self._gauges().items()):
            yield GaugeMetricFamily(f"shopfloor_{name}", name.replace("_", " ").capitalize(), value=value)

    def describe(self) -> Iterable[Metric]:
        return []


class _Minutes:
    """Calls and failures per minute, for the last two hours."""

    def __init__(self) -> None:
        self._counts: dict[int, list[int]] = {}

    def count(self, failed: bool) -> None:
        minute = int(time.time() // 60)
        counts = self._counts.get(minute)
        if counts is None:
            counts = self._counts[minute] = [0, 0]
            for old in [each for each in self._counts if each < minute - 120]:
                del self._counts[old]
        counts[0] += 1
        counts[1] += failed

    def list_last(self, many: int) -> list[tuple[int, int, int]]:
        now = int(time.time() // 60)
        minutes = range(now - many + 1, now + 1)
        return [(minute * 60_000_000, *self._counts.get(minute, (0, 0))) for minute in minutes]


def estimate_quantile(buckets: Sequence[tuple[float, int]], share: float) -> float | None:
    """Estimate a quantile from cumulative counts per bucket, by linear interpolation."""
    total = buckets[-1][1] if buckets else 0
    if not total:
        return None
    wanted, low, below = share * total, 0.0, 0
    for edge, count in buckets:
        if count >= wanted:
            # The last bucket has no upper edge to interpolate to.
            if edge == float("inf"):
                return low
            return low + (edge - low) * (wanted - below) / max(count - below, 1)
        low, below = edge, count
    return low


def _samples(metric: Counter | Histogram, name: str) -> Iterator[tuple[dict[str, str], float]]:
    for family in metric.collect():
        for sample in family.samples:
            if sample.name == name:
                yield sample.labels, sample.value


def _to_intervals(buckets: Sequence[tuple[float, int]]) -> list[tuple[float | None, int]]:
    """Convert cumulative counts into counts per interval. The last one has no upper edge."""
    before = 0
    intervals: list[tuple[float | None, int]] = []
    for edge, count in buckets:
        intervals.append((None if edge == float("inf") else edge, count - before))
        before = count
    return intervals
