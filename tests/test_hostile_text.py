"""No text makes a pattern search it for minutes: the time grows with its length, not with the square of it.

Python holds the interpreter's lock while a pattern is searched, so one such text would stop the whole server.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest

from shopfloor.domain import globs
from shopfloor.domain.runs import find_proposed_command
from shopfloor.domain.tokenizer import expand_identifiers, extract_terms
from shopfloor.gateways.files import Files
from shopfloor.gateways.import_parser import Import
from shopfloor.gateways.import_resolver import ImportResolver
from shopfloor.search.overview import chunk_project_file
from shopfloor.transports.bodies import find_problem
from shopfloor.web.text import MAX_MARKDOWN_CHARACTERS, render_markdown

LENGTH = 500_000
MAX_CPU_SECONDS = 5.0
"""Most take a hundredth of it. Before, each of them took minutes to hours."""

MARKDOWN = {
    "spaces in a heading": "# a" + " " * LENGTH + "x",
    "hashes in a heading": "# a" + "#" * LENGTH + "x",
    "capitals": "A" * LENGTH,
    "beginnings of tags": "# " + "<" * LENGTH,
}
CODE = {
    "spaces": "a" + " " * LENGTH + "x",
    "modifiers": "static " * (LENGTH // 7),
    "comparisons": "a<" * (LENGTH // 2),
    "tags in a comment": "# " + "<" * LENGTH,
    "dashes": "-" * LENGTH + "\r",
}
# Lines around it keep the mean length of a line low, so that the file does not count as generated.
ROWS = "text\n" * 2_000


def measure_cpu(fn: Callable[[], object]) -> float:
    before = time.thread_time()
    fn()
    return time.thread_time() - before


@pytest.mark.parametrize("text", MARKDOWN.values(), ids=MARKDOWN)
def test_hostile_markdown_is_indexed_in_time(text):
    assert measure_cpu(lambda: chunk_project_file("a.md", f"{ROWS}{text}\n{ROWS}".encode())) < MAX_CPU_SECONDS


@pytest.mark.parametrize("name", ["a.nim", "a.py", "a.sh"])
@pytest.mark.parametrize("text", CODE.values(), ids=CODE)
def test_hostile_code_is_indexed_in_time(name, text):
    assert measure_cpu(lambda: chunk_project_file(name, f"{ROWS}{text}\n{ROWS}".encode())) < MAX_CPU_SECONDS


@pytest.mark.parametrize("part", ["A", "Aa", "a_", "_"])
def test_hostile_words_are_split_in_time(part):
    text = part * (LENGTH // len(part))
    assert measure_cpu(lambda: (expand_identifiers(text), extract_terms(text))) < MAX_CPU_SECONDS


@pytest.mark.parametrize(
    "start", [b'{"a": "', b"[" * 200 + b'"', b'{"a": [' + b"1," * 60_000 + b'"'], ids=["a text", "depth", "values"]
)
def test_text_without_an_end_in_a_body_is_passed_once(start):
    assert measure_cpu(lambda: find_problem(start + b'\\"' * (LENGTH // 2))) < MAX_CPU_SECONDS
    assert measure_cpu(lambda: find_problem(start + b'\\"' * (LENGTH // 2) + b"\\")) < MAX_CPU_SECONDS


def test_proposed_command_with_many_spaces_is_found_in_time():
    text = "acceptance command: make" + " " * LENGTH + "x"
    assert measure_cpu(lambda: find_proposed_command(text)) < MAX_CPU_SECONDS


@pytest.mark.parametrize(
    ("file", "start", "part", "end", "language"),
    [
        ("package.json", "", "/* ", "", "typescript"),
        ("package.json", '"', '\\"', "", "typescript"),
        ("tsconfig.json", "", ", ", "", "typescript"),
        ("pnpm-workspace.yaml", "packages:\n", " ", "", "typescript"),
        ("pnpm-workspace.yaml", "packages:\n- ", " ", "'b'c\n", "typescript"),
        ("go.work", "", "\n", "", "go"),
        ("go.mod", "", "=> ", "", "go"),
        ("Cargo.toml", "", "[", "", "rust"),
    ],
)
def test_hostile_manifest_is_read_in_time(tmp_path, file, start, part, end, language):
    (tmp_path / file).write_text(start + part * (LENGTH // len(part)) + end)
    resolver = ImportResolver(Files(tmp_path))
    imports = [Import(f"some/{number}") for number in range(20)] + [Import("a::" * 200_000)]
    assert measure_cpu(lambda: resolver.resolve(f"main.{language}", language, imports)) < MAX_CPU_SECONDS


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("tsconfig.json", json.dumps({"extends": ["./tsconfig.json"] * 100}), "typescript"),
        ("tsconfig.json", json.dumps({"compilerOptions": {"paths": {"*": ["x"] * 50_000}}}), "typescript"),
        (
            "tsconfig.json",
            json.dumps({"compilerOptions": {"paths": {f"*{number}": ["x"] for number in range(50_000)}}}),
            "typescript",
        ),
        ("package.json", json.dumps({"workspaces": ["p*"] * 100}), "typescript"),
        ("package.json", json.dumps({"workspaces": ["p*", *["!q*"] * 50_000]}), "typescript"),
        ("Cargo.toml", f"[workspace]\nmembers = {['p*'] * 100}", "rust"),
    ],
    ids=["extends", "places of an alias", "aliases", "members", "exclusions", "crates"],
)
def test_hostile_manifest_resolves_in_time(tmp_path, name, text, language):
    (tmp_path / name).write_text(text)
    for number in range(100):
        (tmp_path / f"p{number}").mkdir()
    resolver = ImportResolver(Files(tmp_path))
    imports = [Import(f"some{number}") for number in range(2_000)]
    assert measure_cpu(lambda: resolver.resolve(f"main.{language}", language, imports)) < MAX_CPU_SECONDS


@pytest.mark.parametrize(
    ("glob", "path"),
    [("*a" * 12 + "b", "a" * 200), ("**/*/**/*/**/*/**/*b", "a/" * 1_500 + "c"), ("?*" * 2_000 + "b", "a" * 250)],
    ids=["stars in a name", "folders between folders", "many stars"],
)
def test_hostile_glob_is_compared_in_time(glob, path):
    pattern = globs.to_regex(globs.check(glob), backtracks=True)
    assert measure_cpu(lambda: re.search(pattern, path)) < MAX_CPU_SECONDS


@pytest.mark.parametrize("part", ["a.b/", ".", "a.", "[", "`a", "> "])
def test_hostile_mail_is_shown_in_time(part):
    assert measure_cpu(lambda: render_markdown(part * (MAX_MARKDOWN_CHARACTERS // len(part)))) < MAX_CPU_SECONDS
