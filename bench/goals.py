"""The figures that DESIGN asks for, and where we are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import calls, doors, further
from bench.calls import BARE, IN_PROCESS
from bench.rounds import Samples, cpu, times_the_cpu, times_the_rate

EXECUTE, OLDER, NEWER = doors.DOORS


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure, and what it should be: at most or at least so much."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    by_cpu: float | None = None
    """For a ratio of rates: what the CPU per call alone would make of it. On a busy machine it is the steadier one."""

    @property
    def reached(self) -> bool:
        if self.at_most is not None:
            return self.value <= self.at_most
        return self.at_least is not None and self.value >= self.at_least


@dataclass(frozen=True, slots=True)
class Place:
    """Where the goals of calls are looked at: on which engine, at how many clients."""

    samples: Samples
    engine: str
    crowd: int

    def goals(self) -> list[Goal]:
        return [
            *(self._in_process(kind) for kind in ("write", "read")),
            *(self._write(door, BARE, "echo", door, 0.7, "× bare SDK") for door in (OLDER, NEWER)),
            *(self._write(EXECUTE, self.engine, "write", door, 2, f"× our {door}") for door in (OLDER, NEWER)),
        ]

    def _in_process(self, kind: str) -> Goal:
        samples = self.samples[calls.key(self.engine, kind, IN_PROCESS, 1)]
        return Goal(f"in process, store included, {kind}", cpu(samples), "µs CPU", at_most=300)

    def _write(self, door: str, engine: str, kind: str, other: str, goal: float, unit: str) -> Goal:
        ours = self.samples[calls.key(self.engine, "write", door, self.crowd)]
        base = self.samples[calls.key(engine, kind, other, self.crowd)]
        return Goal(
            f"write over {door}, {self.crowd} clients",
            times_the_rate(ours, base),
            unit,
            at_least=goal,
            by_cpu=1 / max(times_the_cpu(ours, base), 1e-9),
        )


def of_pipeline(samples: Samples) -> list[Goal]:
    return [Goal(f"pipeline without store, {kind}", cpu(samples[kind]), "µs CPU", at_most=150) for kind in samples]


def of_further(samples: Samples) -> list[Goal]:
    few, many = further.COUNTS
    return [
        Goal(
            f"{many} further tools, {door}",
            times_the_cpu(samples[further.key(door, many)], samples[further.key(door, few)]),
            "× CPU without",
            at_most=1.1,
        )
        for door in doors.DOORS
    ]


def of_starting(seconds: dict[str, float]) -> list[Goal]:
    return [
        Goal("first start to ready", seconds["ready"], "s", at_most=1.5),
        Goal("shopfloor --help", seconds["help"], "s", at_most=0.3),
    ]


_OF_CONTEXT = (
    ("first index by words", "s per 500", "s for 500 files", 2.0),
    ("context_search", "p95 ms", "ms, p95", 30.0),
    ("read_file", "p95 ms", "ms, p95", 5.0),
    ("grep_codebase", "× plain rg", "× plain rg", 1.5),
)


def of_context(rows: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """The goals of the context toolset that this run has figures for."""
    known = {row["what"]: row for row in rows}
    found = [
        Goal(what, known[what][column], unit, at_most=most) for what, column, unit, most in _OF_CONTEXT if what in known
    ]
    if (fused := known.get("docstring → function, fused")) is not None:
        found.append(Goal("docstring → function, fused", fused["MRR@10"], "MRR@10", at_least=0.6))
    return found
