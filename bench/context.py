"""What the context toolset costs and how well it finds: `python -m bench.context` prints one row of figures a line.

It is a process of its own, so that its memory is that of one floor and one index.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import memory
from bench.plan import Plan
from bench.retrieval import CACHE, Question, changes, corpus
from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.index import Hit, Scope
from shopfloor.domain.ranking import Circumstances, rank
from shopfloor.domain.words import symbol_in, terms_of
from shopfloor.gateways import model
from shopfloor.gateways.embeddings import Embeddings, Local, Matrix
from shopfloor.gateways.grep import find_program
from shopfloor.gateways.vectors import Vectors
from shopfloor.repositories.work import Outside
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import index
from shopfloor.usecases.knowledge import CANDIDATES

CHECKOUT = Path(__file__).resolve().parent.parent
MODELS = CHECKOUT / ".cache" / "models"
PATIENCE = 1800
PATTERNS = ("def __init__", "raise ValueError", "class \\w+Error", "import os", "TODO")
NO_TREE = {"site-packages", "__pycache__", "test", "tests", "lib2to3", "idlelib"}

Row = dict[str, Any]
Finder = Callable[[Question], list[Hit]]
Timed = Callable[[str], object]


def measure(plan: Plan) -> list[Row]:
    """The rows of a process of its own; one row that says why when it cannot run, without a package index for example."""
    plan.said("context: search, read, grep, retrieval")
    command = [sys.executable, "-m", "bench.context", *(["--quick"] if plan.rounds == 1 else [])]
    done = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        return [{"what": "context: not measured", "because": (done.stderr.strip().splitlines() or ["?"])[-1]}]
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(quick: bool) -> Iterator[Row]:
    """Time of each tool, index, retrieval; quick ones go by words alone."""
    if not quick:
        model.install(MODELS)
    with tempfile.TemporaryDirectory(prefix="shopfloor-bench-") as name:
        yield from _times(Path(name) / "tree", quick)
        yield from _changes(Path(name) / "changes", quick)
        yield from _functions(quick)
        yield from _among(Path(name) / "among", quick)


def _floor(root: Path, quick: bool = False, **more: Any) -> Shopfloor:
    root.mkdir(parents=True, exist_ok=True)
    free = {"context_search": 0, "read_file": 0, "grep_codebase": 0}
    embeddings = "off" if quick else "local"
    floor = Shopfloor(Settings(project=root, model_cache=MODELS, rate_limits=free, embeddings=embeddings, **more))
    if not quick:  # nobody calls while it embeds: all cores are free for that
        floor.floor.works.gateways[Embeddings] = Local(MODELS, threads=os.cpu_count())
    return floor


# Time


class _Filled:
    """Vectors at random for what is indexed, which cost a search what real ones do; a query gets a real one."""

    name = model.NAME

    def __init__(self) -> None:
        self._local = Local(MODELS)
        self._random = np.random.default_rng(1)

    def ready(self) -> bool:
        return True

    def embed(self, texts: Sequence[str]) -> Matrix:
        if len(texts) == 1:
            return self._local.embed(texts)
        made = self._random.standard_normal((len(texts), model.DIMENSIONS)).astype(np.float32)
        whole: Matrix = made / np.linalg.norm(made, axis=1, keepdims=True)
        return whole


def _times(root: Path, quick: bool) -> Iterator[Row]:
    """Each tool on a real tree, in turn with what it is built on."""
    questions = corpus(root / "packages")
    _standard_library(root / "library")
    files = [str(path.relative_to(root)) for path in sorted(root.rglob("*.py"))]
    count = 20 if quick else 100
    asked = [question.text for question in questions[:: max(1, len(questions) // count)]][:count]
    paths = files[:: max(1, len(files) // count)][:count]
    patterns = [PATTERNS[number % len(PATTERNS)] for number in range(count)]
    rg = find_program()
    with _floor(root, quick) as floor:
        yield _first_index(floor, len(files))
        if not quick:
            floor.floor.works.gateways[Embeddings] = _Filled()
            floor.index(lambda *_: None)

        def tool(name: str, argument: str, **more: Any) -> Timed:
            return lambda given: floor.call("context", name, {argument: given, **more})

        yield from _timed({"context_search": tool("context_search", "query")}, asked)
        yield from _timed(
            {
                "read_file": tool("read_file", "path"),
                "a plain read": lambda path: (root / path).read_text(),
                "read_file with imports": tool("read_file", "path", includeDeps=True),
            },
            paths,
        )
        yield from _timed(
            {
                "grep_codebase": tool("grep_codebase", "pattern"),
                "plain rg": lambda pattern: subprocess.run(
                    [rg, "-n", "-C2", "-i", "-e", pattern, "./"], cwd=root, check=False, capture_output=True
                ),
            },
            patterns,
        )


def _standard_library(folder: Path) -> None:
    """The modules of the Python that runs this, without its tests: a real tree, at hand everywhere."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        place = path.relative_to(library)
        if not NO_TREE & set(place.parts):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / place)


def _first_index(floor: Shopfloor, files: int) -> Row:
    before = _peak()
    began, used = time.monotonic(), time.process_time()
    floor.index(lambda *_: None, vectors=False)
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    return {
        "what": "first index by words",
        "files": files,
        "seconds": round(seconds, 2),
        "s per 500": round(seconds * 500 / files, 2),
        "CPU s per 500": round(cpu * 500 / files, 2),
        "peak MB": _peak(),
        "MB before": before,
    }


