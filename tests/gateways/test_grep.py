"""grep: hostile patterns, limits, and the matches that are shown."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from shopfloor.errors import BadPattern, InvalidInput
from shopfloor.gateways import grep as gateway
from shopfloor.gateways.files import Files
from shopfloor.gateways.grep import Grep
from tests.toolsets.context.support import make_project

BUSY_SECONDS = 30.0
"""Limit where the contract says 3 seconds, for a very busy machine."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("one\ntwo\nthree needle\nfour\nfive\nsix\n")
    (root / "src" / "b.ts").write_text("needle at the start\n")
    (root / "notes.md").write_text("a needle\n")
    return root


@pytest.fixture
def grep(tree: Path) -> Grep:
    return Grep(Files(tree))


@pytest.mark.parametrize(
    "pattern",
    ["--pre=./marker.sh", "--files", "-e", "--", "-f/etc/passwd", "--hostname-bin=./marker.sh", "-z", "--help"],
)
def test_a_pattern_that_looks_like_an_option_is_text(tree: Path, grep: Grep, pattern: str):
    marker = tree / "marker.sh"
    marker.write_text(f"#!/bin/sh\ntouch {tree}/ran\n")
    marker.chmod(0o755)
    (tree / "text.txt").write_text(f"before {pattern} after\n")
    assert "text.txt" in [match.file for match in grep.search(pattern).matches]
    assert not (tree / "ran").exists()


def test_ripgrep_config_file_is_ignored(tree: Path, grep: Grep, monkeypatch: pytest.MonkeyPatch):
    (tree / "rc").write_text("--max-count=0\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree / "rc"))
    assert grep.search("needle").total == 3


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x", "a{1,100}{1,100}$", "(x+x+)+y"])
def test_catastrophic_pattern_ends_in_time(tree: Path, grep: Grep, pattern: str):
    (tree / "a.txt").write_text("a" * 50_000 + "!\n")
    began = time.monotonic()
    with suppress(BadPattern):
        grep.search(pattern)
    assert time.monotonic() - began < BUSY_SECONDS


@pytest.mark.parametrize(
    "pattern", ["[invalid(", "(", "a{2,1}", "*", "(?<=x)y", "\\p{Nope}", "(a{1000}){1000}{1000}", "a\nb"]
)
def test_invalid_pattern_is_rejected_with_a_reason(grep: Grep, pattern: str):
    with pytest.raises(BadPattern) as error:
        grep.search(pattern)
    assert error.value.facts["pattern"] == pattern
    assert error.value.facts["details"]


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("(", "Escape"),
        ("(?=x)", "lines around"),
        ("(a)\\1", "lines around"),
        ("a\\nb", "one line"),
        ("a\\r", "one line"),
    ],
)
def test_rejected_pattern_has_a_fitting_hint(grep: Grep, pattern: str, advice: str):
    with pytest.raises(BadPattern, match="Invalid regex pattern") as error:
        grep.search(pattern)
    assert advice in str(error.value.hint)


def test_line_with_very_many_matches_is_counted_but_not_shown(tree: Path, grep: Grep):
    """Match a line for which the output of ripgrep is many times longer than the line."""
    (tree / "minified.js").write_text("z" * 200_000 + "\n")
    (tree / "plain.js").write_text("zebra\n")
    found = grep.search("z")
    assert ([match.file for match in found.matches], found.total, found.truncated) == (["plain.js"], 2, True)


def test_too_many_matches_are_truncated(tree: Path, grep: Grep, monkeypatch: pytest.MonkeyPatch):
    (tree / "flood.txt").write_text("x\n" * 400_000)
    monkeypatch.setattr(gateway, "TIMEOUT_SECONDS", BUSY_SECONDS)  # so that only the number of matches ends it
    began = time.monotonic()
    found = grep.search("x", limit=5)
    assert time.monotonic() - began < BUSY_SECONDS
    assert (found.truncated, len(found.matches)) == (True, 5)
    assert found.total <= gateway.MAX_MATCHES


