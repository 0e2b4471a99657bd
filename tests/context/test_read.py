"""read_file: what a file looks like to an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from shopfloor.domain.places import language_of, module_of, role_of
from shopfloor.usecases.files import count_lines


@pytest.mark.parametrize(
    ("text", "lines"), [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\r\nb\r\n", 2), ("\n\n", 2)]
)
def test_an_empty_last_line_does_not_count(text: str, lines: int):
    assert count_lines(text) == lines


def test_carriage_returns_are_kept(project: Path, read):
    (project / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    assert read("dos.txt")["file"] == {
        "path": "dos.txt", "content": "one\r\ntwo\r\n", "size": 10, "lines": 2, "language": "text",
    }  # fmt: skip


def test_a_binary_file_is_refused(project: Path, read):
    (project / "a.bin").write_bytes(b"\x00\x01")
    assert read("a.bin") == {"error": "Binary file", "path": "a.bin", "size": 2, "hint": "Only text can be read"}


def test_invalid_utf8_is_shown_and_said(project: Path, read):
    (project / "latin.txt").write_bytes(b"caf\xe9\n")
    file = read("latin.txt")["file"]
    assert (file["content"], file["size"], file["invalidUtf8"]) == ("caf\ufffd\n", 5, True)


@pytest.mark.parametrize(
    ("given", "content", "place"),
    [
        ({"startLine": 2, "endLine": 3}, "b\nc\n", (2, 3)),
        ({"startLine": 3}, "c\nd", (3, 4)),
        ({"endLine": 1}, "a\n", (1, 1)),
        ({"startLine": 4, "endLine": 99}, "d", (4, 4)),
    ],
)
def test_some_lines_are_read(project: Path, read, given, content, place):
    (project / "abc.txt").write_text("a\nb\nc\nd")
    file = read("abc.txt", **given)["file"]
    assert (file["content"], (file["startLine"], file["endLine"]), file["lines"], file["size"]) == (
        content,
        place,
        4,
        7,
    )


def test_lines_that_are_not_there_are_refused(project: Path, read):
    (project / "abc.txt").write_text("a\nb\n")
    assert read("abc.txt", startLine=3)["error"] == "Invalid parameters"
    assert read("abc.txt", startLine=2, endLine=1)["error"] == "Invalid parameters"


def test_a_path_is_answered_in_its_plain_form(read):
    assert read("./src//index.ts")["file"]["path"] == "src/index.ts"


def test_a_file_that_was_meant_is_named(search, read):
    search("anything at all")
    assert read("wrong/AuthService.ts")["hint"] == "Did you mean src/server/auth/AuthService.ts?"


def test_dependencies_stay_within_the_budget(project: Path, read):
    (project / "big").mkdir()
    names = [f"m{number}" for number in range(5)]
    for name in names:
        (project / "big" / f"{name}.py").write_text("x = 1\n" * 5000)
    (project / "big" / "main.py").write_text("".join(f"import {name}\n" for name in names))
    found = read("big/main.py", includeDeps=True)["dependencies"]
    assert [each["path"] for each in found] == [f"big/{name}.py" for name in names]
    assert [each.get("truncated", False) for each in found] == [False, False, True, True, True]
    assert sum(len(each["content"]) for each in found) <= 80_000


@pytest.mark.parametrize(
    ("path", "language", "module", "role"),
    [
        ("src/server/auth/AuthService.ts", "typescript", "auth", "core"),
        ("src/index.ts", "typescript", "src", "core"),
        ("src/shopfloor/toolsets/context/files.py", "python", "toolsets", "core"),
        ("src/shopfloor/app.py", "python", "shopfloor", "core"),
        ("src/main/java/com/acme/auth/Token.java", "java", "auth", "core"),
        ("internal/auth/auth_test.go", "go", "auth", "test"),
        ("tests/store/test_values.py", "python", "store", "test"),
        ("src/a.test.tsx", "tsx", "src", "test"),
        ("docs/guide.md", "markdown", "docs", "docs"),
        ("README.md", "markdown", "root", "docs"),
        ("pyproject.toml", "toml", "root", "config"),
        (".github/workflows/ci.yml", "yaml", ".github", "config"),
        ("Makefile", "makefile", "root", "config"),
        ("vendor/lib/x.go", "go", "vendor", "generated"),
        ("api/service_pb2.py", "python", "api", "generated"),
        ("package-lock.json", "json", "root", "generated"),
        (".env.example", "text", "root", "config"),
    ],
)
def test_a_path_says_language_module_and_role(path: str, language: str, module: str, role: str):
    assert (language_of(path), module_of(path), role_of(path)) == (language, module, role)
