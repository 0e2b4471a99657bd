"""What the project knows: find it, add to it, see it at a glance."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from shopfloor.domain.events import DiscoveryRecorded
from shopfloor.domain.index import Hit, Scope, Written
from shopfloor.domain.knowledge import Discovery
from shopfloor.domain.places import module_of
from shopfloor.domain.ranking import Circumstances, Ranked, rank
from shopfloor.domain.words import symbol_in, terms_of
from shopfloor.errors import InvalidInput, NothingIndexed, Refused
from shopfloor.gateways.embeddings import Embeddings, Matrix, Off, begin
from shopfloor.gateways.files import Files
from shopfloor.gateways.tree import Tree
from shopfloor.gateways.vectors import Vector, Vectors, unpacked
from shopfloor.repositories.work import Outside, Work
from shopfloor.usecases import index
from shopfloor.usecases.files import decoded
from shopfloor.usecases.index import Freshness, digest_of_data
from shopfloor.usecases.sources import SOURCES

CANDIDATES = 100
"""Passages that each way of searching brings into the ranking. On the tuning half of docstring → function, MRR@10 is
0.635 with 100, with 140 and with 200 of them, and 0.634 with 60."""

SHOWN = 1_500
"""Characters of one result."""

_FARTHEST = 12_800
_REFRESH_SECONDS = 0.3
_FIRST_SECONDS = 1.5
_WRITTEN_SECONDS = 0.5
_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Result:
    """Something that was found, as it is now."""

    id: str
    source: str
    type: str
    content: str
    module: str | None
    session: str | None
    date: int
    score: float
    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    superseded_by: str | None = None
    changed_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search came back with, and how fresh the index was."""

    results: list[Result]
    total: int
    milliseconds: int
    freshness: Freshness
    by_meaning: bool
    embedded: tuple[int, int] | None
    """Passages with a vector, and all of them; None when search goes by words."""
    by_choice: bool
    """Whether somebody wants it to go by words."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query as a model understands it, and what it is compared with."""

    model: str
    vectors: Vectors
    vector: Vector
    share: float
    """Of the passages, how many it can be compared with."""


@dataclass(frozen=True, slots=True)
class _Gathered:
    by_words: list[Hit]
    by_meaning: list[Hit]
    defining: list[Hit]
    circumstances: Circumstances
    outdated: dict[str, tuple[str | None, tuple[str, ...]]]


def search(outside: Outside, query: str, type: str, module: str | None, limit: int) -> Searched:
    """What is nearest to the query, by words and by meaning."""
    began = time.monotonic()
    asking = _begin(outside, query)
    freshness = bring_up_to_date(outside)
    if freshness.complete and outside.read(lambda work: work.index.empty()):
        raise NothingIndexed(hint="Put files into the project, or write something down with record_discovery")
    asked, embedded = _asked(outside, query, asking)
    _ask_for_the_rest(outside.the(Tree), freshness, embedded)
    gathered = outside.read(lambda work: _gather(work, outside, query, _scope(type, module), asked))
    ranked = rank(query, gathered.by_words, gathered.by_meaning, gathered.defining, gathered.circumstances)
    return Searched(
        results=_shown(outside, ranked, limit, gathered.outdated),
        total=len(ranked),
        milliseconds=round((time.monotonic() - began) * 1000),
        freshness=freshness,
        by_meaning=embedded is not None and embedded[0] > 0,
        embedded=embedded,
        by_choice=outside.the(Embeddings).name == Off.name,  # type: ignore[type-abstract]
    )


def bring_up_to_date(outside: Outside) -> Freshness:
    """How fresh the index is, after what little had changed was put into it."""
    tree = outside.the(Tree)
    if tree.large:
        changed = len(tree.pending) or int(tree.stirred or not tree.total)  # no total: it is still being looked at
        return Freshness(tree.total, changed, index.catch_up(outside, _WRITTEN_SECONDS))
    seconds = _REFRESH_SECONDS if tree.known else _FIRST_SECONDS
    freshness = index.refresh(
        outside,
        seconds,
        patience=_PATIENCE,
        progress=_telling(outside),
    )
    return replace(freshness, written=index.catch_up(outside, _WRITTEN_SECONDS))


def _telling(outside: Outside) -> index.Progress:
    """What tells the caller how many files are indexed: more each time, as progress has to be."""
    told = 0

    def tell(done: int, total: int) -> None:
        nonlocal told
        if done > told:
            told = done
            outside.progress(done, total, "Indexing files")

    return tell


def _ask_for_the_rest(tree: Tree, freshness: Freshness, embedded: tuple[int, int] | None) -> None:
    """Have the background do what is left to do, unless it is at it."""
    if not tree.working and (not freshness.complete or (embedded is not None and embedded[0] < embedded[1])):
        tree.wanted.set()


def _scope(type: str, module: str | None) -> Scope:
    if type == "all":
        return Scope(module=module)
    return Scope(("discovery", "decision") if type == "decision" else ("discovery",), type, module)


