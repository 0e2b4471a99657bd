"""The desk from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.domain.principals import OPERATOR
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import run_requests, runs

Run = Callable[..., str]


@pytest.fixture
def shopfloor(tmp_path: Path) -> Iterator[Shopfloor]:
    """The server of the commands, open at the same time."""
    with Shopfloor(Settings(project=tmp_path, embeddings="off")) as shopfloor:
        yield shopfloor


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command on a server with a little history, and returns its output."""
    with Shopfloor(Settings(project=tmp_path, embeddings="off")) as shopfloor:
        for name in ("lead", "builder"):
            shopfloor.create_agent(name, "SUPERVISOR" if name == "lead" else "WORKER", issue_token=False)
        shopfloor.add_user("guest")
        shopfloor.call("factory", "mcp__epic__create", {"title": "Ship \x1b[31mit"}, "lead")
        shopfloor.call("factory", "mcp__task__create", {"title": "Design", "epicId": "epic-1"}, "lead")
        shopfloor.call("factory", "mcp__system__log_decision", {"title": "Use a queue", "body": "b"}, "builder")

    def run_command(*arguments: str, ok: bool = True) -> str:
        result = CliRunner().invoke(app, [*arguments, "--project", str(tmp_path)])
        assert (result.exit_code == 0) is ok, result.output
        return result.output if ok else str(result.exception)

    return run_command


def _parse_json(text: str) -> Any:
    return json.loads(text)


def test_status_shows_each_agent_and_its_task(run: Run) -> None:
    assert "lead" in run("status")
    assert "2 idle" in run("status")
    assert _parse_json(run("status", "--json"))["counts"]["idle"] == 2


def test_log_is_listed_filtered_and_shown_by_reference(run: Run) -> None:
    lines = run("log").splitlines()
    # The call that logged the decision is not repeated.
    assert [line.split()[2] for line in lines[1:]] == ["lead", "lead", "builder"]
    assert "Use a queue" in run("log", "--outcome", "decision")
    assert [_parse_json(line)["tool"] for line in run("log", "--agent", "lead", "--json").splitlines()] == [
        "mcp__epic__create",
        "mcp__task__create",
    ]
    reference = _parse_json(run("log", "--tool", "mcp__task__create", "--json"))["reference"]
    opened = run("log", reference)
    assert '"title": "Design"' in opened
    assert "event: task.changed" in opened
    assert run("log", "--text", "nowhere").startswith("No calls by agents match")


def test_boards_are_printed_without_control_characters(run: Run) -> None:
    assert "epic-1" in run("board")
    shown = run("board", "epic-1")
    assert "Design" in shown
    assert "\x1b" not in shown
    assert "not found" in run("board", "epic-9", ok=False)


def test_task_and_epic_are_edited(run: Run) -> None:
    run("board", "task-1", "--title", "Draw", "--priority", "0", "--description", "By hand")
    shown = run("board", "task-1")
    assert shown.startswith("task-1  Draw\npending · priority 0 · version 2 · epic-1\n\nBy hand")
    task = _parse_json(run("board", "task-1", "--json"))
    assert "not 1" in run("board", "task-1", "--title", "Late", "--version", "1", ok=False)
    assert "cannot depend on itself" in run("board", "task-1", "--after", "task-1", ok=False)
    assert _parse_json(run("board", "task-1", "--state", "cancelled", "--json"))["state"] == "CANCELLED"
    assert task["version"] == 2
    assert _parse_json(run("board", "epic-1", "--state", "completed", "--json"))["epic"]["state"] == "COMPLETED"


def test_dependency_is_added_and_removed(run: Run, shopfloor: Shopfloor) -> None:
    shopfloor.call("factory", "mcp__task__create", {"title": "Build", "epicId": "epic-1"}, "lead")
    assert "blocked by task-1 (pending) Design" in run("board", "task-2", "--blocked-by", "task-1")
    assert "blocked by" not in run("board", "task-2", "--remove-blocker", "1")