def test_search_stops_at_the_timeout(tree: Path, monkeypatch: pytest.MonkeyPatch):
    slow = tree / "rg"
    slow.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(gateway, "TIMEOUT_SECONDS", 0.3)
    began = time.monotonic()
    found = Grep(Files(tree), str(slow)).search("x")
    assert (found.truncated, found.total) == (True, 0)
    assert time.monotonic() - began < BUSY_SECONDS


def test_match_has_line_column_and_context(grep: Grep):
    match = next(match for match in grep.search("needle").matches if match.file == "src/a.py")
    assert (match.line, match.column, match.text) == (3, 7, "three needle")
    assert (match.before, match.after) == (("one", "two"), ("four", "five"))
    first = next(match for match in grep.search("needle").matches if match.file == "src/b.ts")
    assert (first.line, first.column, first.before, first.after) == (1, 1, (), ())


def test_columns_count_characters_with_any_line_ending(tree: Path, grep: Grep):
    (tree / "wide.txt").write_bytes("äöü needle\r\nnext\r\n".encode())
    (tree / "odd.txt").write_bytes(b"\xff\xfe bad needle\nnext")
    found = {match.file: match for match in grep.search("needle$").matches}
    assert (found["wide.txt"].column, found["wide.txt"].text, found["wide.txt"].after) == (5, "äöü needle", ("next",))
    assert (found["odd.txt"].text, found["odd.txt"].after) == ("\ufffd\ufffd bad needle", ("next",))


def test_long_lines_are_cut_around_the_match(tree: Path, grep: Grep):
    (tree / "long.txt").write_text("x" * 5000 + "needle" + "y" * 5000 + "\n")
    match = next(match for match in grep.search("needle").matches if match.file == "long.txt")
    assert "needle" in match.text
    assert (len(match.text), match.column) == (gateway.MAX_LINE_CHARACTERS + 2, 5001)


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", {"src/a.py"}), ("**/*.ts", {"src/b.ts"}), ("src/*", {"src/a.py", "src/b.ts"}), ("src", {"src/a.py", "src/b.ts"}),
        ("*.{py,md}", {"src/a.py", "notes.md"}), ("!*.py", {"src/b.ts", "notes.md"}), ("src/**", {"src/a.py", "src/b.ts"}),
        ("/notes.md", {"notes.md"}), ("?otes.md", {"notes.md"}), ("[mn]otes.md", {"notes.md"}), ("nothing/*", set()),
        ("a*a*a*a*a*a*a*a*a*a*a*a*b", set()), ("src/a.py", {"src/a.py"}), ("**/src/**", {"src/a.py", "src/b.ts"}),
    ],
)  # fmt: skip
def test_glob_selects_files(grep: Grep, glob: str, expected: set[str]):
    assert {match.file for match in grep.search("needle", glob=glob).matches} == expected


@pytest.mark.parametrize("glob", ["../*", "src/../*", "{a", "[a", "a\nb"])
def test_invalid_glob_is_rejected(grep: Grep, glob: str):
    with pytest.raises(InvalidInput):
        grep.search("needle", glob=glob)


def test_glob_does_not_override_gitignore(tree: Path, grep: Grep):
    (tree / ".gitignore").write_text("*.log\nout/\n!keep.js\n")
    (tree / "out").mkdir()
    for name in ("x.log", "out/x.ts", "keep.js"):
        (tree / name).write_text("needle\n")
    assert grep.search("needle", glob="*.log").total == 0
    assert {match.file for match in grep.search("needle", glob="**/*.ts").matches} == {"src/b.ts"}


@pytest.mark.parametrize("glob", [".env*", "node_modules/**", "**/.env", "dist", "!*.md"])
def test_glob_does_not_reveal_forbidden_files(tree: Path, grep: Grep, glob: str):
    make_project(
        tree, {".env": "needle\n", "node_modules/a.js": "needle\n", "dist/b.js": "needle\n", ".git/c": "needle\n"}
    )
    plain = grep.search("needle", glob=glob)
    for name in (".env", "node_modules/a.js", "dist/b.js", ".git/c"):
        (tree / name).unlink()
    assert grep.search("needle", glob=glob).files_searched == plain.files_searched


