"""`make bench`: one run, one table. `--quick` takes less than a minute, `--json` prints the figures as JSON."""

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

from bench import calls, code_search, context, crew, extra_tools, goals, pipeline, scale, startup
from bench.goals import Goal
from bench.plan import Plan
from bench.rounds import Samples, median_cpu, median_rate
from bench.subprocesses import CHECKOUT
from bench.table import format_calls, format_goals, format_rows
from tests.postgres import PostgresServer

CAUTION = (
    "Medians of {rounds} interleaved rounds; ratios are taken within each round. CPU is that of the server's process\n"
    "(PostgreSQL's own processes are not in it). Client, server and everything else share {cores} cores: compare within\n"
    "this run only. '× SDK' is the rate relative to the bare SDK's echo in the same revision (the newer one for others)."
)


@dataclass(frozen=True, slots=True)
class Run:
    """The measurements of one run."""

    calls: Samples
    tools: dict[str, str]
    pipeline: Samples
    extra_tools: Samples
    startup: dict[str, float]
    context: list[dict[str, Any]]
    crew: list[dict[str, Any]]

    def goals(self, plan: Plan) -> list[Goal]:
        few, many = plan.clients[-2:]
        return [
            *goals.list_pipeline_goals(self.pipeline),
            *goals.CallGoals(self.calls, calls.SQLITE, many).goals(),
            *(goals.list_postgres_goals(self.calls, few, many) if calls.POSTGRES in plan.databases else []),
            *goals.list_extra_tools_goals(self.extra_tools),
            *goals.list_startup_goals(self.startup),
            *goals.list_context_goals(self.context),
            *goals.list_crew_goals(self.crew),
        ]

    def figures(self, results: Sequence[Goal]) -> dict[str, Any]:
        return {
            "tools": self.tools,
            "calls": _medians(self.calls),
            "pipeline": _medians(self.pipeline),
            "extra_tools": _medians(self.extra_tools),
            "startup": self.startup,
            "context": self.context,
            "crew": self.crew,
            "goals": [asdict(goal) | {"reached": goal.reached} for goal in results],
        }


def main() -> None:
    options = _parse_options()
    started = time.perf_counter()
    report = _report_nothing if options.json or not sys.stderr.isatty() else _report_progress
    with ExitStack() as stack:
        plan = _build_plan(options, stack, report)
        samples, tools = calls.measure(plan)
        run = Run(
            samples,
            tools,
            pipeline.measure(plan),
            extra_tools.measure(plan),
            startup.measure(plan),
            _measure_context(plan, options) if options.context else [],
            crew.measure(plan, quick=options.quick) if options.crew else [],
        )
    report("")
    engines = list(plan.databases)
    results = run.goals(plan)
    seconds = time.perf_counter() - started
    if options.json:
        print(json.dumps(run.figures(results) | {"seconds": seconds}, indent=1))
        return
    tables = [
        format_calls(samples, engines, plan.clients, tools),
        *format_rows("context", run.context),
        *(f"{row['what']}: {', '.join(f'{name} {row[name]}' for name in row if name != 'what')}" for row in run.crew),
        format_goals(results),
    ]
    print(*tables, sep="\n\n", end="\n\n")
    print(CAUTION.format(rounds=plan.rounds, cores=len(os.sched_getaffinity(0))))
    print(f"This run took {seconds:.0f} s.")


def _measure_context(plan: Plan, options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = context.measure(plan)
    if not options.quick:
        rows += code_search.measure(plan)
    plan.report("context: size of the project")
    if not options.scale:
        return [*rows, *scale.measure(scale.SIZES[:1], embeddings=False)]
    return [*rows, *(row for given in (False, True) for row in scale.measure(scale.SIZES, embeddings=given))]


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the cost of calls.")
    parser.add_argument("--quick", action="store_true", help="one short round, less than a minute")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, help="number of rounds")
    parser.add_argument("--no-postgres", action="store_true", help="measure SQLite only")
    parser.add_argument("--no-context", dest="context", action="store_false", help="skip search, read and grep")
    parser.add_argument(
        "--scale", action="store_true", help="index 10,000 and 100,000 files as well, by words and with embeddings"
    )
    parser.add_argument("--no-crew", dest="crew", action="store_false", help="skip the crew")
    return parser.parse_args()


def _build_plan(options: argparse.Namespace, stack: ExitStack, report: Callable[[str], None]) -> Plan:
    cache = CHECKOUT / ".cache"
    cache.mkdir(exist_ok=True)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=cache)))
    databases: dict[str, Callable[[], str]] = {calls.SQLITE: lambda: ""}
    if not options.no_postgres:
        report("starting PostgreSQL")
        postgres = PostgresServer(fsync=True)
        stack.callback(postgres.stop)
        databases[calls.POSTGRES] = postgres.create_database
    return Plan(
        folder=folder,
        databases=databases,
        rounds=options.rounds or (1 if options.quick else 5),
        seconds=0.2 if options.quick else 0.4,
        clients=(1, 8, 64),
        starts=2 if options.quick else 5,
        report=report,
    )


def _medians(samples: Samples) -> dict[str, dict[str, float]]:
    return {name: {"rate": median_rate(each), "cpu": median_cpu(each)} for name, each in samples.items()}


def _report_progress(what: str) -> None:
    print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def _report_nothing(_: str) -> None:
    pass


if __name__ == "__main__":
    main()
