"""Metrics of this replica, and the state of the store and the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.gateways.metrics import MetricsSummary
from shopfloor.repositories.processes import Process
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases.external import ExternalContext


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The metrics of one replica, its name, and the number of replicas."""

    figures: MetricsSummary
    replica: Process | None
    replicas: int


def read_metrics(external: ExternalContext) -> MetricsSnapshot:
    """Read this process's metrics; those of the store cover the whole workspace."""

    def here(uow: UnitOfWork) -> tuple[Process | None, int]:
        processes = uow.processes.list_all()
        own = next((process for process in processes if process.id == uow.process), None)
        return own, sum(process.kind == "serve" for process in processes)

    replica, replicas = external.read(here)
    return MetricsSnapshot(external.gateways.metrics.summarize(), replica, replicas)