EXAMPLES = [".env.example", ".env.sample", ".env.template"]


@pytest.mark.parametrize(
    "glob", ["*.py", "src/*.py", "src/**/*.py", "a.py", "!.env.*", "!*.{md,ts,example,sample,template}"]
)
def test_glob_excludes_env_examples_that_it_does_not_match(tree: Path, grep: Grep, glob: str):
    plain = grep.search("needle", glob=glob)
    assert plain.files_searched > 0
    make_project(tree, {f"{folder}{name}": "needle\n" for folder in ("", "src/", "deep/er/") for name in EXAMPLES})
    again = grep.search("needle", glob=glob)
    assert (again.files_searched, again.total) == (plain.files_searched, plain.total)


@pytest.mark.parametrize("glob", [None, "*", ".env*", "**/.env.*", "src", "src/**", "!*.py"])
def test_env_examples_are_searched_and_env_files_are_not(tree: Path, grep: Grep, glob: str | None):
    secrets = [".env", ".env.", ".env.e", ".env.local", ".env.examples", ".env.example.bak", ".env.samples", ".env.s"]
    make_project(tree, {f"src/{name}": "needle in src\n" for name in (*EXAMPLES, *secrets)})
    assert {match.file for match in grep.search("needle in src", glob=glob).matches} == {
        f"src/{name}" for name in EXAMPLES
    }
    for name in secrets:
        (tree / "src" / name).unlink()
    searched = grep.search("needle", glob=glob).files_searched
    make_project(tree, {f"src/{name}": "needle in src\n" for name in secrets})
    assert grep.search("needle", glob=glob).files_searched == searched


def test_links_are_not_searched(tree: Path, grep: Grep):
    (tree.parent / "outside.txt").write_text("needle outside\n")
    (tree / "link.txt").symlink_to(tree.parent / "outside.txt")
    (tree / "folder").symlink_to(tree.parent)
    assert grep.search("needle outside").total == 0


def test_matches_of_ripgrep_are_read_again_through_the_path_check(tree: Path, grep: Grep):
    """Swap a file for a link after ripgrep has read it: what it read is not shown."""
    (tree.parent / "secret.txt").write_text("needle secret\n")
    event = {"data": {"lines": {"text": "needle secret\n"}, "submatches": [], "line_number": 1, "absolute_offset": 0}}
    hits = gateway._Hits(1, [json.dumps(event).encode()])
    (tree / "swapped.txt").symlink_to(tree.parent / "secret.txt")
    assert grep._read_matches("swapped.txt", hits) == []
    (tree / "swapped.txt").unlink()
    (tree / "swapped.txt").write_text("harmless\n")
    assert grep._read_matches("swapped.txt", hits) == []
    (tree / "swapped.txt").write_text("needle secret\n")
    assert [match.text for match in grep._read_matches("swapped.txt", hits)] == ["needle secret"]


@pytest.mark.long
def test_100000_files_are_searched_in_time(tree: Path, grep: Grep):
    for folder in range(100):
        place = tree / f"d{folder}"
        place.mkdir()
        for number in range(1000):
            (place / f"f{number}.txt").write_text(f"line {number}\n")
    began = time.monotonic()
    found = grep.search("needle")
    assert time.monotonic() - began < BUSY_SECONDS
    assert found.truncated or found.total == 3


def test_search_of_a_caller_that_hung_up_ends_ripgrep(tree: Path, tmp_path: Path):
    slow = tmp_path / "rg"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    began = time.monotonic()
    result = Grep(Files(tree), str(slow)).search("needle", is_abandoned=lambda: True)
    assert result.truncated
    assert time.monotonic() - began < gateway.TIMEOUT_SECONDS
