"""Results: what a search returns, with the content as it is now."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from shopfloor.domain.chunks import OVERVIEW
from shopfloor.domain.file_kinds import detect_language
from shopfloor.domain.file_text import decode_text
from shopfloor.domain.index import Hit, SearchDocument
from shopfloor.errors import ClientError
from shopfloor.gateways.files import Files
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.search.caller import Caller
from shopfloor.search.candidates import SearchCandidates
from shopfloor.search.chunker import chunk_file
from shopfloor.search.documents import SOURCES, discovery_document
from shopfloor.search.evidence import Evidence
from shopfloor.search.outdated import Outdated
from shopfloor.search.outline import outline_file
from shopfloor.search.ranking import WEIGHTS, Ranked

MAX_CONTENT_CHARS = 1_500

MIN_SCORE = 0.1
"""Results with a lower score are left out: they contain hardly a word of the query, and their meaning is not near."""

FOLDED_SOURCES = ("code", "decision")
"""Sources whose results with the same text are folded into one. Each mail, task or discovery stays a result."""

PARSED_FILES = 32
"""Number of parsed files to cache, by content, for classes and for outlines. Parsing took a tenth to a quarter of the
CPU of a search for each."""

MARK_CHARS = 5
"""Length of a mark. With 30 bits, two of 500 results share a mark once in 8,000 searches."""

MAX_PLACES = 5
MAX_TITLE_CHARS = 100

Documents = dict[tuple[str, str], SearchDocument]


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a search."""

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
    title: str = ""
    symbol: str | None = None
    """The function, class or section that the content is in."""
    why: tuple[str, ...] = ()
    """Why it matched: definition, words, meaning."""
    also_at: tuple[str, ...] = ()
    """Other places with the same text."""


def mark_result(result: Result) -> str:
    """Return the mark that stands for a result in a cursor."""
    return base64.urlsafe_b64encode(hashlib.sha256(result.id.encode(errors="replace")).digest())[:MARK_CHARS].decode()


def load_results(
    caller: Caller,
    files: Files,
    query: str,
    ranked: Sequence[Ranked],
    found: SearchCandidates,
    limit: int,
    is_shown: Callable[[Result], bool] | None = None,
) -> list[tuple[Ranked, Result]]:
    """Load the best results that still exist and that the caller may see, each text once. Leave out weak matches.

    With `is_shown`, also leave out what the caller's session has seen.
    """
    evidence = Evidence(query, found.candidates)
    # Visibility is part of every query. It is checked again here, because permissions may have changed since indexing.
    results: dict[str, tuple[Ranked, Result]] = {}
    texts: dict[tuple[str, bytes | str], str] = {}
    lowest = 1.0
    for start in range(0, len(ranked), limit * 2):
        page = ranked[start : start + limit * 2]
        documents = _load_documents(caller, page, found)
        for each in page:
            hit = each.hit
            if hit.source == "code":
                result = _code_result(files, hit, evidence)
            else:
                outdated = found.outdated.get(hit.ref) if hit.source == "discovery" else None
                result = _document_result(documents.get((hit.source, hit.ref)), outdated)
            if result is None or result.id in results or (is_shown is not None and is_shown(result)):
                continue
            key = hit.source, hit.digest if hit.digest and hit.source in FOLDED_SOURCES else result.id
            if key in texts:
                kept, shown = results[texts[key]]
                results[texts[key]] = kept, replace(shown, also_at=(*shown.also_at, result.id)[:MAX_PLACES])
                continue
            outdated_factor = WEIGHTS.outdated if result.superseded_by or result.changed_files else 1.0
            score = min(lowest, round(evidence.measure(hit, result.content) * outdated_factor, 3))
            if score < MIN_SCORE:
                continue
            lowest = score
            texts[key] = result.id
            results[result.id] = each, replace(result, score=score, why=evidence.explain(hit))
            if len(results) == limit:
                return list(results.values())
    return list(results.values())


def _load_documents(caller: Caller, page: Sequence[Ranked], found: SearchCandidates) -> Documents:
    """Load the documents of a page that the caller may see. Discoveries are already loaded."""
    documents: Documents = {}
    refs: dict[str, list[str]] = {}
    for hit, _ in page:
        if hit.source == "discovery" and hit.ref in found.discoveries:
            documents[hit.source, hit.ref] = discovery_document(found.discoveries[hit.ref])
        elif hit.source not in ("code", "discovery"):
            refs.setdefault(hit.source, []).append(hit.ref)

    def load(uow: UnitOfWork) -> Documents:
        return {
            (source, document.ref): document
            for source, wanted in refs.items()
            for document in SOURCES[source].load_for_caller(uow, wanted)
        }

    return documents | caller.read(load) if refs else documents


def _code_result(files: Files, hit: Hit, evidence: Evidence) -> Result | None:
    try:
        data = files.read(hit.ref).data
        text, _ = decode_text(data, hit.ref)
    except ClientError:
        return None
    content = "\n".join(text.split("\n")[hit.start_line - 1 : hit.end_line])
    # The outline contains nothing that is not in the file, so a file that does not match is not parsed. A query that
    # matches nothing well looks at every candidate, and used to parse 60 files for nothing.
    if hit.kind in ("class", OVERVIEW) and evidence.measure(hit, text) < MIN_SCORE:
        return None
    if hit.kind == "class":
        # The head of a class says little without its members.
        content = _describe_classes(detect_language(hit.ref), data).get((hit.name, hit.start_line), content)
    elif hit.kind == OVERVIEW:
        content = _outline(hit.ref, data) or content
    return Result(
        id=f"{hit.ref}#L{hit.start_line}-L{hit.end_line}",
        source="code",
        type=hit.type,
        content=_shorten(content),
        module=hit.module,
        session=None,
        date=hit.changed_at,
        score=0.0,
        title=f"{hit.kind} {hit.name}" if hit.name else hit.ref,
        symbol=hit.name or None,
        path=hit.ref,
        start_line=hit.start_line,
        end_line=hit.end_line,
    )


_outline = lru_cache(maxsize=PARSED_FILES)(outline_file)


@lru_cache(maxsize=PARSED_FILES)
def _describe_classes(language: str, data: bytes) -> dict[tuple[str, int], str]:
    """Return the heads of the classes in a file with the signatures of their members, by name and first line."""
    return {(chunk.name, chunk.start_line): chunk.body for chunk in chunk_file(language, data) if chunk.kind == "class"}


def _document_result(document: SearchDocument | None, outdated: Outdated | None) -> Result | None:
    if document is None:
        return None
    parts = [part for part in (document.title, document.text) if part]
    return Result(
        id=document.id,
        source=document.source,
        type=document.type,
        content=_shorten("\n\n".join(parts)),
        module=document.module,
        session=document.session,
        date=document.created_at,
        score=0.0,
        title=document.title or document.text.partition("\n")[0][:MAX_TITLE_CHARS],
        superseded_by=outdated.superseded_by if outdated else None,
        changed_files=outdated.changed_files if outdated else (),
    )


def _shorten(text: str) -> str:
    """Cut a long text after a whole line."""
    if len(text) <= MAX_CONTENT_CHARS:
        return text
    head, newline, _ = text[:MAX_CONTENT_CHARS].rpartition("\n")
    return (head if newline else text[:MAX_CONTENT_CHARS]) + "\n…"
