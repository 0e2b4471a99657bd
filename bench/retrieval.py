"""Queries with known results: docstring → function over three packages, commit subject → commit body."""

from __future__ import annotations

import ast
import gzip
import hashlib
import re
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "bench"
CHANGELOGS = Path("/usr/share/doc")
MIN_OWN_COMMITS = 400
PACKAGES = ("networkx==3.4.2", "werkzeug==3.1.3", "rich==14.0.0")

_COMMIT = re.compile(r"^commit [0-9a-f]{40}.*\n", re.MULTILINE)
_TRAILER = re.compile(r"[A-Z][\w-]+-(by|[Bb]y|[Ii]d|[Oo]f): |(Bug|Fixes|Closes|Part-of|Cc): |\(cherry picked from")


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the file and line of its result."""

    text: str
    path: str
    line: int
    test: bool
    """True for the half that was not used for tuning."""


def build_corpus(folder: Path) -> list[Question]:
    """Write the packages to the folder without the docstrings of functions, and return the docstrings as queries."""
    questions: list[Question] = []
    for package in PACKAGES:
        for path, source in _read_sources(package):
            stripped, pairs = _strip_docstrings(source)
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(stripped, encoding="utf-8")
            questions += [Question(text, path, line, _is_test_half(path, text)) for text, line in pairs]
    seen: dict[str, int] = {}
    for question in questions:
        seen[question.text] = seen.get(question.text, 0) + 1
    return [question for question in questions if seen[question.text] == 1]


def _read_sources(package: str) -> list[tuple[str, str]]:
    CACHE.mkdir(parents=True, exist_ok=True)
    name = package.partition("==")[0]
    wheel = next(iter(CACHE.glob(f"{name}-*.whl")), None)
    if wheel is None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), package]
        subprocess.run(command, check=True, capture_output=True)
        wheel = next(iter(CACHE.glob(f"{name}-*.whl")))
    with zipfile.ZipFile(wheel) as archive:
        return [
            (each, archive.read(each).decode())
            for each in sorted(archive.namelist())
            if each.endswith(".py") and "/tests/" not in each
        ]


def _strip_docstrings(source: str) -> tuple[str, list[tuple[str, int]]]:
    """Remove the docstrings of functions, and return the source with each first sentence and its function's line."""
    tree = ast.parse(source)
    lines: list[str | None] = list(source.split("\n"))
    pairs: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0]
        docstring = ast.get_docstring(node)
        if docstring is None or not isinstance(first, ast.Expr) or first.lineno == node.lineno:
            continue
        for number in range(first.lineno - 1, first.end_lineno or first.lineno):
            lines[number] = None
        if len(node.body) == 1:
            lines[first.lineno - 1] = " " * first.col_offset + "..."
        text = " ".join(docstring.split("\n\n")[0].split())
        if 4 <= len(text.split()) <= 60 and len(text) <= 400:
            pairs.append((text, node.lineno))
    place, at = {}, 0
    for number, line in enumerate(lines):
        at += line is not None
        place[number] = at
    kept = "\n".join(line for line in lines if line is not None)
    return kept, [(text, place[line - 1]) for text, line in pairs]


def _is_test_half(path: str, text: str) -> bool:
    return hashlib.sha256(f"{path}\n{text}".encode()).digest()[0] % 2 == 1


def list_commits(repository: Path, count: int) -> list[tuple[str, str]]:
    """Return subjects and bodies of commits from the test half, each subject once.

    They come from this repository's history when it is long enough, and else from the changelogs of system packages.
    """
    own = _read_history(repository)
    pairs = own if len(own) >= MIN_OWN_COMMITS else [*own, *_read_changelogs(CHANGELOGS)]
    known: dict[str, str] = {}
    for subject, body in pairs:
        known.setdefault(subject, body)
    chosen = [(subject, body) for subject, body in known.items() if _is_test_half(subject, body)]
    chosen.sort(key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    return chosen[:count]


def _read_history(repository: Path) -> list[tuple[str, str]]:
    command = ["git", "-C", str(repository), "log", "--max-count=20000", "--format=%s%x00%b%x01"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    entries = (entry.strip().partition("\0") for entry in done.stdout.split("\1"))
    return [(subject, body) for subject, _, rest in entries if _is_informative(subject, body := _strip_trailers(rest))]


def _read_changelogs(folder: Path) -> list[tuple[str, str]]:
    """Read the changelogs that are a history in git's format, sorted by name, each history once."""
    pairs, seen = [], set()
    for path in sorted(folder.glob("*/changelog.gz")):
        text = gzip.decompress(path.read_bytes()).decode(errors="replace")
        if not text.startswith("commit ") or (digest := hashlib.sha256(text.encode()).digest()) in seen:
            continue
        seen.add(digest)
        for entry in _COMMIT.split(text)[1:]:
            subject, _, body = textwrap.dedent(entry.partition("\n\n")[2]).strip().partition("\n")
            if _is_informative(subject, body := _strip_trailers(body)):
                pairs.append((subject, body))
    return pairs


def _strip_trailers(body: str) -> str:
    """Remove the trailers of a body."""
    return "\n".join(line for line in body.strip().split("\n") if not _TRAILER.match(line)).strip()


def _is_informative(subject: str, body: str) -> bool:
    return len(subject.split()) >= 3 and len(subject) <= 500 and len(body.split()) > 10
