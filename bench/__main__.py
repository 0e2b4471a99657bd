"""`make bench`: one run, one table. `--quick` takes less than a minute, `--json` prints figures for programs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import calls, context, further, goals, pipeline, starting
from bench.children import CHECKOUT
from bench.goals import Goal
from bench.plan import Plan
from bench.rounds import Samples, cpu, rate
from bench.table import judged, listed, table
from tests.postgres import PostgresServer

CAUTION = (
    "Medians of {rounds} interleaved rounds; ratios are taken within each round. CPU is that of the server's process\n"
    "(PostgreSQL's own processes are not in it). Client, server and everybody else share {cores} cores: compare within\n"
    "this run only. '× SDK' is the rate in times of the bare SDK's echo in the same revision (the newer one for others)."
)


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that one run has measured."""

    calls: Samples
    tools: dict[str, str]
    pipeline: Samples
    further: Samples
    starting: dict[str, float]
    context: list[dict[str, Any]]

    def goals(self, engine: str, crowd: int) -> list[Goal]:
        return [
            *goals.of_pipeline(self.pipeline),
            *goals.Place(self.calls, engine, crowd).goals(),
            *goals.of_further(self.further),
            *goals.of_starting(self.starting),
            *goals.of_context(self.context),
        ]

    def figures(self, judgement: Sequence[Goal]) -> dict[str, Any]:
        return {
            "tools": self.tools,
            "calls": _medians(self.calls),
            "pipeline": _medians(self.pipeline),
            "further": _medians(self.further),
            "starting": self.starting,
            "context": self.context,
            "goals": [asdict(goal) | {"reached": goal.reached} for goal in judgement],
        }


def main() -> None:
    options = _options()
    began = time.perf_counter()
    said = _quiet if options.json or not sys.stderr.isatty() else _say
    with ExitStack() as stack:
        plan = _plan(options, stack, said)
        called, tools = calls.measure(plan)
        run = Run(
            called,
            tools,
            pipeline.measure(plan),
            further.measure(plan),
            starting.measure(plan),
            context.measure(plan) if options.context else [],
        )
    said("")
    engines = list(plan.databases)
    judgement = run.goals(engines[0], plan.clients[-1])
    seconds = time.perf_counter() - began
    if options.json:
        print(json.dumps(run.figures(judgement) | {"seconds": seconds}, indent=1))
        return
    tables = [table(called, engines, plan.clients, tools), *listed("context", run.context), judged(judgement)]
    print(*tables, sep="\n\n", end="\n\n")
    print(CAUTION.format(rounds=plan.rounds, cores=len(os.sched_getaffinity(0))))
    print(f"This run took {seconds:.0f} s.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What a call costs.")
    parser.add_argument("--quick", action="store_true", help="one short round, in less than a minute")
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--no-postgres", action="store_true", help="only SQLite")
    parser.add_argument("--no-context", dest="context", action="store_false", help="without search, read and grep")
    return parser.parse_args()


def _plan(options: argparse.Namespace, stack: ExitStack, said: Callable[[str], None]) -> Plan:
    cache = CHECKOUT / ".cache"
    cache.mkdir(exist_ok=True)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=cache)))
    databases: dict[str, Callable[[], str]] = {"SQLite": lambda: ""}
    if not options.no_postgres:
        said("starting PostgreSQL")
        postgres = PostgresServer(fsync=True)
        stack.callback(postgres.stop)
        databases["PostgreSQL"] = postgres.create_database
    return Plan(
        folder=folder,
        databases=databases,
        rounds=options.rounds or (1 if options.quick else 5),
        seconds=0.2 if options.quick else 0.4,
        clients=(1, 8, 64),
        starts=2 if options.quick else 5,
        said=said,
    )


def _medians(samples: Samples) -> dict[str, dict[str, float]]:
    return {name: {"rate": rate(each), "cpu": cpu(each)} for name, each in samples.items()}


def _say(what: str) -> None:
    print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def _quiet(_: str) -> None:
    pass


if __name__ == "__main__":
    main()
