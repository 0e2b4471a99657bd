"""Measure the pipeline alone: calls in process on one thread, with the results of the store replayed from memory."""

from __future__ import annotations

from bench.plan import Plan
from bench.rounds import Measure, Sample, Samples, measure_rounds
from bench.subprocesses import Subprocess

KINDS = ("write", "read")


def measure(plan: Plan) -> Samples:
    """Return the samples of each kind of call without the store."""
    with Subprocess("in_process", plan.data("pipeline"), "", log=plan.log("pipeline")) as in_process:
        measures = {kind: _measure(plan, in_process, kind) for kind in KINDS}
        return measure_rounds(max(plan.rounds, 2), measures, lambda what: plan.report(f"pipeline: {what}"))


def _measure(plan: Plan, in_process: Subprocess, kind: str) -> Measure:
    return lambda: Sample.of(in_process.ask(kind=kind, clients=1, seconds=plan.seconds, storeless=True))
