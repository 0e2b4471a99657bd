"""Figures of this replica: what calls cost, and how the store and the dispatcher are."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.gateways.metrics import Figures, Metrics
from shopfloor.repositories.processes import Process
from shopfloor.repositories.work import Outside, Work


@dataclass(frozen=True, slots=True)
class Seen:
    """What one replica has counted, which one that is, and how many there are."""

    figures: Figures
    replica: Process | None
    replicas: int


def figures(outside: Outside) -> Seen:
    """Everything that this process has counted; what lies in the store is of the whole floor."""

    def here(work: Work) -> tuple[Process | None, int]:
        processes = work.processes.all()
        own = next((process for process in processes if process.id == work.process), None)
        return own, sum(process.kind == "serve" for process in processes)

    replica, replicas = outside.read(here)
    return Seen(outside.the(Metrics).figures(), replica, replicas)
