"""The desk from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings

Run = Callable[..., str]


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


def test_a_link_and_a_place_at_the_desk_are_given(run: Run) -> None:
    assert "/enter?key=" in run("link")
    assert "/enter?key=" in run("link", "--user", "guest")
    assert "does not exist" in run("link", "--user", "nobody", ok=False)
    assert _json(run("desk", "guest", "reader", "--json"))["user"]["desk"] == "reader"
    assert "is not a right" in run("desk", "guest", "boss", ok=False)


def test_the_demo_fills_a_floor_with_real_calls(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    result = CliRunner().invoke(app, ["demo", "--seconds", "6", "--leave", "--port", "0", "--folder", str(place)])
    assert result.exit_code == 0, result.output
    assert "/enter?key=" in result.output
    with Shopfloor(Settings(project=place, embeddings="off")) as floor:
        seen = floor.call("desk", "floor_overview")
        assert {agent["id"] for agent in seen["agents"]} >= {"lead", "planner", *(f"builder-{n}" for n in (1, 2, 3, 4))}
        assert len(floor.call("desk", "board_epics")["epics"]) == 3
        calls = floor.call("desk", "log_search", {"limit": 200})["calls"]
        assert {call["by"] for call in calls} >= {"agent:lead", "agent:planner", "user:customer"}
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(result.output.split()[4], timeout=5)
    again = CliRunner().invoke(app, ["demo", "--folder", str(place)])
    assert "is not empty" in str(again.exception)
