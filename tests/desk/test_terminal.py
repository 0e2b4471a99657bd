"""The desk from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.domain.actors import OPERATOR
from shopfloor.repositories.work import Work
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import loops

Run = Callable[..., str]


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Shopfloor]:
    """The floor of the commands, open beside them."""
    with Shopfloor(Settings(project=tmp_path, embeddings="off")) as floor:
        yield floor


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command on a floor with a little history, and gives what it printed."""
    with Shopfloor(Settings(project=tmp_path, embeddings="off")) as floor:
        for name in ("lead", "builder"):
            floor.hire(name, "SUPERVISOR" if name == "lead" else "WORKER", None, with_token=False)
        floor.add_user("guest")
        floor.call("factory", "mcp__epic__create", {"title": "Ship \x1b[31mit"}, "lead")
        floor.call("factory", "mcp__task__create", {"title": "Design", "epicId": "epic-1"}, "lead")
        floor.call("factory", "mcp__system__log_decision", {"title": "Use a queue", "body": "b"}, "builder")

    def command(*arguments: str, ok: bool = True) -> str:
        result = CliRunner().invoke(app, [*arguments, "--project", str(tmp_path)])
        assert (result.exit_code == 0) is ok, result.output
        return result.output if ok else str(result.exception)

    return command


def _json(text: str) -> Any:
    return json.loads(text)


def test_status_shows_who_works_on_what(run: Run) -> None:
    assert "lead" in run("status")
    assert "2 idle" in run("status")
    assert _json(run("status", "--json"))["counts"]["idle"] == 2


def test_the_log_is_shown_filtered_and_opened(run: Run) -> None:
    lines = run("log").splitlines()
    assert len(lines) == 4
    assert "Use a queue" in run("log", "--outcome", "decision")
    assert [_json(line)["tool"] for line in run("log", "--agent", "lead", "--json").splitlines()] == [
        "mcp__epic__create",
        "mcp__task__create",
    ]
    reference = _json(run("log", "--tool", "mcp__task__create", "--json"))["reference"]
    opened = run("log", reference)
    assert '"title": "Design"' in opened
    assert "followed: task.changed" in opened
    assert run("log", "--text", "nowhere").startswith("No call fits.")


def test_boards_are_listed_and_shown_without_steering_the_terminal(run: Run) -> None:
    assert "epic-1" in run("board")
    shown = run("board", "epic-1")
    assert "Design" in shown
    assert "\x1b" not in shown
    assert "not found" in run("board", "epic-9", ok=False)


def test_a_task_and_an_epic_are_changed(run: Run) -> None:
    run("board", "task-1", "--title", "Draw", "--priority", "0", "--description", "By hand")
    shown = run("board", "task-1")
    assert shown.startswith("task-1  Draw\npending · priority 0 · version 2\n\nBy hand")
    task = _json(run("board", "task-1", "--json"))
    assert "not 1" in run("board", "task-1", "--title", "Late", "--version", "1", ok=False)
    assert "cannot wait for itself" in run("board", "task-1", "--after", "task-1", ok=False)
    assert _json(run("board", "task-1", "--state", "cancelled", "--json"))["state"] == "CANCELLED"
    assert task["version"] == 2
    assert _json(run("board", "epic-1", "--state", "completed", "--json"))["epic"]["state"] == "COMPLETED"


def test_a_task_waits_for_another_and_no_more(run: Run, floor: Shopfloor) -> None:
    floor.call("factory", "mcp__task__create", {"title": "Build", "epicId": "epic-1"}, "lead")
    assert "waits for task-1 (pending) Design" in run("board", "task-2", "--after", "task-1")
    assert "waits for" not in run("board", "task-2", "--not-after", "1")


