"""Compare the measurements with the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import calls, extra_tools, transports
from bench.calls import BARE, IN_PROCESS, POSTGRES
from bench.rounds import Samples, cpu_ratio, median_cpu, rate_ratio

EXECUTE, OLDER, NEWER = transports.TRANSPORTS


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure with its upper or lower bound."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    by_cpu: float | None = None
    """For a ratio of rates: the same ratio by CPU per call, which is steadier on a busy machine."""

    @property
    def reached(self) -> bool:
        if self.at_most is not None:
            return self.value <= self.at_most
        return self.at_least is not None and self.value >= self.at_least


PIPELINE_MAX_CPU_MICROSECONDS = {"write": 150, "read": 90}
IN_PROCESS_MAX_CPU_MICROSECONDS = {"write": 500, "read": 250}
MIN_RATIO_TO_SDK = {OLDER: 1.2, NEWER: 0.7}
MIN_RATIO_OF_EXECUTE_TO_MCP = 1.5
MIN_POSTGRES_SCALING = 1.5
POSTGRES_MAX_CPU_MICROSECONDS = 1500
EXTRA_TOOLS_MAX_CPU_RATIO = 1.1


@dataclass(frozen=True, slots=True)
class CallGoals:
    """The goals of calls, on one engine and for one number of clients."""

    samples: Samples
    engine: str
    clients: int

    def goals(self) -> list[Goal]:
        return [
            *(self._in_process(kind, limit) for kind, limit in IN_PROCESS_MAX_CPU_MICROSECONDS.items()),
            *(
                self._write(transport, BARE, "echo", transport, ratio, "× bare SDK")
                for transport, ratio in MIN_RATIO_TO_SDK.items()
            ),
            *(
                self._write(EXECUTE, self.engine, "write", transport, MIN_RATIO_OF_EXECUTE_TO_MCP, f"× our {transport}")
                for transport in (OLDER, NEWER)
            ),
        ]

    def _in_process(self, kind: str, limit: float) -> Goal:
        samples = self.samples[calls.key(self.engine, kind, IN_PROCESS, 1)]
        return Goal(f"in process, store included, {kind}", median_cpu(samples), "µs CPU", at_most=limit)

    def _write(self, transport: str, engine: str, kind: str, other: str, goal: float, unit: str) -> Goal:
        samples = self.samples[calls.key(self.engine, "write", transport, self.clients)]
        base = self.samples[calls.key(engine, kind, other, self.clients)]
        return Goal(
            f"write over {transport}, {self.clients} clients",
            rate_ratio(samples, base),
            unit,
            at_least=goal,
            by_cpu=1 / max(cpu_ratio(samples, base), 1e-9),
        )


def list_pipeline_goals(samples: Samples) -> list[Goal]:
    return [
        Goal(f"pipeline without store, {kind}", median_cpu(samples[kind]), "µs CPU", at_most=limit)
        for kind, limit in PIPELINE_MAX_CPU_MICROSECONDS.items()
    ]


def list_postgres_goals(samples: Samples, few: int, many: int) -> list[Goal]:
    """Return the goals of durable writes on PostgreSQL: more clients give a higher rate, at a bounded cost per call."""
    base, writes = (samples[calls.key(POSTGRES, "write", EXECUTE, clients)] for clients in (few, many))
    subject = f"{POSTGRES}, write over {EXECUTE}, {many} clients"
    return [
        Goal(subject, rate_ratio(writes, base), f"× {few} clients", at_least=MIN_POSTGRES_SCALING),
        Goal(subject, median_cpu(writes), "µs CPU", at_most=POSTGRES_MAX_CPU_MICROSECONDS),
    ]


def list_extra_tools_goals(samples: Samples) -> list[Goal]:
    none, many = extra_tools.COUNTS
    return [
        Goal(
            f"{many} extra tools, {transport}",
            cpu_ratio(samples[extra_tools.key(transport, many)], samples[extra_tools.key(transport, none)]),
            "× CPU without",
            at_most=EXTRA_TOOLS_MAX_CPU_RATIO,
        )
        for transport in transports.TRANSPORTS
    ]


def list_startup_goals(seconds: dict[str, float]) -> list[Goal]:
    return [
        Goal("first start to ready", seconds["ready"], "s", at_most=0.7),
        Goal("shopfloor --help", seconds["help"], "s", at_most=0.25),
        Goal("stdio initialize", seconds["initialize"], "s", at_most=0.8),
    ]


CONTEXT_GOALS = (
    ("first index by words", "s per 500", "s for 500 files", 2.0),
    ("embeddings", "s per 1,000 files", "s for 1,000 files", 10.0),
    ("context_search", "p95 ms", "ms, p95", 30.0),
    ("read_file", "p95 ms", "ms, p95", 2.0),
    ("grep_codebase", "× plain rg", "× plain rg", 1.3),
)
RETRIEVAL = "docstring → function, fused"
MIN_NDCG = 0.86


def list_context_goals(rows: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """Return the goals of the context toolset that this run has figures for."""
    known = {row["what"]: row for row in rows}
    found = [
        Goal(what, known[what][column], unit, at_most=limit)
        for what, column, unit, limit in CONTEXT_GOALS
        if column in known.get(what, {})
    ]
    if (fused := known.get(RETRIEVAL)) is not None:
        found.append(Goal(RETRIEVAL, fused["NDCG@10"], "NDCG@10", at_least=MIN_NDCG))
    return found


MAX_IDLE_CREW_PERCENT = 1.0


def list_crew_goals(rows: Sequence[Mapping[str, Any]]) -> list[Goal]:
    """Return the goal of idle workers, if this run has measured them."""
    return [
        Goal(row["what"], row["% of a core"], "% of a core", at_most=MAX_IDLE_CREW_PERCENT)
        for row in rows
        if "% of a core" in row
    ]