def test_rejected_edit_prints_its_reason(run: Run) -> None:
    assert "Only tasks have a title" in run("board", "epic-1", "--title", "x", ok=False)
    assert "Only tasks and epics can be moved" in run("board", "--state", "done", ok=False)
    assert "'state' must be one of PENDING, ASSIGNED, " in run("board", "task-1", "--state", "done", ok=False)
    assert "Expected an id such as task-3, not 'task-x'" in run("board", "task-x", ok=False)
    assert "Task 9 not found" in run("board", "task-9", "--title", "x", ok=False)
    assert "'priority'" in run("board", "task-1", "--priority", "7", ok=False)
    assert "No tasks" in run("board", "none")
    assert "No matching tasks." in run("board", "epic-1", "--text", "nowhere")
    assert "Board 'missing' not found" in run("board", "missing", ok=False)


def test_questions_of_runs_are_listed_and_answered(run: Run, shopfloor: Shopfloor) -> None:
    def ask_for_permission(uow: UnitOfWork) -> None:
        runs.create_run(uow, "night", spec="s", project=".", options="{}")
        run_requests.ask_person(uow, "night", "permission", "May I run make?", ("allow", "deny"))

    shopfloor.engine.database.write(ask_for_permission, OPERATOR)
    listed = run("inbox").splitlines()[1].split("  ")
    assert [cell for cell in listed if cell][:4] == ["request-1", "run:night", "permission", "May I run make?"]
    assert "Answer: shopfloor inbox answer request-1 allow | deny\n" in run("inbox")
    assert "is not an answer" in run("inbox", "answer", "request-1", "perhaps", ok=False)
    assert "Expected an id such as request-3" in run("inbox", "answer", "request-x", "allow", ok=False)
    assert run("inbox", "answer", "request-1", "allow") == "request-1 answered: allow\n"
    assert run("inbox") == "Nothing is waiting for you.\n"


def test_inbox_prints_all_options_of_open_questions(
    run: Run, shopfloor: Shopfloor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_for_permission(uow: UnitOfWork) -> None:
        runs.create_run(uow, "night", spec="s", project=".", options="{}")
        run_requests.ask_person(uow, "night", "permission", f"May I run make {'x' * 90}?", ("allow", "always", "deny"))

    shopfloor.engine.database.write(ask_for_permission, OPERATOR)
    options = ["the cheaper one of the two", "the faster one", "neither, wait for the price list"]
    question = {"subject": "Which one?", "body": "b", "options": options, "timeoutSeconds": 0}
    shopfloor.call("factory", "mcp__mail__ask", question, "builder")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("inbox").splitlines()
    assert max(map(len, lines)) <= 80
    at = lines.index("Answer: shopfloor inbox answer request-1 allow | always | deny")
    commands = " ".join(line.strip() for line in lines[at + 1 :])
    assert commands == (
        "shopfloor inbox answer mail-1 'the cheaper one of the two' | 'the faster one' |"
        " 'neither, wait for the price list'"
    )


def test_link_and_desk_commands_issue_a_link_and_set_a_role(run: Run) -> None:
    assert "/enter?token=" in run("link")
    assert "/enter?token=" in run("link", "--user", "guest")
    assert "does not exist" in run("link", "--user", "missing", ok=False)
    assert _parse_json(run("desk", "guest", "viewer", "--json"))["user"]["role"] == "viewer"
    assert "Unknown desk role 'boss'; expected one of none, viewer, editor" in run("desk", "guest", "boss", ok=False)


def test_a_crash_is_reported_and_the_third_marks_the_agent_as_failed(run: Run) -> None:
    assert [run("agent", "crashed", "builder").strip() for _ in range(3)] == [
        "builder is IDLE", "builder is IDLE", "builder is FAILED",
    ]  # fmt: skip
    assert "does not exist" in run("agent", "crashed", "missing", ok=False)
