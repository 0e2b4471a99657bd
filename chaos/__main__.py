"""`make chaos`: faults, takeover, soak, growth and load in one run, and the report in docs/reliability.md.

`make chaos ARGS="--quick"` takes a few minutes. `--only NAME` runs one scenario and replaces its row in the report.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from chaos import growth, load, report, soak, takeover
from chaos.scenarios import SCENARIOS

PARTS = ("chaos", "takeover", "soak", "growth", "load")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--quick", action="store_true", help="few rounds, two minutes of soak, up to 100,000 rows")
    parser.add_argument("--only", choices=[scenario.run.__name__ for scenario in SCENARIOS])
    parser.add_argument("--rounds", type=int, help="rounds of each scenario, instead of its own number")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--minutes", type=float, help="duration of the soak; 30 by default")
    parser.add_argument("--rows", type=int, help="largest number of rows; 10,000,000 by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        if given.only is not None:
            return _run_chaos(folder, given.quick, given.rounds, given.only)
        problems = 0
        if "chaos" in given.parts:
            problems += _run_chaos(folder / "chaos", given.quick, given.rounds, None)
        if "takeover" in given.parts:
            rounds = given.rounds or (3 if given.quick else takeover.ROUNDS)
            found = takeover.measure_takeover(folder / "takeover", rounds, _say)
            report.replace_section("takeover", takeover.format_takeover(found))
        if "soak" in given.parts:
            problems += _run_soak(folder / "soak", given.minutes or (2 if given.quick else 30))
        if "growth" in given.parts:
            rows = given.rows or (100_000 if given.quick else growth.SIZES[-1])
            figures = growth.measure_growth(folder / "growth", rows, _say)
            report.replace_section("growth", report.format_growth(figures))
            report.CHART.write_text(report.draw_growth(figures), "utf-8")
        if "load" in given.parts:
            report.replace_section("load", load.format_load(load.measure_load(folder / "load", _say)))
        return problems


def _run_chaos(folder: Path, quick: bool, rounds_of_each: int | None, only: str | None) -> int:
    results = []
    for scenario in SCENARIOS:
        if only not in (None, scenario.run.__name__):
            continue
        rounds = rounds_of_each or (scenario.short if quick else scenario.long)
        if rounds == 0:
            continue
        _say(f"chaos: {scenario.name}, {rounds} rounds")
        found = scenario.run(folder / scenario.run.__name__, rounds)
        _say(f"  {found}")
        results.append((scenario.name, rounds, found))
    if only is None:
        report.replace_section("chaos", report.format_chaos(results))
    else:
        report.replace_chaos_rows(results)
    return sum(found.faults > 0 for _, _, found in results)


def _run_soak(folder: Path, minutes: float) -> int:
    _say(f"soak: {minutes:g} minutes")
    found = soak.run_soak(folder, minutes * 60)
    report.replace_section("soak", report.format_soak(found))
    for problem in found.list_problems():
        _say(f"  {problem}")
    return len(found.list_problems())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
