"""Journeys of a crew: scripted agents as real processes, from a specification to a merged branch."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.errors import BadSettings
from shopfloor.runner.worktrees import Worktrees
from tests.runner.crew_support import CrewProject, list_events
from tests.runner.support import EndedRun, StartedRun, wait_until


@pytest.fixture
def project(tmp_path: Path) -> Iterator[CrewProject]:
    """A project whose crews leave no process behind."""
    project = CrewProject(tmp_path / "project")
    yield project
    wait_until(lambda: not project.list_live_processes())


def test_four_workers_take_twelve_tasks_from_a_specification_to_a_merged_branch(project: CrewProject):
    lines = ["base: write base.txt base"]
    lines += [f"part{number}: write part{number}.txt {number} after base" for number in range(1, 9)]
    lines += ["left: append log.txt left after part1, part2", "right: append log.txt right after part3, part4"]
    lines += ["end: append log.txt end after left, right, part5, part6, part7, part8"]
    project.write_spec(*lines)
    ended = project.run_crew("good", workers=4)
    assert (ended.code, ended.err) == (0, "")
    project.check_ledger()
    assert sorted(project.show_file("log.txt").split()) == ["end", "left", "right"]
    assert project.show_file("part7.txt") == "7\n"
    shown = project.show()
    assert (shown["status"], shown["taskCounts"]) == ("completed", {"COMPLETED": 12})
    assert "12 tasks are verified and merged" in shown["report"]
    assert project.git("worktree", "list").count("\n") == 1
    assert project.git("branch", "--list", "shopfloor-crew/*").split() == ["shopfloor-crew/crew/epic"]
    # The project's own branch moves when a person says so.
    assert not (project.root / "base.txt").exists()
    merged = project.run_command("crew", "merge", "crew")
    assert (merged.returncode, merged.stderr) == (0, "")
    assert (project.root / "base.txt").read_text() == "base\n"
    assert "Nothing to merge" in project.run_command("crew", "merge", "crew").stdout


def test_a_conflict_between_two_tasks_is_resolved_through_the_queue(project: CrewProject):
    project.write_spec("left: append log.txt left", "right: append log.txt right")
    ended = project.run_crew("slow")
    assert ended.code == 0, ended.out
    project.check_ledger()
    assert sorted(project.show_file("log.txt").split()) == ["left", "right"]
    [returned] = list_events(ended, "merge_returned")
    assert "conflicts with work that was merged before in\nlog.txt" in returned["why"]
    assert any(
        "Resolve the conflicts (between <<<<<<< and >>>>>>>) in: log.txt" in text for text in project.read_prompts()
    )


def test_work_that_fails_with_the_work_of_others_is_not_merged(project: CrewProject):
    epic = project.plan_epic("left: write left.txt 1", "right: write right.txt 2")
    # Each passes alone.
    check = (
        "import sys; from os.path import exists as e; sys.exit(e('left.txt') and e('right.txt') and not e('fixed.txt'))"
    )
    verify = ("--verify", f'{sys.executable} -c "{check}"')
    crew = project.start_crew("fixes_what_breaks_together", "--epic", epic, *verify)
    wait_until(lambda: len(project.read_prompts()) == 2)
    project.release_agent()
    ended = EndedRun(*crew.finish())
    assert ended.code == 0, ended.out
    project.check_ledger()
    [returned] = list_events(ended, "merge_returned")
    assert returned["why"].startswith("after the merge with the work of others, ")
    # The commit that failed is in no history of the branch.
    for commit in project.git("rev-list", "shopfloor-crew/crew/epic").split():
        files = set(project.git("ls-tree", "--name-only", commit).split())
        assert not {"left.txt", "right.txt"} <= files or "fixed.txt" in files


def test_work_that_fails_its_acceptance_goes_back_to_the_agent_with_the_output(project: CrewProject):
    project.write_spec("one: write one.txt 1")
    ended = project.run_crew("fails_at_first", workers=1)
    assert ended.code == 0, ended.out
    project.check_ledger()
    assert [each["exit"] for each in list_events(ended, "verified")] == [1, 0]
    assert "The work was checked and is not done yet" in project.read_prompts()[-1]


def test_an_agent_that_calls_its_task_done_is_checked_first(project: CrewProject):
    project.write_spec("one: write one.txt 1")
    acceptance = "test -f one.txt"
    ended = project.run_crew("reports_review", "--verify", acceptance, workers=1)
    assert ended.code == 0, ended.out
    project.check_ledger()
    assert len(list_events(ended, "not_verified")) == 1


def test_a_task_without_progress_fails_and_a_person_is_alerted(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew("never_works", "--epic", epic, "--verify", "test -f one.txt", workers=1)
    assert ended.code == 4, ended.out
    assert "failed: task-1" in list_events(ended, "crew_ended")[0]["reason"]
    project.check_ledger(failed=1)
    mails = {mail["subject"]: mail for mail in json.loads(project.run_command("inbox", "--json").stdout)["mails"]}
    assert sorted(mails) == ["Crew crew: failed", "task-1 failed: one"]
    # Each says what happened and how to continue.
    for mail in mails.values():
        shown = project.run_command("inbox", "read", mail["id"]).stdout
        assert "shopfloor crew resume crew --retry-failed\n" in shown, shown
    # Tried again, it has at least one turn.
    project.release_agent()
    resumed = project.resume_crew("--retry-failed")
    assert resumed.code == 0, resumed.out
    project.check_ledger()


def test_a_crew_waits_for_the_answer_to_its_question_and_continues_with_it(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    crew = project.start_crew("blocks_once", "--epic", epic, workers=1)
    waiting = crew.wait_for_event("waiting")
    shown = project.show()
    assert (shown["status"], shown["taskCounts"], len(shown["questions"])) == ("waiting", {"BLOCKED": 1}, 1)
    assert waiting["why"] == f"an answer to {shown['questions'][0]}"
    assert f"shopfloor inbox read {shown['questions'][0]}" in project.run_command("crew", "status", "crew").stdout
    _answer_question(project, "Use blue")
    assert crew.finish()[0] == 0
    project.check_ledger()
    assert project.show_file("one.txt") == "1\n"
    [task] = project.load()[0]
    assert task.attempts == 1
    assert "> Which colour?: Use blue" in project.read_prompts()[-1]
    asked = f"- crew-worker-1 in {shown['questions'][0]}: Which colour?\n  Use blue (operator:operator)"
    assert f"People were asked:\n{asked}" in project.show()["report"]


def test_a_blocked_task_is_never_handed_over_without_another_turn(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew("blocks_once", "--epic", epic, "--question-time", "0.1s", workers=1)
    assert ended.code == 8, ended.out
    reason = list_events(ended, "crew_ended")[0]["reason"]
    assert reason == "no task is ready; blocked: task-1. Continue: shopfloor crew resume crew"
    # Resumed without an answer, it blocks again. The verification passes, but it is of no work.
    assert project.resume_crew().code == 8
    assert (len(project.read_prompts()), project.show()["merges"]) == (2, [])
    _answer_question(project, "Use blue")
    resumed = project.resume_crew()
    assert resumed.code == 0, resumed.out
    project.check_ledger()
    assert project.show_file("one.txt") == "1\n"


def _answer_question(project: CrewProject, answer: str) -> None:
    with project.open_server() as shopfloor:
        mails = shopfloor.call("desk", "inbox_list")["mails"]
        asked = [mail["id"] for mail in mails if mail["subject"] == "Which colour?"]
        shopfloor.call("desk", "inbox_answer", {"mailId": asked[0], "answer": answer})


def test_a_message_in_the_last_turn_of_a_worker_makes_one_more_due(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    # Even if the budget of the task is used up: it would have failed although its work is done.
    crew = project.start_crew("waits", "--epic", epic, "--task-iterations", "1", workers=1)
    wait_until(lambda: len(project.read_prompts()) == 1)
    assert project.run_command("say", "crew.task-1", "Use blue").returncode == 0
    project.release_agent()
    assert crew.finish()[0] == 0
    first, second = project.read_prompts()
    assert ("Use blue" in first, "Use blue" in second) == (False, True)
    project.check_ledger()


def test_a_reviewer_requests_changes_before_the_merge(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    reviewer = project.agent("requests_changes")
    ended = project.run_crew("requests_changes", "--epic", epic, "--reviewer", reviewer, workers=1)
    assert ended.code == 0, ended.out
    project.check_ledger()
    assert project.show_file("reviewed.txt") == "yes\n"
    files = project.git("ls-tree", "--name-only", "shopfloor-crew/crew/epic").split()
    assert "by-reviewer.txt" not in files
    [merge] = project.show()["merges"]
    assert (merge["attempts"], merge["approvedBy"]) == (1, "agent:crew-reviewer")
    # It died in its first turn, and was started again.
    assert ["exit code 3" in event["failure"] for event in list_events(ended, "agent_failed")] == [True]


def test_a_plan_without_tasks_or_with_none_that_can_begin_is_sent_back_to_the_planner(project: CrewProject):
    project.write_spec("one: write one.txt 1")
    ended = project.run_crew("plans_nonsense", workers=1)
    assert ended.code == 0, ended.out
    assert [event["verdict"] for event in list_events(ended, "not_verified")] == [
        "epic-1 has no tasks: create them with mcp__task__create and its epicId",
        "no task can ever begin, because all of them wait for cancelled or blocked ones: task-2",
    ]
    tasks, _ = project.load()
    assert [(task.title, task.state.value) for task in tasks] == [
        ("never", "CANCELLED"),
        ("waits", "CANCELLED"),
        ("one", "COMPLETED"),
    ]
    assert project.show_file("one.txt") == "1\n"


def test_a_planner_that_never_plans_ends_the_crew(project: CrewProject):
    ended = project.run_crew("plans_nothing")
    assert ended.code == 7, ended.out
    assert "there is no plan" in project.show()["reason"]


def test_a_crew_waits_until_a_person_has_approved_its_plan(project: CrewProject):
    project.write_spec("one: write one.txt 1")
    crew = project.start_crew("good", "--approve-plan")
    crew.wait_for_event("asked")
    assert "May the crew crew work" in project.run_command("inbox").stdout
    assert project.show()["status"] == "waiting"
    assert project.show()["taskCounts"] == {"PENDING": 1}
    # A crew that is resumed meanwhile asks again.
    crew.process.kill()
    crew.finish()
    crew = StartedRun(project.start_command("crew", "resume", "crew", "--headless"))
    assert crew.wait_for_event("asked")["how"] == "shopfloor crew approve crew"
    assert "shopfloor crew approve crew [--reject]" in project.run_command("crew", "status", "crew").stdout
    approved = project.run_command("crew", "approve", "crew")
    assert (approved.returncode, approved.stderr) == (0, "")
    assert crew.finish()[0] == 0
    project.check_ledger()


def test_a_rejected_plan_stops_the_crew(project: CrewProject):
    project.write_spec("one: write one.txt 1")
    crew = project.start_crew("good", "--approve-plan")
    crew.wait_for_event("asked")
    project.run_command("crew", "approve", "crew", "--reject")
    assert crew.finish()[0] == 6


def test_a_worker_that_dies_is_replaced_and_its_task_continued(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1", "two: write two.txt 2")
    ended = project.run_crew("dies_once", "--epic", epic)
    assert ended.code == 0, ended.out
    project.check_ledger()
    [returned] = list_events(ended, "task_returned")
    assert "exit code 3" in returned["why"]
    tasks, _ = project.load()
    assert sorted(task.attempts for task in tasks) == [1, 2]


def test_workers_that_keep_dying_are_paused_and_end_the_crew(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew("dies", "--epic", epic, "--attempts", "9", workers=1)
    assert ended.code == 5, ended.out
    assert len(list_events(ended, "task_returned")) == 3
    assert "crew-worker-1 has failed" in project.run_command("inbox").stdout
    assert project.load()[0][0].state == "PENDING"


@pytest.mark.parametrize("behaviour", ["hangs_once", "floods_once"])
def test_a_worker_that_hangs_or_floods_is_ended(project: CrewProject, behaviour: str):
    epic = project.plan_epic("one: write one.txt 1")
    ended = project.run_crew(behaviour, "--epic", epic, "--iteration-time", "3s", workers=1)
    assert ended.code == 0, ended.out
    project.check_ledger()


def test_a_used_up_budget_stops_the_crew_and_says_how_to_continue(project: CrewProject):
    project.write_spec("one: write one.txt 1", "two: write two.txt 2 after one")
    ended = project.run_crew("good", "--tokens", "300", workers=1)
    assert ended.code == 3, ended.out
    reason = list_events(ended, "crew_ended")[0]["reason"]
    assert "the budget of 300 tokens is used up" in reason
    assert "Continue: shopfloor crew resume crew --tokens" in reason
    resumed = project.resume_crew("--tokens", "100000")
    assert resumed.code == 0, resumed.out
    project.check_ledger()


def test_a_stopped_crew_leaves_its_work_and_is_resumed(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1", "two: write two.txt 2")
    crew = project.start_crew("waits", "--epic", epic)
    wait_until(lambda: len(project.read_prompts()) == 2)
    folder = Path(project.read_journal("prompt")[0]["folder"])
    (folder / "draft.txt").write_text("unfinished\n")
    other = Path(project.read_journal("prompt")[1]["folder"])
    assert project.run_command("crew", "pause", "crew").returncode == 0
    assert project.run_command("crew", "resume", "crew").stdout == "crew continues\n"
    stopped = project.run_command("crew", "stop", "crew")
    assert stopped.returncode == 0
    assert f"Uncommitted work stays in {folder}\n" in stopped.stdout
    assert str(other) not in stopped.stdout
    ended = EndedRun(*crew.finish())
    assert ended.code == 6, ended.out
    assert [each["where"].partition(": ")[2] for each in list_events(ended, "work_left")] == [str(folder)]
    assert (folder / "draft.txt").read_text() == "unfinished\n"
    project.release_agent()
    resumed = project.resume_crew()
    assert resumed.code == 0, resumed.out
    project.check_ledger()
    assert project.show_file("draft.txt") == "unfinished\n"


def test_a_killed_crew_is_resumed_and_loses_nothing(project: CrewProject):
    project.write_spec(*(f"part{number}: append log.txt {number}" for number in range(4)))
    for event in ("task_started", "task_handed_over", "task_merged"):
        words = ("crew", "resume", "crew", "--headless") if event != "task_started" else ()
        arguments = words or project.build_crew_arguments("good")
        crew = project.start_command(*arguments)
        for line in crew.stdout:
            if f'"{event}"' in line:
                break
        crew.kill()
        crew.communicate()
        wait_until(lambda: not project.list_live_processes())
        assert project.show()["status"] == "interrupted"
    resumed = project.resume_crew()
    assert resumed.code == 0, resumed.out
    project.check_ledger()
    assert sorted(project.show_file("log.txt").split()) == ["0", "1", "2", "3"]


def test_two_crews_share_an_epic(project: CrewProject):
    epic = project.plan_epic(*(f"part{number}: write part{number}.txt {number}" for number in range(4)))
    first = project.start_crew("slow", "--epic", epic, name="first")
    second = project.start_crew("slow", "--epic", epic, name="second")
    assert [first.finish()[0], second.finish()[0]] == [0, 0]
    tasks, merges = project.load("first")
    assert [task.state.value for task in tasks] == ["COMPLETED"] * 4
    branches = {project.show(name)["branch"] for name in ("first", "second")}
    assert len(branches) == 1
    subjects = project.git("log", "--format=%s", f"main..{branches.pop()}").splitlines()
    assert sorted(subjects) == sorted(f"task-{task.number}: {task.title}" for task in tasks)
    assert {merge.crew for merge in merges.values()} == {"first", "second"}


def test_crews_on_two_machines_share_an_epic_of_one_database(tmp_path: Path, postgres_database: str):
    machines = [CrewProject(tmp_path / name, database=postgres_database) for name in ("first", "second")]
    epic = machines[0].plan_epic(*(f"part{number}: write part{number}.txt {number}" for number in range(6)))
    crews = [
        machine.start_crew("slow", "--epic", epic, name=name)
        for machine, name in zip(machines, ("first", "second"), strict=True)
    ]
    assert [crew.finish()[0] for crew in crews] == [0, 0]
    tasks, merges = machines[0].load("first")
    assert [task.state.value for task in tasks] == ["COMPLETED"] * 6
    # Nothing is done twice: each task has one attempt, one turn and one commit. Nothing is lost: each is in a branch.
    assert [task.attempts for task in tasks] == [1] * 6
    done = []
    for machine, name in zip(machines, ("first", "second"), strict=True):
        subjects = machine.git("log", "--format=%s", f"main..shopfloor-crew/{name}/epic").splitlines()
        of_crew = [task for task in tasks if merges[task.number].crew == name]
        assert sorted(subjects) == sorted(f"task-{task.number}: {task.title}" for task in of_crew)
        assert len(machine.read_prompts()) == len(of_crew) > 0
        machine.git("fsck", "--strict", "--no-dangling")
        done += subjects
    assert len(done) == len(set(done)) == 6
    wait_until(lambda: not any(machine.list_live_processes() for machine in machines))


def test_a_crew_that_begins_at_a_commit_of_another_machine_says_what_is_missing(project: CrewProject):
    worktrees = Worktrees(project.root, "", project.root / "w", "night", "shopfloor-crew/night/epic")
    with pytest.raises(BadSettings, match="begins at the commit 0123456789ab") as refused:
        asyncio.run(worktrees.ensure_branch("0123456789abcdef0123456789abcdef01234567"))
    assert refused.value.hint == "Fetch it, then run `shopfloor crew resume night`"


def test_crews_that_start_at_the_same_moment_create_their_branch_once(project: CrewProject):
    base = project.git("rev-parse", "HEAD").strip()
    branch = "shopfloor-crew/first/epic"
    crews = [Worktrees(project.root, "", project.root / name, name, branch) for name in ("a", "b", "c", "d")]

    async def start() -> None:
        await asyncio.gather(*(crew.ensure_branch(base) for crew in crews))

    asyncio.run(start())
    assert project.git("rev-parse", branch).strip() == base


def test_a_crew_is_scaled_while_it_works(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1", "two: write two.txt 2")
    crew = project.start_crew("waits", "--epic", epic, workers=1)
    wait_until(lambda: len(project.read_prompts()) == 1)
    # Into a pipe, and while the crew works.
    following = project.start_command("crew", "status", "crew", "--follow")
    assert following.stdout.readline() == "crew: running, epic-1, 1 in progress, 1 pending\n"
    refused = project.run_command("crew", "resume", "crew", "--tokens", "9")
    assert (refused.returncode, "its budgets cannot be changed now" in refused.stderr) == (1, True)
    assert project.run_command("crew", "scale", "crew", "2").stdout == "crew has 2 workers\n"
    wait_until(lambda: len(project.read_prompts()) == 2)
    assert [worker["agentId"] for worker in project.show()["workers"]] == ["crew-worker-1", "crew-worker-2"]
    status = project.run_command("crew", "status", "crew").stdout
    assert "crew: running, epic-1, 2 in progress" in status
    project.release_agent()
    assert crew.finish()[0] == 0
    assert "crew: completed, epic-1, 2 completed" in following.communicate()[0]
    project.check_ledger()


def test_a_task_that_is_cancelled_or_given_to_another_worker_stops_the_turn_of_its_agent(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1", "two: write two.txt 2", "three: write three.txt 3")
    crew = project.start_crew("waits", "--epic", epic)
    wait_until(lambda: len(project.read_prompts()) == 2)
    holders = {task.number: task.assignee for task in project.load()[0]}
    with project.open_server() as shopfloor:
        # Not begun yet: its worker begins it when it has no other.
        shopfloor.call("desk", "task_assign", {"number": 3, "agentId": holders[1]})
        shopfloor.call("desk", "task_move", {"number": 2, "state": "CANCELLED"})
        assert crew.wait_for_event("task_lost")["why"] == "task-2 is finished"
        shopfloor.call("desk", "task_assign", {"number": 1, "agentId": holders[2]})
        assert crew.wait_for_event("task_lost")["why"] == f"task-1 is assigned to {holders[2]}"
    wait_until(lambda: len(project.read_prompts()) == 4)
    project.release_agent()
    assert crew.finish()[0] == 0
    tasks, _ = project.load()
    assert [task.state.value for task in tasks] == ["COMPLETED", "CANCELLED", "COMPLETED"]
    assert (tasks[0].assignee, tasks[2].assignee) == (holders[2], holders[1])
    assert {"one.txt", "three.txt"} <= set(project.git("ls-tree", "--name-only", "shopfloor-crew/crew/epic").split())


def test_finished_work_of_an_agent_in_a_terminal_of_its_own_is_merged_too(project: CrewProject):
    epic = project.plan_epic("one: write one.txt 1", "two: write two.txt 2")
    project.git("branch", "by-hand")
    with project.open_server() as shopfloor:
        shopfloor.create_agent("bob")
        shopfloor.call("factory", "mcp__epic__assign", {"epicId": epic, "agentId": "bob"})
        claimed = shopfloor.call("factory", "mcp__task__claim", {}, "bob")["data"]
    crew = project.start_crew("good", "--epic", epic, workers=1)
    crew.wait_for_event("task_merged")
    with project.open_server() as shopfloor:
        given = {"state": "REVIEW", "branchName": "by-hand", "fence": claimed["fence"]}
        assert shopfloor.call("factory", "mcp__task__update_status", given, "bob")["success"]
    assert crew.finish()[0] == 0
    project.check_ledger()
