"""Sessions of agents: modes that never ask, agents that never find their tools, and the folder of a run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from shopfloor.runner.live_view import LiveView
from tests.runner.support import FILES, Project, create_repository

DONE = [(f"make {name}", "completed") for name in FILES]


@pytest.mark.parametrize(
    ("options", "mode"), [(("--permissions", "deny"), "read-only"), (("--mode", "full-access"), "full-access")]
)
def test_a_session_gets_a_mode_that_asks_or_the_given_one(project: Project, options: tuple[str, ...], mode: str):
    ran = project.run("has_modes", *options, "--iterations", "1")
    assert [facts["modeId"] for facts in project.read_journal("session/set_mode")] == [mode]
    assert ran.list_events("mode")[0]["mode"] == mode


def test_a_run_that_allows_everything_keeps_the_agents_mode(project: Project):
    project.run("has_modes", "--permissions", "allow", "--iterations", "1")
    assert project.read_journal("session/set_mode") == []


def test_an_unknown_mode_ends_the_run(project: Project):
    ran = project.run("has_modes", "--mode", "careful")
    assert ran.code == 5
    assert ran.reason.startswith("the agent has no mode 'careful'; expected one of read-only, auto, full-access.")


@pytest.mark.parametrize(
    ("behaviour", "method", "key"),
    [("has_models", "session/set_model", "modelId"), ("has_model_options", "session/set_config_option", "value")],
)
def test_a_session_gets_the_model_of_its_role(project: Project, behaviour: str, method: str, key: str):
    ran = project.run(behaviour, "--model", "fast-1", "--plan-model", "deep", "--iterations", "2")
    assert ran.code == 3
    asked = project.read_journal(method)
    assert [facts[key] for facts in asked] == ["deep-2", "fast-1"]
    assert [event["model"] for event in ran.list_events("model")] == ["deep-2", "fast-1"]
    assert [facts.get("configId") for facts in asked] == ["llm" if key == "value" else None] * 2


@pytest.mark.parametrize(
    ("behaviour", "offered"),
    [("has_models", "fast-1, deep-2"), ("has_model_options", "fast-1, deep-2"), ("good", "(none)")],
)
def test_a_model_that_is_not_offered_ends_the_run(project: Project, behaviour: str, offered: str):
    ran = project.run(behaviour, "--model", "huge-3")
    assert ran.code == 5
    assert ran.reason.startswith(f"the agent offers no model 'huge-3'; expected one of {offered}.")


def test_an_agent_that_never_connects_to_its_tools_ends_the_run(project: Project):
    ran = project.run("finds_no_tools")
    assert ran.code == 5
    assert ran.reason.startswith("the agent has not connected to its tools at http://127.0.0.1:")
    assert len(ran.list_events("tools_not_listed")) == 2
    assert [(each.number, each.attempts) for each in project.list_iterations()] == [(0, 2)]


def test_a_run_is_resumed_in_its_own_project(project: Project, tmp_path: Path):
    data = ("--data", str(tmp_path / "data"))
    assert project.run("good", "--iterations", "2", *data).code == 3
    other = Project(tmp_path / "other", mark=project.mark)
    code, out, err = other.resume("--iterations", "50", *data).finish()
    assert code == 0, out + err
    assert (set(project.read_made_files()), other.read_made_files()) == (set(FILES), {})


def test_a_second_run_in_a_repository_works_in_a_worktree(project: Project):
    git = create_repository(project.root)
    first = project.start("patient", "--commit", name="first")
    first.wait_for_event("iteration_started")
    code, out, err = project.start("good", "--commit", name="second").finish()
    assert code == 0, out + err
    assert project.read_made_files() == {}
    project.release_agent()
    assert first.finish()[0] == 0
    assert git("log", "--format=%s", "shopfloor/second", "--reverse").splitlines()[1:] == [
        "second: iteration 1", "second: iteration 2", "second: iteration 3",
    ]  # fmt: skip
    assert git("log", "--format=%s", "--reverse").splitlines()[1:] == [
        "first: iteration 1", "first: iteration 2", "first: iteration 3",
    ]  # fmt: skip
    assert project.list_tasks("second") == DONE
    assert "project_shared" not in out


def test_a_second_run_without_a_repository_says_that_it_shares_the_folder(project: Project):
    first = project.start("patient", name="first")
    first.wait_for_event("iteration_started")
    second = project.start("patient", name="second")
    assert second.wait_for_event("project_shared")["runs"] == ["first"]
    assert [project.run_command("stop", name).returncode for name in ("first", "second")] == [0, 0]
    assert (first.finish()[0], second.finish()[0]) == (6, 6)


def test_the_live_view_joins_updates_of_a_call_and_separates_iterations():
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    view = LiveView(console)
    view.show("iteration_started", run="r", iteration=1)
    view.show("said", run="r", text="working on TAS-1")
    view.show("tool_call", run="r", id="1", title="write one.txt", kind="edit", status="pending")
    view.show("tool_call", run="r", id="1", title=None, kind=None, status="completed")
    console.print(view.build_panel())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "✓ write one.txt" in shown
    assert "None" not in shown
    assert "pending" not in shown
    view.show("iteration_ended", run="r", iteration=1, outcome="ended", seconds=4.2, tokens=1234)
    ended = console.file.getvalue()  # type: ignore[attr-defined]
    view.show("iteration_started", run="r", iteration=2)
    view.show("said", run="r", text="working on TAS-2")
    console.print(view.build_panel())
    later = console.file.getvalue()[len(ended) :]  # type: ignore[attr-defined]
    assert ("working on TAS-2" in later, "TAS-1" in later, "one.txt" in later) == (True, False, False)


def test_the_live_view_reads_well_in_80_columns():
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    view = LiveView(console)
    view.show("run_started", run="demo", iteration=0, url="http://127.0.0.1:1/mcp")
    view.show("iteration_started", run="demo", iteration=1, attempt=1)
    view.show("said", run="demo", text="I write the ")
    view.show("said", run="demo", text="file.\x1b[31m")
    view.show("plan", run="demo", steps=[["read the specification", "completed"], ["write it", "in_progress"]])
    console.print(view.build_panel())
    panel = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("✓ read the specification" in panel, "▸ write it" in panel, "I write the file." in panel) == (True,) * 3
    view.show("task_completed", run="demo", task="TAS-1", content="make alpha.txt")
    view.show("task_completed", run="demo", task="TAS-2", content="word " * 40)
    view.show("iteration_ended", run="demo", iteration=1, outcome="ended", seconds=4.2, tokens=1234, estimated=True)
    view.show("verified", run="demo", command=["make", "test"], exit=0, seconds=75.0)
    view.show("changes", run="demo", stat=" alpha.txt | 1 +\n 1 file changed, 1 insertion(+)\n")
    view.show("run_ended", run="demo", state="stopped", exit=6, reason="a person stopped it. Continue: shopfloor run")
    lines = console.file.getvalue()[len(panel) :].splitlines()  # type: ignore[attr-defined]
    assert lines[:2] == ["  I write the file. [31m", "  ✓ TAS-1 make alpha.txt  4s · ~1.2k tok"]
    assert lines[2].startswith("  ✓ TAS-2 word word")
    assert lines[2].endswith("…  4s · ~1.2k tok")
    assert lines[3:] == [
        "✓ make test  1m 15s",
        "· changed files",
        "     alpha.txt | 1 +",
        "     1 file changed, 1 insertion(+)",
        "✗ stopped: a person stopped it",
        "    shopfloor run",
    ]
    assert max(map(len, lines)) <= 80


def test_a_question_in_the_live_view_is_shown_whole_above_the_panel():
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    view = LiveView(console)
    diff = "\n".join(f"+line {number}" for number in range(200))
    view.show("permission_asked", run="r", number=3, question=f"May the agent edit: x?\n{diff}")
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("+line 0" in shown, "+line 199" in shown) == (True, True)
