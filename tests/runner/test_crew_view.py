"""The lines that a crew prints on a terminal."""

from __future__ import annotations

import io

import pytest

from shopfloor.runner.crew_view import CrewView


def show(event: str, **facts: object) -> list[str]:
    """Return the lines of an event, without their times."""
    stream = io.StringIO()
    CrewView(stream).show(event, **facts)
    return [line[9:] for line in stream.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def _narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")


def test_events_are_sentences_about_a_worker():
    started = show("task_started", crew="night", worker="night-worker-1", task="task-4", title="Write the parser")
    assert started == ["night-worker-1: begins task-4 Write the parser"]
    returned = show("task_returned", crew="n", worker="w", task="task-4", state="FAILED", why="nothing has changed")
    assert returned == ["w: task-4 has failed: nothing has changed"]
    assert show("verified", worker="w", run="r", command=["make", "test"], exit=2) == [
        "w: `make test` fails with exit code 2"
    ]


@pytest.mark.parametrize(("workers", "text"), [(1, "1 worker"), (3, "3 workers")])
def test_the_start_counts_the_workers(workers: int, text: str):
    started = show("crew_started", crew="night", epic="epic-3", branch="b", workers=workers)
    assert started == [f"night: {text} on epic-3, branch b"]


def test_a_plan_lists_its_tasks():
    tasks = [f"task-{number} part" for number in range(1, 11)]
    planned = show("planned", crew="night", epic="epic-3", phase="approval", tasks=tasks)
    assert planned[0] == "night: planned epic-3: 10 tasks"
    assert planned[1:3] == ["task-1 part", "task-2 part"]
    assert planned[-1] == "… 2 more lines"
    assert show("planned", crew="n", epic="epic-3", phase="work", tasks=["task-1 a"])[0] == "n: planned epic-3: 1 task"


def test_long_lines_are_cut_to_the_terminal_but_not_what_a_person_copies():
    [line] = show("task_started", crew="night", worker="w", task="task-4", title="x" * 100)
    assert len(line) + 9 == 60
    assert line.endswith("x…")
    [left] = show("task_left", crew="night", worker="w", task="task-4", folder="/data/" + "x" * 100)
    assert left.endswith("x" * 100)


def test_a_reason_is_wrapped_and_the_command_that_continues_is_on_a_line_of_its_own():
    why = "the budget of 3 iterations is exhausted by a task. Continue: shopfloor crew resume night --task-iterations 6"
    assert show("task_returned", crew="night", worker="w", task="task-4", state="FAILED", why=why) == [
        "w: task-4 has failed: the budget of 3 iterations is",
        "exhausted by a task",
        "Continue: shopfloor crew resume night --task-iterations 6",
    ]


def test_a_task_without_changes_is_not_called_merged():
    facts = {"crew": "night", "task": "task-4", "commit": "abc"}
    assert show("task_merged", **facts, changed=True) == ["night: task-4 is merged as abc"]
    assert show("task_merged", **facts, changed=False) == ["night: task-4 is completed without changes"]


def test_output_follows_its_line_and_is_limited():
    why = "\n".join(["`make` failed", *(f"line {number}" for number in range(20))])
    lines = show("merge_returned", crew="night", task="task-4", why=why)
    assert lines[:2] == ["night: task-4 is not merged: `make` failed", "line 0"]
    assert lines[-1] == "… 12 more lines"


def test_a_question_is_shown_whole_with_the_command_that_answers_it():
    diff = [f"+line {number}" for number in range(20)]
    question = "\n".join(["night-worker-1, night.task-4: May the agent edit: main.py?", *diff])
    assert show("permission_asked", run="night.task-4", worker="night-worker-1", number=3, question=question) == [
        "night-worker-1: night.task-4: May the agent edit: main.py?",
        *diff,
        "shopfloor inbox answer request-3 allow|always|deny",
    ]


def test_text_of_agents_cannot_control_the_terminal():
    [line] = show("not_verified", worker="w", run="r", verdict="\x1b[2Jgone")
    assert line == "w: not done yet:  [2Jgone"


def test_the_end_says_how_to_continue():
    reason = "a person stopped it. Continue: shopfloor crew resume night"
    assert show("crew_ended", crew="night", state="stopped", exit=6, reason=reason, auto_merge=False) == [
        "night: stopped: a person stopped it",
        "Continue: shopfloor crew resume night",
    ]
    done = {"crew": "night", "state": "completed", "exit": 0, "reason": "2 tasks are merged"}
    merge = "Merge it: shopfloor crew merge night"
    assert show("crew_ended", **done, auto_merge=False) == ["night: completed: 2 tasks are merged", merge]
    assert show("crew_ended", **done, auto_merge=True) == ["night: completed: 2 tasks are merged"]


def test_events_without_a_line_are_left_out():
    assert show("agent_ready", worker="w", run="r", agent="") == []
