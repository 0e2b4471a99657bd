"""Questions with known answers: docstring → function over three packages, commit subject → commit body."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "bench"
PACKAGES = ("networkx==3.4.2", "werkzeug==3.1.3", "rich==14.0.0")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the file and line in which the answer lies."""

    text: str
    path: str
    line: int
    test: bool
    """Whether it belongs to the half that nothing was tuned on."""


def corpus(folder: Path) -> list[Question]:
    """The packages, written into the folder without the docstrings of their functions; the docstrings as questions."""
    questions: list[Question] = []
    for package in PACKAGES:
        for path, source in _sources(package):
            stripped, found = _strip(source)
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(stripped, encoding="utf-8")
            questions += [Question(text, path, line, _half(path, text)) for text, line in found]
    seen: dict[str, int] = {}
    for question in questions:
        seen[question.text] = seen.get(question.text, 0) + 1
    return [question for question in questions if seen[question.text] == 1]


def _sources(package: str) -> list[tuple[str, str]]:
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


def _strip(source: str) -> tuple[str, list[tuple[str, int]]]:
    """The source without the docstrings of functions, and each one's first sentence with its function's line."""
    tree = ast.parse(source)
    lines: list[str | None] = list(source.split("\n"))
    found: list[tuple[str, int]] = []
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
            found.append((text, node.lineno))
    place, at = {}, 0
    for number, line in enumerate(lines):
        at += line is not None
        place[number] = at
    kept = "\n".join(line for line in lines if line is not None)
    return kept, [(text, place[line - 1]) for text, line in found]


def _half(path: str, text: str) -> bool:
    return hashlib.sha256(f"{path}\n{text}".encode()).digest()[0] % 2 == 1


def commits(repository: Path, most: int = 400) -> list[tuple[str, str]]:
    """Subjects and bodies of commits that have both, newest first."""
    command = ["git", "-C", str(repository), "log", f"--max-count={most * 4}", "--format=%s%x00%b%x01"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    pairs = [tuple(entry.strip().split("\0", 1)) for entry in text.split("\1") if "\0" in entry]
    return [(subject, body.strip()) for subject, body in pairs if len(body.split()) > 10][:most]
