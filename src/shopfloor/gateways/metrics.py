"""Metrics, in the words of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


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
        self.registry.register(_Gauges(gauges))

    def called(self, toolset: str, tool: str, outcome: str, seconds: float) -> None:
        """A call ended: `outcome` is ok or the code of its error."""
        self._calls.labels(toolset, tool, outcome).inc()
        self._seconds.labels(toolset, tool).observe(seconds)

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
