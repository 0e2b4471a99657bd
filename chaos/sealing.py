"""Sealing: what the seals of the log cost. `python -m chaos.sealing` measures it, and writes the report."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from chaos.report import replace_section
from shopfloor import Settings, Shopfloor
from shopfloor.domain.principals import OPERATOR
from shopfloor.usecases import seals
from tests.postgres import PostgresServer

ROUNDS = 15
CALLS = 400
MAIL = {"toHuman": True, "subject": "Sealing", "body": "One of the calls whose rows are sealed."}


@dataclass(frozen=True, slots=True)
class Round:
    """Milliseconds of CPU of this process per call, those of the seals among them, and calls per second."""

    cpu_ms: float
    seals_ms: float
    rate: float


@dataclass(frozen=True, slots=True)
class SealingCost:
    """The rounds of one engine without and with seals, as pairs."""

    engine: str
    pairs: list[tuple[Round, Round]]

    @property
    def share(self) -> float:
        """What seals add to the CPU of a call."""
        return statistics.median(sealed.seals_ms / (sealed.cpu_ms - sealed.seals_ms) for _, sealed in self.pairs)

    def median(self, is_sealed: bool, name: str) -> float:
        """Return the median of a figure of all rounds."""
        return float(statistics.median(getattr(pair[is_sealed], name) for pair in self.pairs))


def measure_sealing(folder: Path, engine: str, database: str, rounds: int = ROUNDS, calls: int = CALLS) -> SealingCost:
    """Send mail without and with sealing, in rounds that take turns, each in a workspace of its own."""
    with ExitStack() as stack:
        opened = {}
        for is_sealed in (False, True):
            settings = Settings(
                project=folder,
                data=folder / f"{engine}-{is_sealed}",
                database=database,
                workspace=f"sealed-{is_sealed}",
            )
            opened[is_sealed] = stack.enter_context(Shopfloor(settings))
            # Seals wait for two minutes. Here each round seals its own rows at its end.
            opened[is_sealed].engine.housekeeper.stop()
        pairs = []
        for number in range(rounds):
            first = number % 2 == 0
            taken = {is_sealed: _run_round(opened[is_sealed], calls, is_sealed) for is_sealed in (first, not first)}
            pairs.append((taken[False], taken[True]))
    # The first round prepares statements and fills caches.
    return SealingCost(engine, pairs[1:])


def _run_round(shopfloor: Shopfloor, calls: int, is_sealed: bool) -> Round:
    database = shopfloor.engine.database
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        shopfloor.call("factory", "mcp__mail__send", MAIL)
    seals_began = time.process_time()
    if is_sealed:
        newest = database.read(lambda uow: uow.seals.newest_row_id(), OPERATOR)
        assert seals.seal_log(database, newest) >= calls
    ended = time.process_time()
    return Round(
        cpu_ms=(ended - cpu) / calls * 1000,
        seals_ms=(ended - seals_began) / calls * 1000,
        rate=calls / (time.perf_counter() - began),
    )


def format_sealing(costs: list[SealingCost]) -> list[str]:
    """Return a table: a row for each engine."""
    lines = [
        "| engine | CPU per call (ms) | with seals | seals alone | share of a call | calls/s | with seals |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {cost.engine} | {cost.median(False, 'cpu_ms'):.3f} | {cost.median(True, 'cpu_ms'):.3f}"
        f" | {cost.median(True, 'seals_ms'):.3f} | {cost.share:.1%}"
        f" | {cost.median(False, 'rate'):.0f} | {cost.median(True, 'rate'):.0f} |"
        for cost in costs
    ]
    return lines


def main() -> None:
    """Measure both engines."""
    postgres = PostgresServer(fsync=True)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            costs = [
                measure_sealing(folder, "SQLite", ""),
                measure_sealing(folder, "PostgreSQL", postgres.create_database()),
            ]
    finally:
        postgres.stop()
    replace_section("sealing", format_sealing(costs))


if __name__ == "__main__":
    main()
