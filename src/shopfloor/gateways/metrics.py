"""Metrics, in the words of Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


DESK = "desk"
"""The toolset of those who look: their own calls are not what they look for."""


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """What the calls of one tool cost; quantiles in seconds."""

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
class Figures:
    """What this process has counted since it started."""

    tools: list[ToolFigures]
    per_minute: list[tuple[int, int, int]]
    latency: list[tuple[float | None, int]]
    batches: list[tuple[float | None, int]]
    gauges: dict[str, float]


class Metrics:
    """What this process counts."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "shopfloor_calls", "Calls by tool and outcome", ["toolset", "tool", "outcome"], registry=self.registry
        )
        self._seconds = Histogram(
            "shopfloor_call_seconds", "Duration of calls", ["toolset", "tool"], buckets=_SECONDS, registry=self.registry
        )
        self._counter = cache(self._calls.labels)
        self._timer = cache(self._seconds.labels)
        self._limited = Counter("shopfloor_rate_limited", "Calls over a rate limit", ["tool"], registry=self.registry)
        self._retries = Counter("shopfloor_retries", "Attempts after the first", ["tool"], registry=self.registry)
        self._escalations = Counter("shopfloor_escalations", "Failures escalated", ["tool"], registry=self.registry)
        self._slow = Counter("shopfloor_slow_calls", "Calls over their longest time", ["tool"], registry=self.registry)
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

    def called(self, toolset: str, tool: str, outcome: str, seconds: float) -> None:
        """A call ended: `outcome` is ok or the code of its error."""
        self._counter(toolset, tool, outcome).inc()
        self._timer(toolset, tool).observe(seconds)
        if toolset != DESK:
            with self._lock:
                self._minutes.count(outcome != "ok")

    def limited(self, tool: str) -> None:
        self._limited.labels(tool).inc()

    def retried(self, tool: str) -> None:
        self._retries.labels(tool).inc()

    def escalated(self, tool: str) -> None:
        self._escalations.labels(tool).inc()

    def was_slow(self, tool: str) -> None:
        self._slow.labels(tool).inc()

    def committed(self, writes: int) -> None:
        self._batch.observe(writes)

    def per_minute(self) -> list[tuple[int, int, int]]:
        """Each of the last 60 minutes, oldest first, with its calls and how many of them failed."""
        with self._lock:
            return self._minutes.last(60)

    def figures(self) -> Figures:
        """Everything for a person to look at."""
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
            ToolFigures(
                toolset=toolset,
                tool=tool,
                calls=sum(counts.values()),
                failed=sum(count for outcome, count in counts.items() if outcome != "ok"),
                per_minute=round(sum(counts.values()) / minutes, 1),
                limited=limited.get(tool, 0),
                retries=retries.get(tool, 0),
                p50=quantile(buckets.get((toolset, tool), []), 0.5),
                p95=quantile(buckets.get((toolset, tool), []), 0.95),
                p99=quantile(buckets.get((toolset, tool), []), 0.99),
                outcomes=counts,
            )
            for (toolset, tool), counts in sorted(outcomes.items())
        ]
        return Figures(
            tools=sorted(tools, key=lambda tool: -tool.calls),
            per_minute=self.per_minute(),
            latency=_apart(_summed(buckets.values())),
            batches=_apart(
                [
                    (float(labels["le"]), int(value))
                    for labels, value in _samples(self._batch, "shopfloor_commit_batch_size_bucket")
                ]
            ),
            gauges=dict(self._gauges()),
        )

    def page(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    """Levels that are looked up when somebody asks."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        for name, value in sorted(self._gauges().items()):
            yield GaugeMetricFamily(f"shopfloor_{name}", name.replace("_", " ").capitalize(), value=value)

    def describe(self) -> Iterable[Metric]:
        return []


class _Minutes:
    """Calls and failures of the last minutes."""

    def __init__(self) -> None:
        self._kept: dict[int, list[int]] = {}

    def count(self, failed: bool) -> None:
        minute = int(time.time() // 60)
        counts = self._kept.get(minute)
        if counts is None:
            counts = self._kept[minute] = [0, 0]
            for old in [kept for kept in self._kept if kept < minute - 120]:
                del self._kept[old]
        counts[0] += 1
        counts[1] += failed

    def last(self, many: int) -> list[tuple[int, int, int]]:
        now = int(time.time() // 60)
        minutes = range(now - many + 1, now + 1)
        return [(minute * 60_000_000, *self._kept.get(minute, (0, 0))) for minute in minutes]


def quantile(buckets: Sequence[tuple[float, int]], share: float) -> float | None:
    """The value below which that share lies, from counts up to each edge, straight lines in between."""
    total = buckets[-1][1] if buckets else 0
    if not total:
        return None
    wanted, low, below = share * total, 0.0, 0
    for edge, count in buckets:
        if count >= wanted:
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


def _summed(many: Iterable[Sequence[tuple[float, int]]]) -> list[tuple[float, int]]:
    sums: dict[float, int] = {}
    for buckets in many:
        for edge, count in buckets:
            sums[edge] = sums.get(edge, 0) + count
    return sorted(sums.items())


def _apart(buckets: Sequence[tuple[float, int]]) -> list[tuple[float | None, int]]:
    """The counts between the edges; the last one has no upper edge."""
    before = 0
    apart: list[tuple[float | None, int]] = []
    for edge, count in buckets:
        apart.append((None if edge == float("inf") else edge, count - before))
        before = count
    return apart