def _begin(outside: Outside, query: str) -> Future[Matrix] | None:
    """The query on its way to a vector, while the index is brought up to date; nothing where there is none to be had."""
    embeddings = outside.the(Embeddings)  # type: ignore[type-abstract]
    return begin(embeddings, [query]) if embeddings.ready() and len(outside.the(Vectors)) else None


def _asked(outside: Outside, query: str, asking: Future[Matrix] | None) -> tuple[_Asked | None, tuple[int, int] | None]:
    """The query as a vector, and how many passages have one; nothing while nobody makes vectors."""
    embeddings = outside.the(Embeddings)  # type: ignore[type-abstract]
    if not embeddings.ready():
        return None, None
    vectors = index.load_vectors(outside)
    embedded = index.embedded(outside)
    if len(vectors) == 0:
        return None, embedded
    rows = embeddings.embed([query]) if asking is None else asking.result()
    index.same_length(rows.shape[1], vectors.length)
    made, passages = embedded
    return _Asked(embeddings.name, vectors, rows[0], made / max(1, passages)), embedded


def _gather(work: Work, outside: Outside, query: str, scope: Scope, asked: _Asked | None) -> _Gathered:
    """Everything that the ranking looks at, from one snapshot."""
    by_words = work.index.by_words(terms_of(query), scope, CANDIDATES)
    by_meaning = [] if asked is None else _by_meaning(work, scope, asked)
    symbol = symbol_in(query)
    defining = work.index.by_name(symbol.replace("::", ".").replace("#", "."), scope, 10) if symbol else []
    hits = {hit.id: hit for hit in (*by_words, *by_meaning, *defining)}.values()
    found = [int(hit.ref) for hit in hits if hit.source == "discovery"]
    outdated = {str(each.id): state for each in work.discoveries.some(found) if (state := _state(work, outside, each))}
    paths = list({hit.ref for hit in hits if hit.source == "code"})
    share = 1.0 if asked is None else asked.share
    circumstances = Circumstances(work.now, work.accesses.of(paths), frozenset(outdated), share)
    return _Gathered(by_words, by_meaning, defining, circumstances, outdated)


def _by_meaning(work: Work, scope: Scope, asked: _Asked) -> list[Hit]:
    """The passages nearest to the query. What lies nearer and may not be found takes nobody's place."""
    among = work.index.digests_in(scope) if scope.narrow else None
    count = CANDIDATES
    while True:
        near = asked.vectors.nearest(asked.vector, count, among)
        if asked.vectors.by_sign:
            near = _rescored(work, asked, near)
        place = {digest: number for number, (digest, _) in enumerate(near)}
        hits = sorted(work.index.by_digest(list(place), scope), key=lambda hit: (place[hit.digest], hit.id))
        if len(hits) >= CANDIDATES or len(near) < count or count >= _FARTHEST:
            return hits[:CANDIDATES]
        count *= 4


def _rescored(work: Work, asked: _Asked, near: Sequence[tuple[bytes, float]]) -> list[tuple[bytes, float]]:
    """The same by whole vectors, where they were compared by their signs."""
    whole = work.index.vectors_of(asked.model, [digest for digest, _ in near])
    exact = [(digest, float(unpacked(whole[digest]) @ asked.vector)) for digest, _ in near if digest in whole]
    return sorted(exact, key=lambda each: -each[1])


def gathered(outside: Outside, query: str, type: str, module: str | None) -> _Gathered:
    """What a search looks at, for whoever wants to know why it found what it found."""
    asked, _ = _asked(outside, query, None)
    return outside.read(lambda work: _gather(work, outside, query, _scope(type, module), asked))


def _state(work: Work, outside: Outside, discovery: Discovery) -> tuple[str | None, tuple[str, ...]] | None:
    """Why a discovery may no longer hold: what superseded it, and its files that changed since."""
    changed = changed_files(work, outside.the(Files), discovery)
    if discovery.superseded_by is None and not changed:
        return None
    by = None if discovery.superseded_by is None else f"discovery-{discovery.superseded_by}"
    return by, changed


def changed_files(work: Work, files: Files, discovery: Discovery) -> tuple[str, ...]:
    """The files of a discovery that are no longer as they were."""
    if not discovery.files:
        return ()
    now = work.index.digests(list(discovery.files))
    return tuple(path for path, digest in discovery.files.items() if (now.get(path) or _digest(files, path)) != digest)


def _digest(files: Files, path: str) -> bytes | None:
    try:
        return digest_of_data(files.read(path).data)
    except Refused:
        return None


def _shown(
    outside: Outside,
    ranked: Sequence[Ranked],
    limit: int,
    outdated: dict[str, tuple[str | None, tuple[str, ...]]],
) -> list[Result]:
    """The first results that are still there, with their content as it is now; a task once, however much fits of it."""
    results: list[Result] = []
    shown: set[str] = set()
    for start in range(0, len(ranked), limit * 2):
        some = ranked[start : start + limit * 2]
        written = _written(outside, [each.hit for each in some])
        for each in some:
            result = _code(outside, each) if each.hit.source == "code" else _note(each, written, outdated)
            if result is not None and result.id not in shown:
                shown.add(result.id)
                results.append(result)
            if len(results) == limit:
                return results
    return results


