"""Journeys of crews with options: several kinds of workers, budgets, questions, set-up and automatic merges."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shopfloor.domain.usage import UsageKind
from shopfloor.errors import BadSettings
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.runner import crew_main
from shopfloor.runner.crew_options import change_options, read_crew_options
from tests.operator_access import read_as_operator
from tests.runner.crew_support import CHECK, CrewProject, list_events
from tests.runner.support import PATIENCE, EndedRun, StartedRun, wait_until


@pytest.fixture
def project(tmp_path: Path) -> Iterator[CrewProject]:
    """A project whose crews leave no process behind."""
    project = CrewProject(tmp_path / "project")
    yield project
    wait_until(lambda: not project.list_live_processes())


def test_a_mixed_crew_has_workers_of_several_kinds_and_roles_of_its_file(project: CrewProject):
    # One kind never works. What it fails at is done by the other kind, and every task is merged once.
    file = project.root / ".crew.toml"
    file.write_text(
        f"""
[crew]
verify = [{json.dumps([sys.executable, "-c", CHECK])}]
attempts = 9

[[worker]]
agent = '{project.agent("dies")}'
count = 1
permissions = "allow"
grace = "2s"

[[worker]]
agent = '{project.agent("good")}'
count = 2
permissions = "allow"
grace = "2s"
extra = "Kind two."

[planner]
agent = '{project.agent("good")}'

