"""Measure the index at several sizes: `python -m bench.scale --files 1000 10000 100000` prints one row per line.

The files are generated, the same for every run: Python modules of 20 lines with a class and a function, 20 in a folder.
Their words are distributed as in real code. `--words 64` is the worst case: each of only 64 words is in 30 % of the
files. Each size is measured in a process of its own, so that its peak memory is that of one server.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from keyword import iskeyword
from pathlib import Path
from typing import Any

from bench.context import MODELS, RandomEmbeddings
from shopfloor.domain.tokenizer import STOP_WORDS
from shopfloor.gateways import embedding_model
from shopfloor.gateways.embeddings import Local
from shopfloor.gateways.word_vectors import load_vocabulary
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
CODE, WORST_CASE = "code", "64"
"""What the words of the generated files are."""
CODE_WORDS = 20_000
WORDS_PER_PACKAGE = 30
TEMPLATE_WORDS = {"keep", "return", "after", "each", "ends"}
"""Words of every generated file, which are in no query."""
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


def measure(sizes: Sequence[int], *, embeddings: bool, words: Sequence[str] = (CODE, WORST_CASE)) -> Iterator[Row]:
    """Measure each size with each set of words in a process of its own."""
    for files, chosen in itertools.product(sizes, words):
        command = [sys.executable, "-m", "bench.scale", "--one", "--files", str(files), "--words", chosen]
        command += ["--embeddings"] if embeddings else []
        done = subprocess.run(
            command, cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
        if done.returncode:
            yield {
                "what": f"{_describe(files, chosen)}: not measured",
                "because": (done.stderr.strip().splitlines() or ["?"])[-1],
            }
        else:
            yield from (json.loads(line) for line in done.stdout.splitlines())


def measure_one(files: int, words: str, *, embeddings: bool) -> Iterator[Row]:
    """Generate a tree, index it, and time searches: the first one of a new server, warm ones, and ones after changes."""
    with tempfile.TemporaryDirectory(prefix="shopfloor-scale-") as name:
        root, data = Path(name) / "tree", Path(name) / "data"
        paths = generate_tree(root, files, words)
        with _open_server(root, data, files, embeddings) as shopfloor:
            index = shopfloor.engine.search
            index.allow_watching()
            started, used = time.monotonic(), time.process_time()
            state = index.update_all(embeddings=False)
            row: Row = {
                "what": f"{_describe(files, words)}, index by words",
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
            yield from _measure_searches(shopfloor, paths, words)


def generate_tree(root: Path, files: int, words: str = CODE) -> list[Path]:
    """Write the files, and return their paths."""
    write = _code_writer() if words == CODE else _write_worst_case
    chosen = random.Random(1)  # nosec B311 # text for a measurement
    paths = []
    for number in range(files):
        folder = root / f"part{number // 1000}" / f"package{number // FILES_PER_FOLDER % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        name, text = write(chosen, number)
        path = folder / f"{name}_{number}.py"
        path.write_text(text)
        paths.append(path)
    return paths


def _code_writer() -> Callable[[random.Random, int], tuple[str, str]]:
    """Return a function that returns the name and the text of a file, with words distributed as in real code.

    By Zipf's law, a word's frequency falls with its rank: the first of 20,000 is in two thirds of the files, the
    hundredth in 2 %. Half of the words of a file are those of its package.
    """
    vocabulary = list_code_words()
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(vocabulary) + 1)))
    package: list[str] = []

    def write(chosen: random.Random, number: int) -> tuple[str, str]:
        if number % FILES_PER_FOLDER == 0:
            package[:] = chosen.choices(vocabulary, cum_weights=weights, k=WORDS_PER_PACKAGE)
        a, b, c, d, e, f = chosen.choices(vocabulary, cum_weights=weights, k=6)
        g, h, i, j, k, m = chosen.sample(package, 6)
        return f"{a}_{g}", (
            f'"""{a.title()} the {g} of a {b}, for each {h} in the {i}."""\n\nfrom {h} import {i}_{j}\n\n'
            f"{c.upper()}_{k.upper()} = {number}\n\n\n"
            f'class {a.title()}{g.title()}{d.title()}:\n    """Keep the {b} of each {k} {m}."""\n\n'
            f"    def {d}_{h}(self, {c}: int) -> int:\n"
            f'        """Return the {d} after the {c} {e}."""\n        return {i}_{j}({c}) + {c.upper()}_{k.upper()}\n\n\n'
            f'def {b}_{i}_{f}({m}: int) -> int:\n    """{b.title()} a {f} until the {g} ends."""\n'
            f"    for attempt in range({m}):\n        {i}_{j}(attempt)\n    return {m}\n"
        )

    return write


def list_code_words() -> list[str]:
    """Return the words of the generated code, the most frequent ones first."""
    others = [word for word in load_vocabulary() if word.isalpha() and len(word) > 2 and not iskeyword(word)]
    random.Random(3).shuffle(others)  # nosec B311
    return [*WORDS, *(word for word in others if word not in WORDS and word not in STOP_WORDS)][:CODE_WORDS]


def _write_worst_case(chosen: random.Random, number: int) -> tuple[str, str]:
    """Return the name and the text of a file with a few of 64 words."""
    a, b, c, d = (chosen.choice(WORDS) for _ in range(4))
    return f"{a}_{b}", (
        f'"""{a.title()} the {b} of a {c}."""\n\nfrom {c} import {d}\n\nLIMIT_{number} = {number}\n\n\n'
        f'class {a.title()}{b.title()}{number}:\n    """Keep the {c} of each {d}."""\n\n'
        f"    def {a}_{c}(self, {b}: int) -> int:\n"
        f'        """Return the {d} after the {b}."""\n        return {d}({b}) + LIMIT_{number}\n\n\n'
        f'def {b}_{d}_{number}({c}: int) -> int:\n    """{b.title()} a {d} until the {a} ends."""\n'
        f"    for attempt in range({c}):\n        {d}(attempt)\n    return {c}\n"
    )


def ask_question(chosen: random.Random, paths: Sequence[Path], words: str = CODE) -> str:
    """Return a query of the kind that people ask: a symbol, a few words, or a question."""
    if words != CODE:
        a, b, c = (chosen.choice(WORDS) for _ in range(3))
        return chosen.choice([f"{a} {b}", f"how is the {a} of a {b} {c}", f"LIMIT_{chosen.randrange(len(paths))}"])
    text = chosen.choice(paths).read_text()
    names: list[str] = re.findall(r"(?:def|class|import) (\w+)", text)
    said = list(dict.fromkeys(re.findall(r"[a-z]{3,}", " ".join(re.findall(r'"""(.*)"""', text)).lower())))
    a, b, c, d = chosen.sample([word for word in said if word not in STOP_WORDS | TEMPLATE_WORDS], 4)
    return chosen.choice(
        [
            chosen.choice(names),
            f"{a} {b}",
            f"{a} {b} {c}",
            f"how does {a} {b} the {c}",
            f"where is the {a} of a {b} with the {c} when a {d} fails",
            f"{a} the {b} in {chosen.choice(names)}",
        ]
    )


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


def _measure_searches(shopfloor: Shopfloor, paths: Sequence[Path], words: str) -> Iterator[Row]:
    chosen = random.Random(2)  # nosec B311
    what = _describe(len(paths), words)
    index = shopfloor.engine.search
    index.allow_watching()

    def search(query: str) -> tuple[Time, Any]:
        started, used = time.perf_counter(), time.process_time()
        body = shopfloor.call("context", "context_search", {"query": query})
        return ((time.perf_counter() - started) * 1000, (time.process_time() - used) * 1000), body

    def ask() -> str:
        return ask_question(chosen, paths, words)

    (cold, _), _ = search(ask())
    index.update_all(embeddings=False)
    search(ask())
    yield {"what": f"{what}, search", "cold ms": round(cold), **_cut([search(ask())[0] for _ in range(QUERIES)])}
    times = []
    for number in range(CHANGES):
        path = chosen.choice(paths)
        path.write_text(f"{path.read_text()}\n\ndef walrus_{number}() -> None:\n    pass\n")
        taken, body = search(f"walrus_{number}")
        if not body["results"] or body["results"][0]["symbol"] != f"walrus_{number}":
            raise RuntimeError(f"a change was not in the next search: {body}")
        times.append(taken)
    yield {"what": f"{what}, search after an edit", **_cut(times)}
    if len(paths) > BRANCH_FILES:
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
            "what": f"{what}, {BRANCH_FILES} changed at once",
            "seconds until complete": seconds,
            **_cut(waits),
        }


def _describe(files: int, words: str) -> str:
    return f"{files} files, {'words of code' if words == CODE else f'{words} words'}"


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
    parser.add_argument(
        "--words",
        nargs="+",
        choices=[CODE, WORST_CASE],
        default=[CODE, WORST_CASE],
        help="distributed as in code, or 64 words as the worst case",
    )
    parser.add_argument("--one", action="store_true", help="measure in this process")
    options = parser.parse_args()
    rows = (
        measure_one(options.files[0], options.words[0], embeddings=options.embeddings)
        if options.one
        else measure(options.files, embeddings=options.embeddings, words=options.words)
    )
    for each in rows:
        print(json.dumps(each, ensure_ascii=False), flush=True)
