"""Figures of this replica: what calls cost, and how the store and the dispatcher are."""

from __future__ import annotations

from shopfloor.gateways.metrics import Figures, Metrics
from shopfloor.repositories.work import Outside


def figures(outside: Outside) -> Figures:
    """Everything that this process has counted."""
    return outside.the(Metrics).figures()
