"""The commands of the loop."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.domain.runs import RunState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import runs
from tests.operator_access import write_as_operator


def _create_run(name: str, uow: UnitOfWork) -> None:
    runs.create_run(uow, name, spec="", project="", options="{}")


@pytest.fixture
def tool(tmp_path: Path):
    """Runs `shopfloor tool` and returns its exit code and its output."""
    shopfloor = Shopfloor(Settings(project=tmp_path))
    for name in ("first", "second"):
        write_as_operator(shopfloor, partial(_create_run, name))
    shopfloor.close()

    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["tool", *words, "--project", str(tmp_path)])
        return result.exit_code, result.output.strip()

    return run


def test_a_tool_takes_json_or_flags_and_means_the_latest_run(tool):
    assert tool("task-add", '{"tasks": [{"content": "a"}]}') == (0, "Added TAS-1 [remaining, priority 2] a")
    assert tool("task-add", '[{"content": "b"}]') == (0, "Added TAS-2 [remaining, priority 2] b")
    assert tool("task-add", "--content", "c d", "--priority", "0") == (0, "Added TAS-3 [remaining, priority 0] c d")
    assert tool("task-update", "--id", "TAS-1", "--status=completed") == (0, "Updated TAS-1 [completed, priority 2] a")
    assert tool("task-update", '{"id": "TAS-2"}', "--depends-on", "TAS-3")[1].endswith("b (depends on TAS-3)")
    assert tool("task-list", "--run", "first") == (0, "There are no tasks yet. Add some with task-add.")
    assert tool("task-next")[1].startswith("TAS-3 ")
    assert tool("note-add", "--type", "tip", "--content", "n")[1] == "Added NOT-1 [tip, iteration 0] n"
    assert tool("note-list", "--type", "tip", "--limit", "1")[1] == "NOT-1 [tip, iteration 0] n"
    assert tool("iteration-summary", "--summary", "s")[0] == 0


def test_an_error_exits_with_code_1(tool):
    assert tool("session-complete")[0] == 0
    code, text = tool("task-update", "--id", "TAS-9")
    assert (code, text.splitlines()[0]) == (1, "error: task 'TAS-9' not found")
    assert tool("no-such-tool")[0] == 1


def test_an_acceptance_command_is_set_or_rejected_in_one_line(tmp_path: Path, tool):
    tool("task-add", "--content", "a")

    def accept(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["runs", "accept", *words, "--project", str(tmp_path)])
        return result.exit_code, result.output.strip() or str(result.exception)

    assert accept("second", "TAS-1", "make test") == (0, "TAS-1: make test")
    assert accept("second", "TAS-9", "make") == (1, "task 'TAS-9' not found")
    assert accept("missing", "TAS-1", "make") == (1, "Run 'missing' not found")
    assert accept("second", "TAS-1", "make 'x")[1].startswith("The acceptance command cannot be parsed: the quotes of")
    assert accept("second", "TAS-1") == (0, "TAS-1: no command")


@pytest.mark.parametrize("word", ["pause", "resume", "stop"])
def test_a_run_without_a_driver_cannot_be_steered(tmp_path: Path, tool, word: str):
    result = CliRunner().invoke(app, [word, "second", "--project", str(tmp_path)])
    assert (result.exit_code, str(result.exception)) == (
        1, "Run 'second' was interrupted; no process drives it.",
    )  # fmt: skip
    listed = CliRunner().invoke(app, ["runs", "--project", str(tmp_path)]).output
    assert [line.split()[1] for line in listed.splitlines()[1:]] == ["interrupted", "interrupted"]


def test_say_reports_when_the_message_is_read(tmp_path: Path, tool):
    def say(run: str) -> str:
        return CliRunner().invoke(app, ["say", run, "hello", "--project", str(tmp_path)]).output.strip()

    assert say("second") == "second reads it in its next iteration"
    shopfloor = Shopfloor(Settings(project=tmp_path))
    write_as_operator(shopfloor, lambda uow: runs.finish_run(uow, "second", RunState.STOPPED, "enough"))
    shopfloor.close()
    assert say("second") == "second reads it after it is resumed: shopfloor run --resume second"


def test_the_template_can_be_exported(tmp_path: Path):
    target = tmp_path / "mine.md"
    assert CliRunner().invoke(app, ["template", "export", str(target)]).exit_code == 0
    assert "{{extra}}" in target.read_text()
    assert CliRunner().invoke(app, ["template", "export", str(target)]).exit_code == 1
    assert "## If Stuck" in CliRunner().invoke(app, ["template", "export"]).output


@pytest.mark.parametrize(
    "words",
    [[], ["--spec", "missing.md", "--agent", "x"], ["--spec", "SPEC.md"], ["--resume", "missing"],
     ["--spec", "SPEC.md", "--agent", "x", "--time", "soon"], ["--spec", "SPEC.md", "--agent", "x", "--template", "no.md"]],
)  # fmt: skip
def test_a_run_that_cannot_start_leaves_no_trace(tmp_path: Path, monkeypatch, words: list[str]):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "SPEC.md").write_text("x")
    result = CliRunner().invoke(app, ["run", *words, "--project", str(tmp_path)])
    assert result.exit_code == 1
    assert CliRunner().invoke(app, ["runs", "--project", str(tmp_path)]).output.startswith("No runs yet")