[reviewer]
agent = '{project.agent("good")}'
"""
    )
    project.write_spec(*(f"part{number}: write part{number}.txt {number}" for number in range(4)))
    words = ("crew", "start", "--name", "crew", "--headless", "--crew", str(file), "--spec", "SPEC.md")
    ended = EndedRun(*StartedRun(project.start_command(*words)).finish(PATIENCE))
    assert (ended.code, ended.err) == (0, "")
    project.check_ledger()
    workers = {event["worker"] for event in list_events(ended, "task_handed_over")}
    assert workers <= {"crew-worker-2", "crew-worker-3"}
    assert any("Kind two." in text for text in project.read_prompts())
    merges = project.show()["merges"]
    assert {merge["approvedBy"] for merge in merges} == {"agent:crew-reviewer"}


def test_each_role_has_the_model_of_the_command_line(project: CrewProject):
    project.write_spec("one: write one.txt 1")
    models = ("--model", "fast-1", "--planner-model", "deep-2", "--reviewer-model", "deep-3")
    reviewer = project.agent("has_models")
    ended = project.run_crew("has_models", *models, "--reviewer", reviewer, workers=1)
    assert ended.code == 0, ended.out
    assert [facts["model"] for facts in project.read_journal("model")] == ["deep-2", "fast-1", "deep-3"]


def test_a_planner_of_the_same_agent_has_the_model_of_the_workers():
    same = read_crew_options(None, {}, {"worker": {"agent": "x", "model": "m"}})
    other = read_crew_options(None, {}, {"worker": {"agent": "x", "model": "m"}, "planner": {"agent": "y"}})
    assert same.planner is not None
    assert other.planner is not None
    assert (same.planner.model, other.planner.model) == ("m", None)


CREW_FILE = """
[crew]
attempts = 0
[[worker]]
agent = "x"
[[worker]]
agent = "x"
permissions = "often"
[planner]
agent = "x"
iteration = 5
"""


def test_a_wrong_option_is_named_as_the_person_wrote_it(tmp_path: Path):
    file = tmp_path / "crew.toml"
    file.write_text(CREW_FILE)
    wrong: list[tuple[dict[str, Any], dict[str, dict[str, Any]], str]] = [
        ({"cost": 0.0}, {}, "--cost must be more than 0"),
        ({"worker_tokens": 0}, {}, "--worker-tokens must be at least 1"),
        ({}, {"worker": {"permissions": "no"}}, "--permissions must be one of ask, allow, deny, rules"),
        ({}, {"worker": {"tokens": 0}}, "--task-tokens must be at least 1"),
        ({}, {"worker": {"grace": "long"}}, "--grace is invalid: expected a duration such as 90s, 30m, 2h or 1d"),
        ({}, {"reviewer": {"agent": ""}}, "--reviewer is invalid: a command must not be empty"),
        ({}, {"reviewer": {"model": "m"}}, "--reviewer-model has no effect without --reviewer"),
    ]
    for given, roles, text in wrong:
        with pytest.raises(BadSettings) as error:
            read_crew_options(None, given, roles)
        assert str(error.value) == text
    with pytest.raises(BadSettings) as error:
        read_crew_options(file, {}, {"worker": {"tokens": 0}})
    assert str(error.value).split("; ") == [
        "`attempts` in [crew] must be at least 1",
        "--task-tokens must be at least 1",
        f"`permissions` in [[worker]] number 2 of {file} must be one of ask, allow, deny, rules",
        f"`iteration` in [planner] of {file} is unknown",
    ]
    with pytest.raises(BadSettings) as error:
        change_options({"worker": [{"agent": ["x"]}]}, {"worker_cost": 0}, {"tokens": 0})
    assert str(error.value) == "--worker-cost must be more than 0; --task-tokens must be at least 1"


@pytest.mark.parametrize(
    ("spec", "title"), [("\n# Files\n\n- one", "Files"), ("- one: 1\n- two", "one: 1"), ("---\n***\n", "SPEC")]
)
def test_the_epic_of_a_specification_has_its_first_line_as_title(spec: str, title: str):
    assert crew_main._find_title(spec, Path("SPEC.md")) == title


def test_auto_merge_brings_verified_work_into_the_project(project: CrewProject):
    project.write_spec("one: write one.txt 1", "two: write two.txt 2")
    ended = project.run_crew("good", "--auto-merge")
    assert ended.code == 0, ended.out
    project.check_merged()
    assert (project.root / "one.txt").read_text() == "1\n"
    [merged] = list_events(ended, "merged")
    assert merged["how"].startswith("Merged shopfloor-crew/crew/epic as ")


def test_a_crew_is_merged_into_a_project_that_has_moved_on(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew("good", "--epic", epic, workers=1)
    assert ended.code == 0, ended.out
    (project.root / "mine.txt").write_text("mine\n")
    project.git("add", "mine.txt")
    project.git("commit", "--quiet", "--message=Mine")
    merged = project.run_command("crew", "merge", "crew")
    assert (merged.returncode, merged.stderr) == (0, "")
    assert (project.root / "one.txt").read_text() == "1\n"
    assert (project.root / "mine.txt").read_text() == "mine\n"
    project.check_merged()


def test_a_worker_whose_budget_is_used_up_takes_no_more_tasks(project: CrewProject):
    # Every turn costs more than the budget, so that no worker takes a second task, and the third is left.
    file = project.root / ".crew.toml"
    file.write_text("[crew]\nworker_tokens = 100\n")
    epic = project.plan_epic(*(f"part{number}: write part{number}.txt {number}" for number in range(3)))
    ended = project.run_crew("good", "--epic", epic, "--crew", str(file))
    assert ended.code == 3, ended.out
    assert {event["worker"] for event in list_events(ended, "worker_dismissed")} == {"crew-worker-1", "crew-worker-2"}
    reason = list_events(ended, "crew_ended")[0]["reason"]
    assert "every worker has used up its budget: the budget of 100 tokens is used up" in reason
    assert "Continue: shopfloor crew resume crew --worker-tokens " in reason
    tasks, _ = project.load()
    states = [task.state.value for task in tasks]
    assert states.count("PENDING") == 1
    assert set(states) <= {"PENDING", "IN_PROGRESS", "REVIEW", "COMPLETED"}
    resumed = project.resume_crew("--worker-tokens", "100000")
    assert resumed.code == 0, resumed.out
    project.check_ledger()


def test_a_task_whose_worker_has_used_its_budget_up_is_continued_by_another(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew("idles_once", "--epic", epic, "--verify", "test -f one.txt", "--worker-iterations", "1")
    assert ended.code == 0, ended.out
    project.check_ledger()
    first = list_events(ended, "worker_dismissed")[0]["worker"]
    [task] = project.load()[0]
    assert {first, task.assignee} == {"crew-worker-1", "crew-worker-2"}
    # What happened is a comment, which the prompt of the next attempt has.
    assert f"> PENDING: the budget of {first} is used up" in project.read_prompts()[-1]


def test_a_task_whose_budget_is_used_up_is_tried_again_with_a_larger_one(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew("fails_at_first", "--epic", epic, "--task-iterations", "1", workers=1)
    assert ended.code == 4, ended.out
    hint = "Continue: shopfloor crew resume crew --retry-failed --task-iterations 2"
    assert list_events(ended, "crew_ended")[0]["reason"].endswith(hint)
    assert f"the budget of 1 iteration is used up. {hint}" in project.show()["report"]
    unchanged = project.resume_crew()
    assert unchanged.code == 4, unchanged.out
    resumed = project.resume_crew("--retry-failed", "--task-iterations", "3")
    assert resumed.code == 0, resumed.out
    project.check_ledger()
    assert "An earlier attempt ended with: not verified: " in project.read_prompts()[1]


def test_set_up_commands_prepare_each_worktree_and_a_failure_is_reported(project: CrewProject):
    make = "import pathlib; pathlib.Path('.setup').write_text(''); pathlib.Path('.git/info').exists()"
    check = "import pathlib, sys; sys.exit(not pathlib.Path('.setup').exists())"
    (project.root / ".gitignore").write_text((project.root / ".gitignore").read_text() + ".setup\n")
    project.git("commit", "--quiet", "--all", "--message=Ignore")
    epic = project.plan_epic("one: write one.txt 1", "two: write two.txt 2")
    options = ("--setup", f'{sys.executable} -c "{make}"', "--verify", f'{sys.executable} -c "{check}"')
    ended = project.run_crew("good", "--epic", epic, *options)
    assert ended.code == 0, ended.out
    project.check_ledger()
    epic = project.plan_epic("three: write three.txt 3")
    failing = f'{sys.executable} -c "import sys; sys.exit(5)"'
    ended = project.run_crew("good", "--epic", epic, "--setup", failing, workers=1, name="second")
    assert ended.code == 4, ended.out
    [returned] = list_events(ended, "task_returned")
    assert "the worktree cannot be prepared" in returned["why"]
    assert "exit code 5" in returned["why"]


def test_a_question_names_its_worker_and_task_and_always_holds_for_the_crew(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1", "two: write two.txt 2")
    crew = project.start_crew("asks", "--epic", epic, "--permissions", "ask", workers=1)
    crew.wait_for_event("permission_asked")
    [request] = project.show()["requests"]
    assert (request["agentId"], request["task"], request["options"]) == (
        "crew-worker-1",
        1,
        ["allow", "always", "deny"],
    )
    assert "make install" in request["question"]
    inbox = project.run_command("inbox").stdout
    assert "crew-worker-1" in inbox
    assert "task-1" in inbox
    with project.open_server() as shopfloor:
        shopfloor.call("desk", "inbox_decide", {"request": request["request"], "answer": "always"})
    code, out, _ = crew.finish()
    # The second task asks for the same.
    assert (code, "permission_asked" in out) == (0, False)
    project.check_ledger()
    allowed = {"outcome": "selected", "optionId": "allow_once"}
    assert [answer["outcome"] for answer in project.read_journal("answer")] == [allowed] * 2
    report = project.show()["report"]
    assert "People were asked:\n- crew-worker-1 on task-1: " in report
    assert "\n  always (operator:operator)" in report


def test_the_usage_of_a_crew_is_recorded_for_its_agents_and_tasks(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew("good", "--epic", epic, workers=1)
    assert ended.code == 0, ended.out
    [worker] = project.show()["workers"]
    assert worker["tokens"] > 0
    with project.open_server() as shopfloor:

        def read(uow: UnitOfWork) -> list[int]:
            named = ((UsageKind.AGENT, "crew-worker-1"), (UsageKind.TASK, "1"), (UsageKind.RUN, "crew.task-1"))
            return [day.tokens for kind, name in named for day in uow.usage.list_days(kind, name, 0, 9)]

        assert read_as_operator(shopfloor, read) == [worker["tokens"]] * 3


def test_a_reviewer_can_change_nothing_but_the_task_of_its_review(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1", "two: write two.txt 2")
    reviewer = project.agent("oversteps")
    ended = project.run_crew("good", "--epic", epic, "--reviewer", reviewer, workers=1)
    assert ended.code == 0, ended.out
    project.check_ledger()
    oversteps = project.read_journal("overstep")
    assert len(oversteps) == 12
    assert not any(each["success"] for each in oversteps)


def test_a_killed_server_does_not_disturb_a_crew(project: CrewProject):
    epic = project.plan_epic(*(f"part{number}: append log.txt {number}" for number in range(4)))
    serve = ("serve", "--port", "0")
    server = project.start_command(*serve)
    crew = project.start_crew("slow", "--epic", epic)
    for event in ("task_started", "task_merged"):
        crew.wait_for_event(event)
        os.kill(server.pid, signal.SIGKILL)
        server.communicate()
        server = project.start_command(*serve)
    assert crew.finish()[0] == 0
    project.check_ledger()
    os.kill(server.pid, signal.SIGTERM)
    server.communicate()
    assert sorted(project.show_file("log.txt").split()) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--workers", "0"), "A crew needs a worker"),
        (("--name", "a b"), "'a b' cannot be the name of a crew"),
        (("--name", "x" * 41), f"'{'x' * 41}' cannot be the name of a crew"),
        (("--epic", "epic-1"), "Name a specification or an epic, not both"),
        (("--crew", "none.toml"), "Crew file not found: none.toml"),
        (("--spec", "empty.md"), "The specification empty.md is empty"),
    ],
)
def test_a_crew_that_cannot_work_is_not_started(project: CrewProject, options: tuple[str, ...], text: str):
    project.write_spec("one: write one.txt 1")
    (project.root / "empty.md").write_text("\n")
    refused = project.run_command(*project.build_crew_arguments("good"), *options)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[0] == f"shopfloor: {text}"
    with project.open_server() as shopfloor:
        assert shopfloor.call("desk", "crew_list")["crews"] == []


def test_an_agent_reaches_its_worktree_alone_which_has_no_uncommitted_changes(project: CrewProject):
    committed = (project.root / ".gitignore").read_text()
    (project.root / ".gitignore").write_text(f"{committed}more\n")
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew("leaves_its_worktree", "--epic", epic, workers=1)
    assert ended.code == 0, ended.out
    [warning] = list_events(ended, "warning")
    assert warning["text"].startswith("uncommitted changes to 1 file are not part of the work, which begins at ")
    [files] = project.read_journal("files")
    assert (files["write inside"], files["write outside"]) == (True, False)
    assert (project.show_file("mine.txt"), (project.root / "mine.txt").exists()) == ("mine\n", False)
    assert files["read inside"]["result"]["content"] == committed
    assert "error" in files["read outside"]
    # Its tools see the same files.
    assert "more" not in str(files["tool"])
    assert ".journal" in str(files["tool"])