def _written(outside: Outside, hits: Sequence[Hit]) -> dict[tuple[str, str], Written]:
    def look(work: Work) -> dict[tuple[str, str], Written]:
        found: dict[tuple[str, str], Written] = {}
        for source in SOURCES:
            refs = [hit.ref for hit in hits if hit.source == source.name]
            if refs:
                found |= {(source.name, each.ref): each for each in source.shown(work, refs)}
        return found

    return outside.read(look) if any(hit.source != "code" for hit in hits) else {}


def _code(outside: Outside, ranked: Ranked) -> Result | None:
    hit = ranked.hit
    try:
        text, _ = decoded(outside.the(Files).read(hit.ref).data, hit.ref)
    except Refused:
        return None
    lines = text.split("\n")[hit.start_line - 1 : hit.end_line]
    return Result(
        id=f"{hit.ref}#L{hit.start_line}-L{hit.end_line}",
        source="code",
        type=hit.type,
        content=_cut("\n".join(lines)),
        module=hit.module,
        session=None,
        date=hit.changed_at,
        score=_rounded(ranked.score),
        path=hit.ref,
        start_line=hit.start_line,
        end_line=hit.end_line,
    )


def _note(
    ranked: Ranked,
    written: dict[tuple[str, str], Written],
    outdated: dict[str, tuple[str | None, tuple[str, ...]]],
) -> Result | None:
    hit = ranked.hit
    found = written.get((hit.source, hit.ref))
    if found is None:
        return None
    superseded_by, changed = outdated.get(hit.ref, (None, ())) if hit.source == "discovery" else (None, ())
    content = f"{found.title}\n\n{found.text}" if found.title and found.text else found.title or found.text
    return Result(
        id=found.id,
        source=found.source,
        type=found.type,
        content=_cut(content),
        module=found.module,
        session=found.session,
        date=found.created_at,
        score=_rounded(ranked.score),
        superseded_by=superseded_by,
        changed_files=changed,
    )


def _cut(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    head, newline, _ = text[:SHOWN].rpartition("\n")
    return (head if newline else text[:SHOWN]) + "\n…"


def _rounded(score: float) -> float:
    """A score without an upper end, between 0 and 1."""
    return round(1.0 - math.exp(-2.5 * score), 3)


def record(
    outside: Outside, type: str, content: str, module: str | None, supersedes: str | None, files: Sequence[str]
) -> tuple[Discovery, bool]:
    """The discovery, and whether it is new: what was said before is not said again, but holds for its files as they are."""
    if not content.strip():
        raise InvalidInput("A discovery needs some words", field="content", rule="blank")
    states = {path: digest_of_data(outside.the(Files).read(path).data) for path in files}
    module = module or (module_of(files[0]) if files else None)
    digest = hashlib.sha256("\0".join([type, module or "", content]).encode()).digest()
    old = None if supersedes is None else _number(supersedes, "supersedes")

    def write(work: Work) -> tuple[Discovery, bool]:
        if old is not None:
            work.discoveries.get(old)
        number, new = work.discoveries.add(
            type=type,
            content=content,
            module=module,
            author=work.actor.key,
            session=None,
            supersedes=old,
            digest=digest,
            files=states,
            now=work.now,
        )
        if old is not None and old != number:
            work.discoveries.supersede(old, number)
        if not new and states:
            work.discoveries.confirm(number, states)
        if new:
            work.tell(DiscoveryRecorded(discovery=number, by=work.actor.key))
        return work.discoveries.get(number), new

    return outside.write(write)


def show(outside: Outside, id: str) -> tuple[Discovery, tuple[str, ...]]:
    """One discovery, and its files that changed since."""
    number = _number(id)

    def look(work: Work) -> tuple[Discovery, tuple[str, ...]]:
        discovery = work.discoveries.get(number)
        return discovery, changed_files(work, outside.the(Files), discovery)

    return outside.read(look)


def _number(id: str, field: str = "id") -> int:
    digits = id.removeprefix("discovery-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise InvalidInput(
            f"'{id[:64]}' is not a discovery; they are called discovery-1 and so on", field=field, rule="id"
        )
    return int(digits)


@dataclass(frozen=True, slots=True)
class Overview:
    """The project at a glance."""

    freshness: Freshness
    languages: list[tuple[str, int]]
    modules: list[tuple[str, int]]
    roles: list[tuple[str, int]]
    most_used: list[tuple[str, int, int]]
    rules: list[Discovery]


def overview(outside: Outside) -> Overview:
    """Languages, modules, the files that are read most, and the rules that hold."""
    freshness = bring_up_to_date(outside)

    def look(work: Work) -> Overview:
        return Overview(
            freshness=freshness,
            languages=work.index.count_by("language"),
            modules=work.index.count_by("module"),
            roles=work.index.count_by("role"),
            most_used=work.accesses.most_used(10),
            rules=work.discoveries.newest("rule", 20),
        )

    return outside.read(look)
