"""The pipeline alone: calls in process on one thread, the store's answers played back from memory."""

from __future__ import annotations

from bench.children import Child
from bench.plan import Plan
from bench.rounds import Measure, Sample, Samples, interleaved

KINDS = ("write", "read")


def measure(plan: Plan) -> Samples:
    """For each kind of call, the samples without the store."""
    with Child("inside", plan.data("pipeline"), "", log=plan.log("pipeline")) as inside:
        measures = {kind: _measure(plan, inside, kind) for kind in KINDS}
        return interleaved(max(plan.rounds, 2), measures, lambda what: plan.said(f"pipeline: {what}"))


def _measure(plan: Plan, inside: Child, kind: str) -> Measure:
    return lambda: Sample.of(inside.ask(kind=kind, clients=1, seconds=plan.seconds, storeless=True))
