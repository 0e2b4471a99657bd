"""grep: patterns that play tricks, floods, and what is shown."""

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
from tests.context.support import make_project

BUSY = 30.0
"""Seconds where the contract says 3: what a very busy machine may make of them."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("one\ntwo\nthree needle\nfour\nfive\nsix\n")
    (root / "src" / "b.ts").write_text("needle at the start\n")
    (root / "notes.md").write_text("a needle\n")
    return root


@pytest.fixture
def look(tree: Path) -> Grep:
    return Grep(Files(tree))


@pytest.mark.parametrize(
    "pattern",
    ["--pre=./marker.sh", "--files", "-e", "--", "-f/etc/passwd", "--hostname-bin=./marker.sh", "-z", "--help"],
)
def test_a_pattern_that_looks_like_an_option_is_text(tree: Path, look: Grep, pattern: str):
    marker = tree / "marker.sh"
    marker.write_text(f"#!/bin/sh\ntouch {tree}/ran\n")
    marker.chmod(0o755)
    (tree / "text.txt").write_text(f"before {pattern} after\n")
    assert "text.txt" in [match.file for match in look.search(pattern).matches]
    assert not (tree / "ran").exists()


def test_a_config_file_changes_nothing(tree: Path, look: Grep, monkeypatch: pytest.MonkeyPatch):
    (tree / "rc").write_text("--max-count=0\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree / "rc"))
    assert look.search("needle").total == 3


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x", "a{1,100}{1,100}$", "(x+x+)+y"])
def test_a_catastrophic_pattern_is_answered_in_time(tree: Path, look: Grep, pattern: str):
    (tree / "a.txt").write_text("a" * 50_000 + "!\n")
    began = time.monotonic()
    with suppress(BadPattern):
        look.search(pattern)
    assert time.monotonic() - began < BUSY


@pytest.mark.parametrize(
    "pattern", ["[invalid(", "(", "a{2,1}", "*", "(?<=x)y", "\\p{Nope}", "(a{1000}){1000}{1000}", "a\nb"]
)
def test_an_invalid_pattern_is_refused_with_a_reason(look: Grep, pattern: str):
    with pytest.raises(BadPattern) as refused:
        look.search(pattern)
    assert refused.value.facts["pattern"] == pattern
    assert refused.value.facts["details"]


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
def test_a_refused_pattern_comes_with_advice_that_fits(look: Grep, pattern: str, advice: str):
    with pytest.raises(BadPattern, match="Invalid regex pattern") as refused:
        look.search(pattern)
    assert advice in str(refused.value.hint)


def test_a_line_with_matches_beyond_number_is_counted_and_not_shown(tree: Path, look: Grep):
    """What ripgrep says of it is many times longer than the line."""
    (tree / "minified.js").write_text("z" * 200_000 + "\n")
    (tree / "plain.js").write_text("zebra\n")
    found = look.search("z")
    assert ([match.file for match in found.matches], found.total, found.truncated) == (["plain.js"], 2, True)


def test_a_flood_is_cut_off_and_says_so(tree: Path, look: Grep, monkeypatch: pytest.MonkeyPatch):
    (tree / "flood.txt").write_text("x\n" * 400_000)
    monkeypatch.setattr(gateway, "SECONDS", BUSY)  # not for want of time
    began = time.monotonic()
    found = look.search("x", limit=5)
    assert time.monotonic() - began < BUSY
    assert (found.truncated, len(found.matches)) == (True, 5)
    assert found.total <= gateway.MATCHES


def test_time_is_up_when_it_is_up(tree: Path, monkeypatch: pytest.MonkeyPatch):
    slow = tree / "rg"
    slow.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(gateway, "SECONDS", 0.3)
    began = time.monotonic()
    found = Grep(Files(tree), str(slow)).search("x")
    assert (found.truncated, found.total) == (True, 0)
    assert time.monotonic() - began < BUSY


def test_a_line_has_its_place_and_its_surroundings(look: Grep):
    match = next(match for match in look.search("needle").matches if match.file == "src/a.py")
    assert (match.line, match.column, match.text) == (3, 7, "three needle")
    assert (match.before, match.after) == (("one", "two"), ("four", "five"))
    first = next(match for match in look.search("needle").matches if match.file == "src/b.ts")
    assert (first.line, first.column, first.before, first.after) == (1, 1, (), ())


def test_columns_count_characters_and_lines_end_anyhow(tree: Path, look: Grep):
    (tree / "wide.txt").write_bytes("äöü needle\r\nnext\r\n".encode())
    (tree / "odd.txt").write_bytes(b"\xff\xfe bad needle\nnext")
    found = {match.file: match for match in look.search("needle$").matches}
    assert (found["wide.txt"].column, found["wide.txt"].text, found["wide.txt"].after) == (5, "äöü needle", ("next",))
    assert (found["odd.txt"].text, found["odd.txt"].after) == ("\ufffd\ufffd bad needle", ("next",))


def test_long_lines_are_cut_around_the_match(tree: Path, look: Grep):
    (tree / "long.txt").write_text("x" * 5000 + "needle" + "y" * 5000 + "\n")
    match = next(match for match in look.search("needle").matches if match.file == "long.txt")
    assert "needle" in match.text
    assert (len(match.text), match.column) == (gateway.LINE + 2, 5001)


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", {"src/a.py"}), ("**/*.ts", {"src/b.ts"}), ("src/*", {"src/a.py", "src/b.ts"}), ("src", {"src/a.py", "src/b.ts"}),
        ("*.{py,md}", {"src/a.py", "notes.md"}), ("!*.py", {"src/b.ts", "notes.md"}), ("src/**", {"src/a.py", "src/b.ts"}),
        ("/notes.md", {"notes.md"}), ("?otes.md", {"notes.md"}), ("[mn]otes.md", {"notes.md"}), ("nothing/*", set()),
        ("a*a*a*a*a*a*a*a*a*a*a*a*b", set()), ("src/a.py", {"src/a.py"}), ("**/src/**", {"src/a.py", "src/b.ts"}),
    ],
)  # fmt: skip
def test_globs_choose_files(look: Grep, glob: str, expected: set[str]):
    assert {match.file for match in look.search("needle", glob=glob).matches} == expected


@pytest.mark.parametrize("glob", ["../*", "src/../*", "{a", "[a", "a\nb"])
def test_a_glob_that_cannot_be_one_is_refused(look: Grep, glob: str):
    with pytest.raises(InvalidInput):
        look.search("needle", glob=glob)


def test_a_glob_leaves_gitignore_its_say(tree: Path, look: Grep):
    (tree / ".gitignore").write_text("*.log\nout/\n!keep.js\n")
    (tree / "out").mkdir()
    for name in ("x.log", "out/x.ts", "keep.js"):
        (tree / name).write_text("needle\n")
    assert look.search("needle", glob="*.log").total == 0
    assert {match.file for match in look.search("needle", glob="**/*.ts").matches} == {"src/b.ts"}


@pytest.mark.parametrize("glob", [".env*", "node_modules/**", "**/.env", "dist", "!*.md"])
def test_no_glob_opens_what_is_closed(tree: Path, look: Grep, glob: str):
    make_project(
        tree, {".env": "needle\n", "node_modules/a.js": "needle\n", "dist/b.js": "needle\n", ".git/c": "needle\n"}
    )
    plain = look.search("needle", glob=glob)
    for name in (".env", "node_modules/a.js", "dist/b.js", ".git/c"):
        (tree / name).unlink()
    assert look.search("needle", glob=glob).files_searched == plain.files_searched


def test_links_are_not_searched(tree: Path, look: Grep):
    (tree.parent / "outside.txt").write_text("needle outside\n")
    (tree / "link.txt").symlink_to(tree.parent / "outside.txt")
    (tree / "folder").symlink_to(tree.parent)
    assert look.search("needle outside").total == 0


def test_what_ripgrep_says_is_seen_again_through_the_gate(tree: Path, look: Grep):
    """ripgrep was led outside by a link swapped under it: what it saw there is not shown."""
    (tree.parent / "secret.txt").write_text("needle secret\n")
    said = {"data": {"lines": {"text": "needle secret\n"}, "submatches": [], "line_number": 1, "absolute_offset": 0}}
    hits = gateway._Hits(1, [json.dumps(said).encode()])
    (tree / "swapped.txt").symlink_to(tree.parent / "secret.txt")
    assert look._seen("swapped.txt", hits) == []
    (tree / "swapped.txt").unlink()
    (tree / "swapped.txt").write_text("harmless\n")
    assert look._seen("swapped.txt", hits) == []
    (tree / "swapped.txt").write_text("needle secret\n")
    assert [match.text for match in look._seen("swapped.txt", hits)] == ["needle secret"]


@pytest.mark.long
def test_a_hundred_thousand_files_are_searched_in_time(tree: Path, look: Grep):
    for folder in range(100):
        place = tree / f"d{folder}"
        place.mkdir()
        for number in range(1000):
            (place / f"f{number}.txt").write_text(f"line {number}\n")
    began = time.monotonic()
    found = look.search("needle")
    assert time.monotonic() - began < BUSY
    assert found.truncated or found.total == 3