def _cpu() -> float:
    spent = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _timed(calls: dict[str, Timed], given: Sequence[str]) -> list[Row]:
    """Milliseconds of each call, all of them in turn for each thing that is given; the CPU is also that of ripgrep."""
    times: dict[str, list[float]] = {what: [] for what in calls}
    used: dict[str, list[float]] = {what: [] for what in calls}
    for call in calls.values():
        call(given[0])
    for each in given:
        for what, call in calls.items():
            began, before = time.perf_counter(), _cpu()
            call(each)
            times[what].append((time.perf_counter() - began) * 1000)
            used[what].append((_cpu() - before) * 1000)
    *_, last = times.values()
    found = []
    for what, taken in times.items():
        cuts = statistics.quantiles(taken, n=20)
        row: Row = {"what": what, "calls": len(taken), "p50 ms": round(cuts[9], 2), "p95 ms": round(cuts[18], 2)}
        row["CPU ms"] = round(statistics.median(used[what]), 1)
        if what == "grep_codebase":
            row["× plain rg"] = round(statistics.median(a / b for a, b in zip(taken, last, strict=True)), 2)
        found.append(row)
    return found


# Retrieval


def _functions(quick: bool) -> Iterator[Row]:
    """docstring → function, on the half that nothing was tuned on. The index stays for the next run: it takes minutes."""
    root = CACHE / "functions"
    questions = [question for question in corpus(root) if question.test]
    with _floor(root, quick) as floor:
        began = time.monotonic()
        before = floor.index(lambda *_: None, vectors=False)
        state = floor.index(lambda *_: None)
        made = state["vectors"] - before["vectors"]
        seconds = time.monotonic() - began
        yield {"what": "vectors", "passages": state["passages"], "made now": made, "seconds": round(seconds, 1)}
        yield from _judged("docstring → function", floor, questions[::10] if quick else questions)


def _changes(root: Path, quick: bool) -> Iterator[Row]:
    """Commit subject → commit body."""
    pairs = changes(CHECKOUT, 100 if quick else 500)
    if len(pairs) < 20:
        return
    with _floor(root, quick) as floor:
        questions = []
        for subject, body in pairs:
            known = floor.call("context", "record_discovery", {"type": "pattern", "content": body[:10_000]})
            questions.append(Question(subject, f"discovery/{known['id'].removeprefix('discovery-')}", 0, True))
        floor.index(lambda *_: None)
        yield from _judged("commit subject → body", floor, questions)


def _among(root: Path, quick: bool) -> Iterator[Row]:
    """What the team wrote is found among code, and code among it: each kind beside the same code without the others."""
    shutil.copytree(CACHE / "functions", root)  # with its vectors
    questions = [question for question in corpus(root) if question.test][:: 20 if quick else 4]
    with _floor(root, quick) as floor:
        floor.index(lambda *_: None)
        yield _judgement("code alone", _best(floor), questions)
        written = memory.write(floor, changes(CHECKOUT, 100 if quick else 500))
        floor.index(lambda *_: None)
        best = _best(floor)
        yield _judgement("code among memory", best, questions)
        for kind, asked in written.items():
            yield _judgement(f"{kind} among code", best, asked)


def _best(floor: Shopfloor) -> Finder:
    """The way that a search goes."""
    *_, best = _ways(floor).values()
    return best


def _judged(what: str, floor: Shopfloor, questions: Sequence[Question]) -> list[Row]:
    return [_judgement(f"{what}, {way}", finder, questions) for way, finder in _ways(floor).items()]


def _ways(floor: Shopfloor) -> dict[str, Finder]:
    works = floor.floor.works
    outside = Outside(works, OPERATOR, 0)
    embeddings = outside.the(Embeddings)  # type: ignore[type-abstract]
    vectors = index.load_vectors(outside) if embeddings.ready() else Vectors()

    def by_words(question: Question) -> list[Hit]:
        return works.read(lambda work: work.index.by_words(terms_of(question.text), Scope(), CANDIDATES), OPERATOR)

    def by_meaning(question: Question) -> list[Hit]:
        near = [digest for digest, _ in vectors.nearest(embeddings.embed([question.text])[0], CANDIDATES, None)]
        place = {digest: number for number, digest in enumerate(near)}
        hits = works.read(lambda work: work.index.by_digest(near, Scope()), OPERATOR)
        return sorted(hits, key=lambda hit: (place[hit.digest], hit.id))

    def ranked(question: Question, words: list[Hit], meaning: list[Hit]) -> list[Hit]:
        symbol = symbol_in(question.text)
        defining = works.read(lambda work: work.index.by_name(symbol, Scope(), 10), OPERATOR) if symbol else []
        return [each.hit for each in rank(question.text, words, meaning, defining, Circumstances(0))]

    ways: dict[str, Finder] = {
        "words": by_words,
        "words, rules": lambda question: ranked(question, by_words(question), []),
    }
    if len(vectors):
        ways["vectors"] = by_meaning
        ways["fused"] = lambda question: ranked(question, by_words(question), by_meaning(question))
    return ways


def _judgement(what: str, finder: Finder, questions: Sequence[Question]) -> Row:
    places = [_place(finder(question)[:10], question) for question in questions]
    found = [place for place in places if place is not None]
    count = max(1, len(questions))
    return {
        "what": what,
        "questions": len(questions),
        "MRR@10": round(sum(1 / (place + 1) for place in found) / count, 4),
        "NDCG@10": round(sum(1 / math.log2(place + 2) for place in found) / count, 4),
        "recall@10": round(len(found) / count, 4),
    }


def _place(hits: Sequence[Hit], question: Question) -> int | None:
    for place, hit in enumerate(hits):
        if hit.source != "code":
            right = f"{hit.source}/{hit.ref}" == question.path
        else:
            right = hit.ref == question.path and hit.name != "" and hit.start_line <= question.line <= hit.end_line
        if right:
            return place
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.context", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="by words alone, some questions")
    for each in rows(parser.parse_args().quick):
        print(json.dumps(each, ensure_ascii=False), flush=True)
