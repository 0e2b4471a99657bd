"""read_file: how a file is presented to an agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shopfloor.domain.file_kinds import detect_language, detect_module, detect_role
from shopfloor.domain.file_text import count_lines
from shopfloor.gateways.files import Files
from shopfloor.gateways.import_resolver import MAX_LOOKUPS
from tests.operator_access import read_as_operator


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


def test_binary_file_is_rejected(project: Path, read):
    (project / "a.bin").write_bytes(b"\x00\x01")
    assert read("a.bin") == {"error": "Binary file", "path": "a.bin", "size": 2, "hint": "Only text can be read"}


def test_invalid_utf8_is_replaced_and_reported(project: Path, read):
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
def test_line_range_is_read(project: Path, read, given, content, place):
    (project / "abc.txt").write_text("a\nb\nc\nd")
    file = read("abc.txt", **given)["file"]
    assert (file["content"], (file["startLine"], file["endLine"]), file["lines"], file["size"]) == (
        content,
        place,
        4,
        7,
    )


def test_line_range_outside_the_file_is_rejected(project: Path, read):
    (project / "abc.txt").write_text("a\nb\n")
    assert read("abc.txt", startLine=3)["error"] == "Invalid parameters"
    assert read("abc.txt", startLine=2, endLine=1)["error"] == "Invalid parameters"


def test_long_file_comes_in_pages(project: Path, read):
    text = "".join(f"line {number} {'x' * 90}\n" for number in range(1, 1001))
    (project / "long.txt").write_text(text)
    first = read("long.txt")
    last = first["file"]["endLine"]
    assert first["truncated"] is True
    assert (first["file"]["startLine"], first["file"]["lines"], first["file"]["size"]) == (1, 1000, len(text))
    assert first["hint"] == f"Lines 1-{last} of 1000; continue with startLine {last + 1}"
    content, start = first["file"]["content"], first["nextStartLine"]
    assert len(content) <= 40_000
    while start is not None:
        page = read("long.txt", startLine=start)
        content += page["file"]["content"]
        start = page.get("nextStartLine")
    assert content == text
    whole = read("long.txt", endLine=1000)
    assert (whole["file"]["content"], "truncated" in whole) == (text, False)


def test_long_line_is_cut_unless_its_end_is_asked_for(project: Path, read):
    (project / "app.min.js").write_text("x" * 50_000)
    cut = read("app.min.js")
    assert (len(cut["file"]["content"]), cut["truncated"], "nextStartLine" in cut) == (40_000, True, False)
    assert cut["hint"] == "The line is cut; endLine 1 returns it whole"
    assert len(read("app.min.js", endLine=1)["file"]["content"]) == 50_000


def test_path_is_returned_in_normal_form(read):
    assert read("./src//index.ts")["file"]["path"] == "src/index.ts"


def test_not_found_suggests_a_similar_file(search, read):
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


def test_read_of_a_file_is_counted_with_its_log_row(shopfloor, monkeypatch):
    # One transaction, so that a failover loses both or none: the log row says whether it took effect.
    store, queued = shopfloor.engine.database.store, []
    monkeypatch.setattr(store, "later", lambda fn, is_done=None: queued.append((fn, is_done)))
    shopfloor.call("context", "read_file", {"path": "src/index.ts"})
    [(fn, is_done)] = queued
    assert not store.read(is_done)
    store.write(fn)
    assert store.read(is_done)
    assert read_as_operator(shopfloor, lambda uow: uow.file_accesses.most_used(5))[0][:2] == ("src/index.ts", 1)


@pytest.fixture
def opened(monkeypatch) -> list[int]:
    """The sizes of all files that are read."""
    sizes: list[int] = []
    read = Files.read

    def count(self, path, *more):
        file = read(self, path, *more)
        sizes.append(len(file.data))
        return file

    monkeypatch.setattr(Files, "read", count)
    return sizes


@pytest.mark.parametrize("more", [{}, {"deps": "signatures"}], ids=["content", "signatures"])
def test_many_large_imports_are_listed_without_being_read(project: Path, read, opened, more):
    (project / "big").mkdir()
    for number in range(50):
        (project / "big" / f"m{number}.py").write_text("def do_it(one: int) -> int: ...\n" * 30_000)
    (project / "big" / "main.py").write_text("".join(f"import m{number}\n" for number in range(50)))
    found = read("big/main.py", includeDeps=True, **more)["dependencies"]
    assert len(found) == 50
    assert all(each["truncated"] for each in found)
    assert len(opened) <= 3
    assert sum(opened) <= 3_000_000


def test_imports_that_lead_nowhere_are_looked_for_up_to_a_limit(project: Path, read, monkeypatch):
    looked: list[str] = []
    has_file = Files.has_file

    def look(self: Files, path: str) -> bool:
        looked.append(path)
        return has_file(self, path)

    monkeypatch.setattr(Files, "has_file", look)
    (project / "many.py").write_text("".join(f"import absent{number}\n" for number in range(50_000)))
    assert read("many.py", includeDeps=True)["dependencies"] == []
    assert len(looked) <= MAX_LOOKUPS


def test_manifests_of_a_workspace_are_read_once_for_all_imports(project: Path, read, opened):
    (project / "package.json").write_text(json.dumps({"workspaces": ["packages/*"]}))
    for number in range(40):
        (project / f"packages/p{number}").mkdir(parents=True)
        (project / f"packages/p{number}/package.json").write_text(json.dumps({"name": f"@x/p{number}"}))
        (project / f"packages/p{number}/index.ts").write_text("export {}\n")
    (project / "main.ts").write_text("".join(f'import a{number} from "@x/p{number}";\n' for number in range(40)))
    assert len(read("main.ts", includeDeps=True)["dependencies"]) == 40
    assert len(opened) <= 1 + 40 + 40 + 2


@pytest.mark.parametrize(
    ("path", "language", "module", "role"),
    [
        ("src/server/auth/AuthService.ts", "typescript", "auth", "core"),
        ("src/index.ts", "typescript", "src", "core"),
        ("src/shopfloor/toolsets/context/files.py", "python", "toolsets", "core"),
        ("src/shopfloor/app.py", "python", "shopfloor", "core"),
        ("src/main/java/com/acme/auth/Token.java", "java", "auth", "core"),
        ("src/main/java/com/acme/examples/Token.java", "java", "examples", "core"),
        ("src/main/java/com/acme/auth/TokenTest.java", "java", "auth", "test"),
        ("internal/auth/auth_test.go", "go", "auth", "test"),
        ("src/parser_perftest.cc", "cpp", "src", "test"),
        ("lib/ex_unit/doc_test.ex", "elixir", "ex_unit", "core"),
        ("test/ex_unit/doc_test.exs", "elixir", "ex_unit", "test"),
        ("std/testing/allocator.zig", "zig", "std", "core"),
        ("tests/store/test_values.py", "python", "store", "test"),
        ("src/a.test.tsx", "tsx", "src", "test"),
        ("py/src/shop/cart/item.py", "python", "cart", "core"),
        ("web/src/pages/Cart.tsx", "tsx", "pages", "core"),
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
def test_language_module_and_role_follow_from_the_path(path: str, language: str, module: str, role: str):
    assert (detect_language(path), detect_module(path), detect_role(path)) == (language, module, role)
