"""Judge code search on questions about whole files: `python -m bench.code_search` prints NDCG@10, MRR@10 and recall@10.

Each file in `bench/questions` has questions about one package: names of symbols, "where is X" in words that are not in
the code, and "how does X work". Each question has the files that answer it. Half of the packages are for tuning. The
other half is for judging: no rule and no weight is chosen by it. `bench/questions/training` has more questions, from which
weights are learned: `--half training` measures them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cache, reduce
from pathlib import Path
from typing import Any

import yaml

from bench import peer
from bench.corpora import CACHE, FetchError, fetch
from bench.plan import Plan
from bench.table import format_rows
from shopfloor.domain.index import Scope
from shopfloor.errors import StartupError
from shopfloor.gateways import embedding_model
from shopfloor.gateways.embeddings import Local
from shopfloor.search.candidates import find_candidates
from shopfloor.search.embedding_index import QueryEmbedding
from shopfloor.search.ranking import WEIGHTS, Candidates, Weights, rank
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.toolsets.context.support import open_external, use_embeddings

CHECKOUT = Path(__file__).resolve().parent.parent
QUESTIONS = CHECKOUT / "bench" / "questions"
TRAINING_QUESTIONS = QUESTIONS / "training"
INDEXES = CACHE / "code_search"
MODELS = CACHE / "models"
HALVES = ("tune", "judge")
TRAINING = "training"
KINDS = ("symbol", "meaning", "architecture")
TRAINING_KINDS = ("lay", "meaning", "architecture")
CUTOFF = 10
TIMEOUT_SECONDS = 4 * 3600
"""The first run embeds every package, which takes an hour and more on two cores. Later runs use the stored index."""

Row = dict[str, Any]


class Effort(Enum):
    """What is embedded: nothing, two overviews per file, or every chunk as well."""

    WORDS = "words"
    FILES = "files"
    CHUNKS = "chunks"

    @property
    def methods(self) -> tuple[str, ...]:
        """The ways of searching to compare; the last one has all rules."""
        return ("words", "words, rules", "embeddings", "fused")[: 2 if self is Effort.WORDS else 4]


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the files that answer it."""

    ask: str
    kind: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Package:
    """A package of a registry and the questions about it."""

    title: str
    name: str
    version: str
    registry: str
    language: str
    half: str
    root: str
    questions: tuple[Question, ...]

    def fetch(self) -> Path:
        """Return the folder that the questions are about."""
        return fetch(self.registry, self.name, self.version) / self.root


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and what a search found for it, before it is ranked."""

    package: Package
    question: Question
    candidates: Candidates
    by_words: Candidates
    """What a search without embeddings found."""


@dataclass(frozen=True, slots=True)
class Score:
    """How well one question was answered."""

    package: Package
    question: Question
    place: int | None
    """The place of the first right file, counted from 1; None if it is not among the first ten."""
    ndcg: float
    recall: float


def load_packages(folder: Path = QUESTIONS) -> list[Package]:
    """Read all question files of a folder, sorted by name."""
    return [load_package(path) for path in sorted(folder.glob("*.yaml"))]


def load_package(path: Path) -> Package:
    """Read one question file."""
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Package(
        title=path.stem,
        name=given["package"],
        version=given["version"],
        registry=given["registry"],
        language=given["language"],
        half=given["half"],
        root=given.get("root", ""),
        questions=tuple(Question(each["ask"], each["kind"], tuple(each["files"])) for each in given["questions"]),
    )


def measure(plan: Plan) -> list[Row]:
    """Run the measurement in its own process. If it fails, return one row that says why."""
    plan.report("context: code search")
    command = [sys.executable, "-m", "bench.code_search", "--json"]
    done = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode:
        return [{"what": "code search: not measured", "because": (done.stderr.strip().splitlines() or ["?"])[-1]}]
    return [json.loads(line) for line in done.stdout.splitlines()]


# One package


def collect_package(package: Package, effort: Effort) -> list[Asked]:
    """Return the candidates of a package's questions, as stored unless questions or search have changed since.

    A change of a rule or a weight alone uses what is stored: 760 questions are judged in seconds.
    """
    key = f"{_digest_search()} {package!r}"
    stored = INDEXES / effort.value / f"{package.title}.pickle"
    if stored.is_file():
        known, asked = pickle.loads(stored.read_bytes())
        if known == key:
            return list(asked)
    asked = _collect_from_index(package, effort)
    stored.write_bytes(pickle.dumps((key, asked)))
    return asked


@cache
def _digest_search() -> str:
    """Digest everything that candidates depend on: all sources except the ranking, which comes after them."""
    digest = hashlib.sha256(repr([field.name for field in fields(Candidates)]).encode())
    for path in sorted((CHECKOUT / "src" / "shopfloor").rglob("*.py")):
        if path.name != "ranking.py":
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _collect_from_index(package: Package, effort: Effort) -> list[Asked]:
    """Index a package and collect the candidates of its questions."""
    # Each effort has its own index: embeddings of chunks that are there would be found, too.
    settings = Settings(
        project=package.fetch(),
        data=INDEXES / effort.value / package.title,
        model_cache=MODELS,
        embeddings="off" if effort is Effort.WORDS else "local",
        embed_chunks=effort is Effort.CHUNKS,
    )
    with _open_server(settings) as shopfloor:
        if effort is not Effort.WORDS:
            use_embeddings(shopfloor, Local(MODELS, threads=os.cpu_count()))
        shopfloor.refresh_index()
        return [Asked(package, question, *_collect(shopfloor, question.ask)) for question in package.questions]


def _open_server(settings: Settings) -> Shopfloor:
    """Open a server whose data folder stays for the next run. An index of another version is made again."""
    try:
        return Shopfloor(settings)
    except StartupError:
        shutil.rmtree(settings.data)
        return Shopfloor(settings)


def _collect(shopfloor: Shopfloor, query: str) -> tuple[Candidates, Candidates]:
    """Return what a search ranks with embeddings and without, and without recency: when a package was unpacked says nothing."""
    search, caller = shopfloor.engine.search, open_external(shopfloor)
    embedding = search.embeddings.finish_query(query, None) if search.embeddings.model.ready() else None

    def find(embedding: QueryEmbedding | None) -> Candidates:
        found = caller.read(lambda uow: find_candidates(uow, caller.gateways.files, query, Scope(), embedding))
        return replace(found.candidates, signals=replace(found.candidates.signals, now=0))

    return find(embedding), find(None)


def find_files(asked: Asked, method: str, weights: Weights = WEIGHTS) -> list[str]:
    """Return the paths that one method finds, best first."""
    found = asked.candidates
    match method:
        case "words":
            return [hit.ref for hit, _ in found.by_words.hits]
        case "embeddings":
            return [hit.ref for hit, _ in found.by_embedding]
        case "words, rules":
            found = asked.by_words
    return [ranked.hit.ref for ranked in rank(asked.question.ask, found, weights)]


def judge(asked: Sequence[Asked], method: str, weights: Weights = WEIGHTS) -> list[Score]:
    """Answer questions by one method."""
    return [score_question(each.package, each.question, find_files(each, method, weights)) for each in asked]


def score_question(package: Package, question: Question, paths: Iterable[str]) -> Score:
    """Rank files by their best chunk and compare them with the right ones."""
    ranked = list(dict.fromkeys(paths))[:CUTOFF]
    places = [place for place, path in enumerate(ranked, 1) if path in question.files]
    gain = sum(1 / math.log2(place + 1) for place in places)
    best = sum(1 / math.log2(place + 1) for place in range(1, len(question.files) + 1))
    first = places[0] if places else None
    return Score(package, question, first, gain / best, len(places) / len(question.files))


# All packages


def measure_rows(packages: Sequence[Package], effort: Effort) -> Iterator[Row]:
    """Judge the packages, then yield the means of each method: by half, by kind and by language."""
    scores: dict[str, list[Score]] = {}
    for package in packages:
        try:
            asked = collect_package(package, effort)
        except FetchError as error:
            yield {"what": f"code search, {package.title}: not measured", "because": str(error)}
            continue
        for method in effort.methods:
            found = judge(asked, method)
            scores.setdefault(method, []).extend(found)
            yield summarize(f"{package.title}, {method}", found) | {"language": package.language, "half": package.half}
    for method, found in scores.items():
        yield from _summarize_method(method, found)


def measure_peer(packages: Sequence[Package]) -> Iterator[Row]:
    """Judge another program on the packages, then yield its means, as `measure_rows` does for ours."""
    scores: list[Score] = []
    for package in packages:
        try:
            found = peer.find_files(package.fetch(), [question.ask for question in package.questions])
        except (FetchError, peer.PeerFailed) as error:
            yield {"what": f"code search, {package.title}: not measured", "because": str(error)}
            continue
        mine = [score_question(package, *each) for each in zip(package.questions, found, strict=True)]
        scores += mine
        yield summarize(f"{package.title}, {peer.METHOD}", mine) | {"language": package.language, "half": package.half}
    yield from _summarize_method(peer.METHOD, scores)


def ablate(packages: Sequence[Package], effort: Effort) -> Iterator[Row]:
    """Yield what each rule of the ranking adds alone, and what is lost without it, as NDCG@10."""
    asked = [each for package in packages for each in collect_package(package, effort)]
    method = effort.methods[-1]

    def measure_with(weights: Weights) -> float:
        return float(summarize("", judge(asked, method, weights))["NDCG@10"])

    none = reduce(disable_rule, RULES, WEIGHTS)
    whole, bare = measure_with(WEIGHTS), measure_with(none)
    yield {"what": f"ablation, {method}", "all rules": whole, "no rule": bare}
    for rule in RULES:
        alone = reduce(disable_rule, [other for other in RULES if other != rule], WEIGHTS)
        yield {
            "what": f"ablation, {method}: {rule}",
            "alone": round(measure_with(alone) - bare, 3),
            "removed": round(measure_with(disable_rule(WEIGHTS, rule)) - whole, 3),
        }


RULES = (
    "siblings", "file_words", "similar_words", "similar_text", "lookup", "file_name", "folder", "file_name_share", "name", "definition", "assignment", "same_name", "mentioned",
    "low_priority", "reexport", "declarations", "test", "docs", "generated", "config",
)  # fmt: skip
"""The rules of the ranking besides words and embeddings; the last four are roles of files."""


def disable_rule(weights: Weights, rule: str) -> Weights:
    """Return the weights without one rule."""
    if rule in weights.roles:
        return replace(weights, roles=dict(weights.roles) | {rule: 1.0})
    if rule == "lookup":
        return replace(weights, lookup={})
    neutral: dict[str, Any] = {rule: 1.0 if rule in ("low_priority", "reexport", "declarations") else 0.0}
    return replace(weights, **neutral)


def _summarize_method(method: str, scores: Sequence[Score]) -> Iterator[Row]:
    title = f"code search, {method}"
    for half in (*HALVES, TRAINING):
        mine = [score for score in scores if score.package.half == half]
        if not mine:
            continue
        yield summarize(f"{title}, {half}", mine)
        for kind in TRAINING_KINDS if half == TRAINING else KINDS:
            yield summarize(f"{title}, {half}, {kind}", [score for score in mine if score.question.kind == kind])
        for language in sorted({score.package.language for score in mine}):
            yield summarize(f"{title}, {half}, {language}", [s for s in mine if s.package.language == language])


def summarize(what: str, scores: Sequence[Score]) -> Row:
    """Return the means: one figure per package first, so that each package counts the same."""
    packages: dict[str, list[Score]] = {}
    for score in scores:
        packages.setdefault(score.package.title, []).append(score)

    def mean(figure: Callable[[Score], float]) -> float:
        means = [sum(map(figure, each)) / len(each) for each in packages.values()]
        return round(sum(means) / max(1, len(means)), 3)

    return {
        "what": what,
        "questions": len(scores),
        "NDCG@10": mean(lambda score: score.ndcg),
        "MRR@10": mean(lambda score: 1 / score.place if score.place else 0.0),
        "recall@10": mean(lambda score: score.recall),
    }


def _print_places(packages: Sequence[Package], effort: Effort) -> None:
    """Print each question with the place of its first right file by each method."""
    for package in packages:
        asked = collect_package(package, effort)
        judged = {method: judge(asked, method) for method in effort.methods}
        print(f"{package.title} ({package.language}, {package.half}): {', '.join(judged)}")
        for scores in zip(*judged.values(), strict=True):
            places = "".join(f"{score.place or '-':>4}" for score in scores)
            print(f"{places}  {scores[0].question.kind:12} {scores[0].question.ask} → {scores[0].question.files[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.code_search", description="Judge code search on files.")
    parser.add_argument(
        "--effort",
        type=Effort,
        default=Effort.CHUNKS,
        help="words: no embeddings; files: two per file; chunks (default): one per chunk as well",
    )
    parser.add_argument("--half", choices=(*HALVES, TRAINING), help="packages of this half only, or those for training")
    parser.add_argument("--package", help="this package only")
    parser.add_argument("--places", action="store_true", help="print the place of the right file for each question")
    parser.add_argument(
        "--ablation", action="store_true", help="print the gain of each rule alone, and the loss without"
    )
    parser.add_argument("--peer", action="store_true", help="judge another program instead: words and rules of semble")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args()
    packages = [
        package
        for package in load_packages(TRAINING_QUESTIONS if options.half == TRAINING else QUESTIONS)
        if options.half in (None, package.half) and options.package in (None, package.title)
    ]
    if options.effort is not Effort.WORDS and not options.peer:
        embedding_model.install(MODELS)
    if options.places:
        try:
            _print_places(packages, options.effort)
        except FetchError as error:
            parser.exit(1, f"{error}\n")
        return
    if options.peer:
        rows = measure_peer(packages)
    else:
        rows = (ablate if options.ablation else measure_rows)(packages, options.effort)
    if options.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False), flush=True)
    else:
        print(*format_rows("code search", list(rows)))


if __name__ == "__main__":
    main()
