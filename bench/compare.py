"""Two copies of the source in one run, in turn: `python -m bench.compare BASE [NEW]`.

On a busy machine this is the only way to see whether a change has made calls cheaper. BASE and NEW are folders that
hold the package `shopfloor`; NEW is by default the one that is installed.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import doors, tools
from bench.children import CHECKOUT, Child
from bench.rounds import Measure, Sample, Samples, cpu, interleaved, rate, times_the_cpu, times_the_rate

SECONDS = 0.3
CLIENTS = (1, 64)
KINDS = ("write", "read")


def main() -> None:
    options = _options()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-", dir=CHECKOUT / ".cache")))
        load = stack.enter_context(Child("load"))
        base, new = (
            _measures(stack, folder / name, source, load)
            for name, source in (("base", options.base), ("new", options.new))
        )
        # Side by side, so that both see the same moment of the machine.
        paired = {
            key: each for name in base for key, each in ((f"base {name}", base[name]), (f"new {name}", new[name]))
        }
        samples = interleaved(options.rounds, paired, lambda _: None)
    print(_table(samples, list(base)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description="What a change did to calls.")
    parser.add_argument("base", type=Path)
    parser.add_argument("new", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=8)
    return parser.parse_args()


def _measures(stack: ExitStack, folder: Path, source: Path | None, load: Child) -> dict[str, Measure]:
    folder.mkdir()
    inside = stack.enter_context(Child("inside", str(folder / "inside"), "", log=folder / "inside.log", source=source))
    floor = stack.enter_context(Child("floor", str(folder / "floor"), "", "0", log=folder / "floor.log", source=source))
    called = tools.chosen(floor.facts["tools"])
    measures: dict[str, Measure] = {}
    for kind in KINDS:
        measures[f"pipeline, {kind}"] = _asking(inside, kind=kind, clients=1, storeless=True)
        for clients in CLIENTS:
            measures[f"in process, {kind}, {clients}"] = _asking(inside, kind=kind, clients=clients)
            for door in doors.DOORS:
                requests = doors.ours(door, called[kind], floor.facts["tokens"])
                asked = {"port": floor.facts["port"], "pid": floor.pid, "requests": requests, "clients": clients}
                measures[f"{door}, {kind}, {clients}"] = _asking(load, **asked)
    return measures


def _asking(child: Child, **asked: Any) -> Measure:
    return lambda: Sample.of(child.ask(**asked, seconds=SECONDS))


def _table(samples: Samples, names: list[str]) -> str:
    rows = [f"{'':30} {'base µs':>9} {'new µs':>9} {'× CPU':>7} {'base/s':>9} {'new/s':>9} {'× rate':>7}"]
    for name in sorted(names):
        base, new = samples[f"base {name}"], samples[f"new {name}"]
        costs = f"{cpu(base):9,.0f} {cpu(new):9,.0f} {times_the_cpu(new, base):7.2f}"
        rates = f"{rate(base):9,.0f} {rate(new):9,.0f} {times_the_rate(new, base):7.2f}"
        rows.append(f"{name:30} {costs} {rates}")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
