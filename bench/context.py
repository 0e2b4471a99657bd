"""What the context toolset costs and how well it finds: beside plain `rg` and a plain read, in the same run."""

from __future__ import annotations

import json
import math
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.retrieval import Question, commits, corpus
from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.index import Hit, Scope
from shopfloor.domain.ranking import Circumstances, rank
from shopfloor.domain.words import symbol_in, terms_of
from shopfloor.gateways import model
from shopfloor.gateways.embeddings import Embeddings
from shopfloor.gateways.grep import find_program
from shopfloor.repositories.work import Outside
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import index

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".cache" / "models"
TREE_FILES = 1_000

Row = dict[str, Any]
Finder = Callable[[Question], list[Hit]]


def run(quick: bool) -> list[Row]:
    """Rows of figures: time of each tool, index, retrieval."""
    model.install(CACHE)
    with tempfile.TemporaryDirectory(prefix="shopfloor-bench-") as name:
        root = Path(name)
        return [*_times(root / "tree", quick), *_retrieval(root / "corpus", quick), *_commits(root / "commits", quick)]


def _floor(root: Path, **more: Any) -> Shopfloor:
    root.mkdir(parents=True, exist_ok=True)
    free = {"context_search": 0, "read_file": 0, "grep_codebase": 0}
    return Shopfloor(Settings(project=root, model_cache=CACHE, rate_limits=free, **more))