def test_what_cannot_be_changed_says_so(run: Run) -> None:
    assert "Only a task has words" in run("board", "epic-1", "--title", "x", ok=False)
    assert "Only a task or an epic is moved" in run("board", "--state", "done", ok=False)
    assert "'state': input should be" in run("board", "task-1", "--state", "done", ok=False)
    assert "'task-x' is no number" in run("board", "task-x", ok=False)
    assert "Task 9 not found" in run("board", "task-9", "--title", "x", ok=False)
    assert "'priority'" in run("board", "task-1", "--priority", "7", ok=False)
    assert "no tasks" in run("board", "none")
    assert "Nothing fits." in run("board", "epic-1", "--text", "nowhere")
    assert "There is no run 'nobody'" in run("board", "nobody", ok=False)


def test_what_runs_ask_is_listed_and_answered(run: Run, floor: Shopfloor) -> None:
    def asked(work: Work) -> None:
        loops.create(work, "night", spec="s", project=".", options="{}")
        loops.ask_person(work, "night", "permission", "May I run make?", ("allow", "deny"))

    floor.floor.works.write(asked, OPERATOR)
    listed = run("inbox").splitlines()[1].split("  ")
    assert [cell for cell in listed if cell][:4] == ["request-1", "run:night", "allow or deny", "May I run make?"]
    assert "is not an answer" in run("inbox", "answer", "request-1", "perhaps", ok=False)
    assert "is no request" in run("inbox", "answer", "request-x", "allow", ok=False)
    assert run("inbox", "answer", "request-1", "allow") == "request-1 is answered\n"
    assert run("inbox") == "Nothing waits for you.\n"


def test_a_link_and_a_place_at_the_desk_are_given(run: Run) -> None:
    assert "/enter?key=" in run("link")
    assert "/enter?key=" in run("link", "--user", "guest")
    assert "does not exist" in run("link", "--user", "nobody", ok=False)
    assert _json(run("desk", "guest", "reader", "--json"))["user"]["desk"] == "reader"
    assert "is not a right" in run("desk", "guest", "boss", ok=False)


def _demo(place: Path, seconds: int) -> str:
    arguments = ["demo", "--seconds", str(seconds), "--leave", "--port", "0", "--folder", str(place)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_demo_fills_a_floor_with_real_calls(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    said = _demo(place, 6)
    assert "/enter?key=" in said
    with Shopfloor(Settings(project=place, embeddings="off")) as floor:
        seen = floor.call("desk", "floor_overview")
        states = {agent["id"]: agent["state"] for agent in seen["agents"]}
        assert set(states) >= {"lead", "planner", *(f"builder-{n}" for n in (1, 2, 3, 4))}
        assert states["tester"] == "failed"
        assert [(each["tool"], each["count"]) for each in seen["escalations"]] == [("count_stock", 2)]
        assert len(floor.call("desk", "board_epics")["epics"]) == 3
        calls = floor.call("desk", "log_search", {"limit": 200})["calls"]
        assert {call["by"] for call in calls} >= {"agent:lead", "agent:planner", "user:customer"}
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(said.split()[4], timeout=5)
    again = CliRunner().invoke(app, ["demo", "--folder", str(place)])
    assert "is not empty" in str(again.exception)


@pytest.mark.long
def test_the_demo_shows_what_waits_for_a_person_and_who_has_gone_silent(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    _demo(place, 40)
    with Shopfloor(Settings(project=place, embeddings="off")) as floor:
        states = {agent["id"]: agent["state"] for agent in floor.call("desk", "floor_overview")["agents"]}
        waiting = floor.call("desk", "inbox_waiting")
        told = "builder-4 has gone silent" in {mail["subject"] for mail in waiting["mails"]}
        assert told or states["builder-4"] == "silent"
        assert any(mail.get("question", {}).get("options") for mail in waiting["mails"])
        assert any("escalation" in mail for mail in waiting["mails"])


def test_a_crash_is_reported_and_the_third_marks_the_agent_as_failed(run: Run) -> None:
    assert [run("agent", "crashed", "builder").strip() for _ in range(3)] == [
        "builder is IDLE", "builder is IDLE", "builder is FAILED",
    ]  # fmt: skip
    assert "does not exist" in run("agent", "crashed", "nobody", ok=False)
