"""Measure the context toolset, its speed and its retrieval: `python -m bench.context` prints one row of figures per line.

It runs in its own process, so that its memory is that of one server and one index.
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
from bench.retrieval import CACHE, Question, build_corpus, list_commits
from shopfloor.domain.chunks import OVERVIEW
from shopfloor.domain.index import Hit, Scope, WordMatches
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.tokenizer import extract_terms
from shopfloor.gateways import embedding_model
from shopfloor.gateways.embeddings import Local, Matrix
from shopfloor.gateways.grep import find_program
from shopfloor.search.candidates import find_by_words, find_nearest
from shopfloor.search.ranking import Candidates, Signals, rank
from shopfloor.search.word_similarity import measure_similarity
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.toolsets.context.support import use_embeddings

CHECKOUT = Path(__file__).resolve().parent.parent
MODELS = CHECKOUT / ".cache" / "models"
TIMEOUT_SECONDS = 1800
PATTERNS = ("def __init__", "raise ValueError", "class \\w+Error", "import os", "TODO")
EXCLUDED_FOLDERS = {"site-packages", "__pycache__", "test", "tests", "lib2to3", "idlelib"}

Row = dict[str, Any]
Finder = Callable[[Question], list[Hit]]
TimedCall = Callable[[str], object]


def measure(plan: Plan) -> list[Row]:
    """Run the measurement in its own process. If it fails, for example without a package index, return one row that says why."""
    plan.report("context: search, read, grep, retrieval")
    command = [sys.executable, "-m", "bench.context", *(["--quick"] if plan.rounds == 1 else [])]
    done = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode:
        return [{"what": "context: not measured", "because": (done.stderr.strip().splitlines() or ["?"])[-1]}]
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure_rows(quick: bool) -> Iterator[Row]:
    """Measure the time of each tool, the index and retrieval; `quick` uses words only."""
    if not quick:
        embedding_model.install(MODELS)
    with tempfile.TemporaryDirectory(prefix="shopfloor-bench-") as name:
        yield from _measure_times(Path(name) / "tree", quick)
        yield from _judge_commits(Path(name) / "changes", quick)
        yield from _judge_functions(quick)
        yield from _judge_among(Path(name) / "among", quick)


def _open_server(root: Path, quick: bool = False, **more: Any) -> Shopfloor:
    root.mkdir(parents=True, exist_ok=True)
    free = {"context_search": 0, "read_file": 0, "grep_codebase": 0}
    embeddings = "off" if quick else "local"
    shopfloor = Shopfloor(Settings(project=root, model_cache=MODELS, rate_limits=free, embeddings=embeddings, **more))
    if not quick:  # no call competes with the embedding, so it may use all cores
        use_embeddings(shopfloor, Local(MODELS, threads=os.cpu_count()))
    return shopfloor


# Time


class RandomEmbeddings:
    """Random embeddings for the index, which cost a search the same as real ones, and real ones for queries."""

    name = embedding_model.NAME

    def __init__(self) -> None:
        self._local = Local(MODELS)
        self._random = np.random.default_rng(1)

    def ready(self) -> bool:
        return True

    def embed(self, texts: Sequence[str]) -> Matrix:
        if len(texts) == 1:
            return self._local.embed(texts)
        made = self._random.standard_normal((len(texts), embedding_model.DIMENSIONS)).astype(np.float32)
        whole: Matrix = made / np.linalg.norm(made, axis=1, keepdims=True)
        return whole


def _measure_times(root: Path, quick: bool) -> Iterator[Row]:
    """Time each tool on a real tree, interleaved with what it is built on."""
    questions = build_corpus(root / "packages")
    _copy_standard_library(root / "library")
    files = [str(path.relative_to(root)) for path in sorted(root.rglob("*.py"))]
    count = 20 if quick else 100
    asked = [question.text for question in questions[:: max(1, len(questions) // count)]][:count]
    paths = files[:: max(1, len(files) // count)][:count]
    patterns = [PATTERNS[number % len(PATTERNS)] for number in range(count)]
    rg = find_program()
    with _open_server(root, quick) as shopfloor:
        yield _measure_first_index(shopfloor, len(files))
        if not quick:
            use_embeddings(shopfloor, RandomEmbeddings())
            shopfloor.refresh_index()

        def tool(name: str, argument: str, **more: Any) -> TimedCall:
            return lambda given: shopfloor.call("context", name, {argument: given, **more})

        yield from _time_calls({"context_search": tool("context_search", "query")}, asked)
        yield from _time_calls(
            {
                "read_file": tool("read_file", "path"),
                "a plain read": lambda path: (root / path).read_text(),
                "read_file with imports": tool("read_file", "path", includeDeps=True),
            },
            paths,
        )
        yield from _time_calls(
            {
                "grep_codebase": tool("grep_codebase", "pattern"),
                "plain rg": lambda pattern: subprocess.run(
                    [rg, "-n", "-C2", "-i", "-e", pattern, "./"], cwd=root, check=False, capture_output=True
                ),
            },
            patterns,
        )


def _copy_standard_library(folder: Path) -> None:
    """Copy the standard library without its tests: a real tree that is available everywhere."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        place = path.relative_to(library)
        if not EXCLUDED_FOLDERS & set(place.parts):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / place)