def _times(root: Path, quick: bool) -> list[Row]:
    """Each tool on a real tree, beside what it is built on."""
    questions = corpus(root / "packages")
    for copy in range(1, 20):
        if sum(1 for _ in root.rglob("*.py")) >= TREE_FILES:
            break
        shutil.copytree(root / "packages" / "werkzeug", root / f"copy{copy}" / "werkzeug")
        shutil.copytree(root / "packages" / "rich", root / f"copy{copy}" / "rich")
    files = [str(path.relative_to(root)) for path in sorted(root.rglob("*.py"))]
    rows = [_first_index(root, files)]
    rounds = 20 if quick else 100
    with _floor(root) as floor:
        if not quick:
            floor.index(lambda *_: None)
        asked = [question.text for question in questions[:: max(1, len(questions) // rounds)]][:rounds]
        paths = files[:: max(1, len(files) // rounds)][:rounds]
        patterns = ["def __init__", "raise ValueError", "class \\w+Error", "import os", "TODO"]
        patterns = [patterns[number % len(patterns)] for number in range(rounds)]
        rg = find_program()
        rows += [
            _timed("context_search", lambda q: floor.call("context", "context_search", {"query": q}), asked),
            _timed("read_file", lambda p: floor.call("context", "read_file", {"path": p}), paths),
            _timed("a plain read", lambda p: (root / p).read_text(), paths),
            _timed(
                "read_file with imports",
                lambda p: floor.call("context", "read_file", {"path": p, "includeDeps": True}),
                paths,
            ),
            _timed("grep_codebase", lambda p: floor.call("context", "grep_codebase", {"pattern": p}), patterns),
            _timed(
                "plain rg",
                lambda p: subprocess.run(
                    [rg, "-n", "-C2", "-i", "-e", p, "./"], cwd=root, check=False, capture_output=True
                ),
                patterns,
            ),
        ]
    return rows


def _first_index(root: Path, files: Sequence[str]) -> Row:
    with _floor(root) as floor:
        began = time.monotonic()
        floor.index(lambda *_: None, vectors=False)
        seconds = time.monotonic() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    per_500 = seconds * 500 / len(files)
    return {
        "what": "first index by words",
        "files": len(files),
        "seconds": round(seconds, 2),
        "per 500 files": round(per_500, 2),
        "peak MB": memory,
    }


def _timed(what: str, call: Callable[[str], Any], given: Sequence[str]) -> Row:
    call(given[0])
    times = []
    for each in given:
        began = time.perf_counter()
        call(each)
        times.append((time.perf_counter() - began) * 1000)
    cuts = statistics.quantiles(times, n=20)
    return {"what": what, "calls": len(times), "p50 ms": round(cuts[9], 2), "p95 ms": round(cuts[18], 2)}


def _retrieval(root: Path, quick: bool) -> list[Row]:
    """docstring → function: words, vectors and both, on the half that nothing was tuned on."""
    root.mkdir(parents=True)
    questions = [question for question in corpus(root) if question.test]
    asked = questions[::10] if quick else questions
    with _floor(root) as floor:
        began = time.monotonic()
        state = floor.index(lambda *_: None)
        embedding = {"what": "vectors", "passages": state["passages"], "seconds": round(time.monotonic() - began, 1)}
        ways = _ways(floor)
        return [embedding, *(_judged(f"docstring → function, {way}", finder, asked) for way, finder in ways.items())]


def _ways(floor: Shopfloor) -> dict[str, Finder]:
    works = floor.floor.works
    outside = Outside(works, OPERATOR, 0)
    embeddings = outside.the(Embeddings)  # type: ignore[type-abstract]
    vectors = index.load_vectors(outside)

    def by_words(question: Question) -> list[Hit]:
        found = works.read(lambda work: work.index.by_words(terms_of(question.text), Scope(), 200), OPERATOR)
        return [hit for hit, _ in found]

    def by_meaning(question: Question) -> list[Hit]:
        near = [digest for digest, _ in vectors.nearest(embeddings.embed([question.text])[0], 200, None)]
        place = {digest: number for number, digest in enumerate(near)}
        hits = works.read(lambda work: work.index.by_digest(near, Scope()), OPERATOR)
        return sorted(hits, key=lambda hit: (place[hit.digest], hit.id))

    def ranked(question: Question, words: list[Hit], meaning: list[Hit]) -> list[Hit]:
        symbol = symbol_in(question.text)
        defining = works.read(lambda work: work.index.by_name(symbol, Scope(), 10), OPERATOR) if symbol else []
        return [each.hit for each in rank(question.text, words, meaning, defining, Circumstances(0))]

    return {
        "words alone": by_words,
        "words with rules": lambda question: ranked(question, by_words(question), []),
        "vectors alone": by_meaning,
        "fused": lambda question: ranked(question, by_words(question), by_meaning(question)),
    }


def _judged(what: str, finder: Finder, questions: Sequence[Question]) -> Row:
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
        if hit.ref == question.path and hit.name and hit.start_line <= question.line <= hit.end_line:
            return place
    return None


def _commits(root: Path, quick: bool) -> list[Row]:
    """commit subject → commit body, over this repository's own history."""
    pairs = commits(CHECKOUT, 40 if quick else 400)
    if len(pairs) < 2:
        return []
    with _floor(root) as floor:
        ids = [
            floor.call("context", "record_discovery", {"type": "pattern", "content": body[:10_000]})["id"]
            for _, body in pairs
        ]
        floor.index(lambda *_: None)
        places = []
        for (subject, _), wanted in zip(pairs, ids, strict=True):
            body = floor.call(
                "context", "context_search", {"query": (subject + "   ")[:500], "type": "pattern", "limit": 10}
            )
            found = [result["id"] for result in body["results"]]
            places.append(found.index(wanted) if wanted in found else None)
    hit = [place for place in places if place is not None]
    return [
        {
            "what": "commit subject → body, fused",
            "questions": len(pairs),
            "MRR@10": round(sum(1 / (place + 1) for place in hit) / len(pairs), 4),
            "NDCG@10": round(sum(1 / math.log2(place + 2) for place in hit) / len(pairs), 4),
            "recall@10": round(len(hit) / len(pairs), 4),
        }
    ]


if __name__ == "__main__":
    for row in run(quick=False):
        print(json.dumps(row, ensure_ascii=False), flush=True)
