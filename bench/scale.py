"""Measure the index at several sizes: `python -m bench.scale --files 1000 10000 100000` prints one row per line.

The files are generated, the same for every run: Python modules of 20 lines with a class and a function, 20 in a folder.
Each size is measured in a process of its own, so that its peak memory is that of one server.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.context import MODELS, RandomEmbeddings
from shopfloor.gateways import embedding_model
from shopfloor.gateways.embeddings import Local
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.toolsets.context.support import use_embeddings

CHECKOUT = Path(__file__).resolve().parent.parent
SIZES = (1_000, 10_000, 100_000)
MAX_REAL_EMBEDDINGS = 1_000
"""Files of which the model computes the embeddings. Larger trees get random ones, which cost a search the same."""
FILES_PER_FOLDER = 20
QUERIES = 200
CHANGES = 20
BRANCH_FILES = 5_000
TIMEOUT_SECONDS = 3600
WORDS = [
    "account", "address", "balance", "branch", "buffer", "cache", "client", "cursor", "decode", "deliver",
    "digest", "discount", "encode", "expire", "export", "fence", "filter", "format", "fraction", "header",
    "import", "invoice", "journal", "ledger", "lease", "listen", "merge", "message", "method", "order",
    "packet", "parse", "payment", "queue", "record", "refund", "render", "report", "request", "restore",
    "retry", "route", "sample", "schedule", "segment", "server", "session", "signal", "socket", "stream",
    "summary", "tariff", "tenant", "ticket", "token", "transfer", "update", "validate", "vendor", "verify",
    "version", "voucher", "window", "worker",
]  # fmt: skip

Row = dict[str, Any]
Time = tuple[float, float]
"""Wall time and CPU, in milliseconds."""


def measure(sizes: Sequence[int], *, embeddings: bool) -> Iterator[Row]:
    """Measure each size in a process of its own."""
    for files in sizes:
        command = [sys.executable, "-m", "bench.scale", "--one", "--files", str(files)]
        command += ["--embeddings"] if embeddings else []
        done = subprocess.run(
            command, cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
        if done.returncode:
            yield {"what": f"{files} files: not measured", "because": (done.stderr.strip().splitlines() or ["?"])[-1]}
        else:
            yield from (json.loads(line) for line in done.stdout.splitlines())


def measure_one(files: int, *, embeddings: bool) -> Iterator[Row]:
    """Generate a tree, index it, and time searches: the first one of a new server, warm ones, and ones after changes."""
    with tempfile.TemporaryDirectory(prefix="shopfloor-scale-") as name:
        root, data = Path(name) / "tree", Path(name) / "data"
        paths = generate_tree(root, files)
        with _open_server(root, data, files, embeddings) as shopfloor:
            index = shopfloor.engine.search
            index.allow_watching()
            started, used = time.monotonic(), time.process_time()
            state = index.update_all(embeddings=False)
            row: Row = {
                "what": f"{files} files, index by words",
                "seconds": round(time.monotonic() - started, 1),
                "CPU s": round(time.process_time() - used, 1),
                "peak MB": _peak_megabytes(),
            }
            if embeddings:
                started, used = time.monotonic(), time.process_time()
                state = index.update_all()
                row |= {
                    "embedded": state["embedded"],
                    "embedding seconds": round(time.monotonic() - started, 1),
                    "embedding CPU s": round(time.process_time() - used, 1),
                    "peak MB": _peak_megabytes(),
                }
        row["disk MB"] = round(sum(path.stat().st_size for path in data.glob("*.db*")) / 1e6, 1)
        yield row
        with _open_server(root, data, files, embeddings) as shopfloor:
            yield from _measure_searches(shopfloor, paths, files)


def generate_tree(root: Path, files: int) -> list[Path]:
    """Write the files, and return their paths."""
    chosen = random.Random(1)  # nosec B311 # text for a measurement
    paths = []
    for number in range(files):
        folder = root / f"part{number // 1000}" / f"package{number // FILES_PER_FOLDER % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        a, b, c, d = (chosen.choice(WORDS) for _ in range(4))
        path = folder / f"{a}_{b}_{number}.py"
        path.write_text(
            f'"""{a.title()} the {b} of a {c}."""\n\nfrom {c} import {d}\n\nLIMIT_{number} = {number}\n\n\n'
            f'class {a.title()}{b.title()}{number}:\n    """Keep the {c} of each {d}."""\n\n'
            f"    def {a}_{c}(self, {b}: int) -> int:\n"
            f'        """Return the {d} after the {b}."""\n        return {d}({b}) + LIMIT_{number}\n\n\n'
            f'def {b}_{d}_{number}({c}: int) -> int:\n    """{b.title()} a {d} until the {a} ends."""\n'
            f"    for attempt in range({c}):\n        {d}(attempt)\n    return {c}\n"
        )
        paths.append(path)
    return paths


def _open_server(root: Path, data: Path, files: int, embeddings: bool) -> Shopfloor:
    free = {"context_search": 0, "read_file": 0, "grep_codebase": 0}
    shopfloor = Shopfloor(
        Settings(
            project=root,
            data=data,
            rate_limits=free,
            model_cache=MODELS,
            embeddings="local" if embeddings else "off",
            embed_chunks=False,
        )
    )
    if embeddings:
        embedding_model.install(MODELS)
        use_embeddings(shopfloor, Local(MODELS) if files <= MAX_REAL_EMBEDDINGS else RandomEmbeddings())
    return shopfloor


def _measure_searches(shopfloor: Shopfloor, paths: Sequence[Path], files: int) -> Iterator[Row]:
    chosen = random.Random(2)  # nosec B311
    index = shopfloor.engine.search
    index.allow_watching()

    def search(query: str) -> tuple[Time, Any]:
        started, used = time.perf_counter(), time.process_time()
        body = shopfloor.call("context", "context_search", {"query": query})
        return ((time.perf_counter() - started) * 1000, (time.process_time() - used) * 1000), body

    def ask() -> str:
        a, b, c = (chosen.choice(WORDS) for _ in range(3))
        return chosen.choice([f"{a} {b}", f"how is the {a} of a {b} {c}", f"LIMIT_{chosen.randrange(files)}"])

    (cold, _), _ = search(ask())
    index.update_all(embeddings=False)
    search(ask())
    yield {"what": f"{files} files, search", "cold ms": round(cold), **_cut([search(ask())[0] for _ in range(QUERIES)])}
    times = []
    for number in range(CHANGES):
        path = chosen.choice(paths)
        path.write_text(f"{path.read_text()}\n\ndef walrus_{number}() -> None:\n    pass\n")
        taken, body = search(f"walrus_{number}")
        if not body["results"] or body["results"][0]["symbol"] != f"walrus_{number}":
            raise RuntimeError(f"a change was not in the next search: {body}")
        times.append(taken)
    yield {"what": f"{files} files, search after an edit", **_cut(times)}
    if files > BRANCH_FILES:
        for path in paths[:BRANCH_FILES]:
            path.write_text(f"{path.read_text()}\n\nBRANCH = 'other'\n")
        started = time.monotonic()
        first, body = search("BRANCH")
        waits = [first]
        while not body["index"]["complete"]:
            taken, body = search("BRANCH")
            waits.append(taken)
        seconds = round(time.monotonic() - started, 1)
        yield {
            "what": f"{files} files, {BRANCH_FILES} changed at once",
            "seconds until complete": seconds,
            **_cut(waits),
        }


def _cut(times: Sequence[Time]) -> Row:
    """Return percentiles of the time of searches, and of their CPU, which a busy machine changes less."""
    row: Row = {"searches": len(times)}
    for place, unit in enumerate(("ms", "CPU ms")):
        values = [time[place] for time in times]
        cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
        row |= {f"p{percent} {unit}": round(cuts[percent - 1], 1) for percent in (50, 95, 99)}
    return row


def _peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=list(SIZES), help="sizes of the tree")
    parser.add_argument("--embeddings", action="store_true", help="with one embedding per file")
    parser.add_argument("--one", action="store_true", help="measure in this process")
    options = parser.parse_args()
    rows = (
        measure_one(options.files[0], embeddings=options.embeddings)
        if options.one
        else measure(options.files, embeddings=options.embeddings)
    )
    for each in rows:
        print(json.dumps(each, ensure_ascii=False), flush=True)