def _measure_first_index(shopfloor: Shopfloor, files: int) -> Row:
    before = _peak_megabytes()
    started, used = time.monotonic(), time.process_time()
    shopfloor.refresh_index(embeddings=False)
    seconds, cpu = time.monotonic() - started, time.process_time() - used
    return {
        "what": "first index by words",
        "files": files,
        "seconds": round(seconds, 2),
        "s per 500": round(seconds * 500 / files, 2),
        "CPU s per 500": round(cpu * 500 / files, 2),
        "peak MB": _peak_megabytes(),
        "MB before": before,
    }


def _cpu_seconds() -> float:
    spent = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _time_calls(calls: dict[str, TimedCall], given: Sequence[str]) -> list[Row]:
    """Time each call for each input, interleaved, in milliseconds. The CPU includes that of ripgrep."""
    times: dict[str, list[float]] = {what: [] for what in calls}
    used: dict[str, list[float]] = {what: [] for what in calls}
    for call in calls.values():
        call(given[0])
    for each in given:
        for what, call in calls.items():
            started, before = time.perf_counter(), _cpu_seconds()
            call(each)
            times[what].append((time.perf_counter() - started) * 1000)
            used[what].append((_cpu_seconds() - before) * 1000)
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


def _judge_functions(quick: bool) -> Iterator[Row]:
    """Judge docstring → function on the half that was not used for tuning. Keep the index, which takes minutes."""
    root = CACHE / "functions"
    questions = [question for question in build_corpus(root) if question.test]
    with _open_server(root, quick) as shopfloor:
        started = time.monotonic()
        before = shopfloor.refresh_index(embeddings=False)
        state = shopfloor.refresh_index()
        made = state["embedded"] - before["embedded"]
        seconds = time.monotonic() - started
        row: Row = {"what": "embeddings", "chunks": state["chunks"], "made now": made, "seconds": round(seconds, 1)}
        if made and not before["embedded"]:
            files = sum(1 for _ in root.rglob("*.py"))
            row["s per 1,000 files"] = round(seconds * 1000 / files, 1)
        yield row
        yield from _judge_all("docstring → function", shopfloor, questions[::10] if quick else questions)


def _judge_commits(root: Path, quick: bool) -> Iterator[Row]:
    """Judge commit subject → commit body."""
    pairs = list_commits(CHECKOUT, 100 if quick else 500)
    if len(pairs) < 20:
        return
    with _open_server(root, quick) as shopfloor:
        questions = []
        for subject, body in pairs:
            known = shopfloor.call("context", "record_discovery", {"type": "pattern", "content": body[:10_000]})
            questions.append(Question(subject, f"discovery/{known['id'].removeprefix('discovery-')}", 0, True))
        shopfloor.refresh_index()
        yield from _judge_all("commit subject → body", shopfloor, questions)


def _judge_among(root: Path, quick: bool) -> Iterator[Row]:
    """Judge memory among code and code among memory, each kind beside the same code without the others."""
    shutil.copytree(CACHE / "functions", root)  # with its embeddings
    questions = [question for question in build_corpus(root) if question.test][:: 20 if quick else 4]
    with _open_server(root, quick) as shopfloor:
        shopfloor.refresh_index()
        yield _judge("code alone", _best_finder(shopfloor), questions)
        written = memory.record(shopfloor, list_commits(CHECKOUT, 100 if quick else 500))
        shopfloor.refresh_index()
        best = _best_finder(shopfloor)
        yield _judge("code among memory", best, questions)
        for kind, asked in written.items():
            yield _judge(f"{kind} among code", best, asked)


def _best_finder(shopfloor: Shopfloor) -> Finder:
    """Return the finder that a search uses."""
    *_, best = _build_finders(shopfloor).values()
    return best


def _judge_all(what: str, shopfloor: Shopfloor, questions: Sequence[Question]) -> list[Row]:
    return [_judge(f"{what}, {way}", finder, questions) for way, finder in _build_finders(shopfloor).items()]


def _build_finders(shopfloor: Shopfloor) -> dict[str, Finder]:
    database = shopfloor.engine.database
    embeddings = shopfloor.engine.search.embeddings

    def match_words(question: Question, *, embedded: bool) -> tuple[WordMatches, list[tuple[Hit, float]]]:
        return database.read(lambda uow: find_by_words(uow, question.text, Scope(), embedded=embedded), OPERATOR)

    def find_nearest_to(question: Question) -> list[tuple[Hit, float]]:
        query = embeddings.finish_query(question.text, None)
        return [] if query is None else database.read(lambda uow: find_nearest(uow, Scope(), query), OPERATOR)

    def find_ranked(question: Question, near: list[tuple[Hit, float]]) -> list[Hit]:
        by_words, by_file = match_words(question, embedded=bool(near))
        paths = {hit.ref: None for hit, _ in (*by_words.hits, *by_file, *near) if hit.source == "code"}
        word_counts = database.read(lambda uow: uow.chunks.word_counts(list(paths)), OPERATOR)
        similarity = measure_similarity(extract_terms(question.text), word_counts)
        candidates = Candidates(by_words, by_file, near, [], Signals(0), similarity)
        return [each.hit for each in rank(question.text, candidates) if each.hit.kind != OVERVIEW]

    ways: dict[str, Finder] = {
        "words": lambda question: [hit for hit, _ in match_words(question, embedded=False)[0].hits],
        "words, rules": lambda question: find_ranked(question, []),
    }
    if embeddings.model.ready():
        ways["embeddings"] = lambda question: [hit for hit, _ in find_nearest_to(question) if hit.kind != OVERVIEW]
        ways["fused"] = lambda question: find_ranked(question, find_nearest_to(question))
    return ways


def _judge(what: str, finder: Finder, questions: Sequence[Question]) -> Row:
    places = [_find_place(finder(question)[:10], question) for question in questions]
    found = [place for place in places if place is not None]
    count = max(1, len(questions))
    return {
        "what": what,
        "questions": len(questions),
        "MRR@10": round(sum(1 / (place + 1) for place in found) / count, 4),
        "NDCG@10": round(sum(1 / math.log2(place + 2) for place in found) / count, 4),
        "recall@10": round(len(found) / count, 4),
    }


def _find_place(hits: Sequence[Hit], question: Question) -> int | None:
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
    parser.add_argument("--quick", action="store_true", help="by words only, with some of the queries")
    for each in measure_rows(parser.parse_args().quick):
        print(json.dumps(each, ensure_ascii=False), flush=True)
