"""What people and reviewers decide: the plan of a run, its finished work, and tasks with a command of their own."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from tests.runner.support import AGENT, FILES, Project, create_repository, wait_until

DONE = [(f"make {name}", "completed") for name in FILES]


def reviewer(behaviour: str) -> tuple[str, str]:
    return "--reviewer", f"{sys.executable} {AGENT} {behaviour}"


# Reviews


def test_a_rejection_is_in_the_next_prompt_and_an_approval_ends_the_run(project: Project):
    create_repository(project.root)
    ran = project.run("good", *reviewer("reviews"), "--review-rounds", "3")
    assert ran.code == 0, ran.out
    assert [event["state"] for event in ran.list_events("reviewed")] == ["rejected", "approved"]
    asked = (project.root.parent / "review-0").read_text()
    for text in ("- make one.txt", "+content of one.txt", "1 acceptance command passed"):
        assert text in asked
    prompts = [facts["text"] for facts in project.read_journal("session/prompt")]
    assert sum("one.txt needs a full stop" in text for text in prompts) == 1
    first = project.read_journal("review")[0]
    assert first["written"]["message"] == "A reviewer may not write files"
    assert first["asked"]["outcome"]["optionId"] == "no"
    assert first["read"]["content"] == "content of one.txt\n"
    assert first["first"] == [True, "Recorded: rejected. End your turn now."]
    assert first["again"][1].startswith("error: this review already has its verdict")
    assert project.read_run().tokens == 100
    assert project.read_made_files()["one.txt"] == "content of one.txt\n"
    shown = project.run_command("runs", "transcript", "run", "--full", "--limit", "500").stdout
    assert "You review the work of another agent" in shown


def test_words_of_a_reviewer_are_no_verdict_and_a_person_decides(project: Project):
    run = project.start("good", *reviewer("approves_in_words"))
    request = run.wait_for_event("asked")
    assert request["kind"] == "review"
    assert "the reviewer ended without a verdict" in request["question"]
    assert project.run_command("inbox", "answer", f"request-{request['number']}", "approve").returncode == 0
    assert run.finish()[0] == 0


def test_after_too_many_rejections_a_person_decides_in_words(project: Project):
    run = project.start("good", *reviewer("rejects"), "--review-rounds", "1")
    request = run.wait_for_event("asked")
    assert "rejected it 1 times, most recently:\nstill wrong" in request["question"]
    answer = ("inbox", "answer", f"request-{request['number']}", "Use a full stop")
    assert project.run_command(*answer).returncode == 0
    assert run.wait_for_event("asked")["number"] > request["number"]
    assert project.run_command("stop", "run").returncode == 0
    assert run.finish()[0] == 6
    prompts = [facts["text"] for facts in project.read_journal("session/prompt")]
    assert any("Use a full stop" in text for text in prompts)


def test_a_rejection_survives_a_kill_and_is_neither_repeated_nor_forgotten(project: Project):
    run = project.start("good", *reviewer("rejects"), "--review-rounds", "2")
    assert run.wait_for_event("reviewed")["state"] == "rejected"
    run.process.kill()
    run.process.communicate()
    wait_until(lambda: not project.list_live_processes())
    before = len(project.read_journal("session/prompt"))
    resumed = project.resume()
    assert "rejected it 2 times, most recently:\nstill wrong" in resumed.wait_for_event("asked")["question"]
    assert project.run_command("stop", "run").returncode == 0
    assert resumed.finish()[0] == 6
    prompts = [facts["text"] for facts in project.read_journal("session/prompt")][before:]
    # One turn of the agent with the first rejection, and one of the reviewer: the second review.
    assert ["still wrong" in text for text in prompts if "You review the work" not in text] == [True]
    assert sum("You review the work" in text for text in prompts) == 1


def test_a_reviewer_that_changes_files_does_not_count(project: Project):
    create_repository(project.root)
    run = project.start("good", *reviewer("changes_files_and_approves"))
    assert "the reviewer has changed files" in run.wait_for_event("asked")["question"]
    assert project.run_command("stop", "run").returncode == 0
    assert run.finish()[0] == 6


def test_an_agent_cannot_give_the_verdict_of_its_reviewer(project: Project):
    run = project.start("reviews_itself", *reviewer("approves_in_words"))
    run.wait_for_event("asked")
    answers = [facts["answer"] for facts in project.read_journal("own verdict")]
    assert {(good, text.partition("\n")[0]) for good, text in answers} == {
        (False, "error: Tool 'review-verdict' is not allowed for agent type 'RUN'")
    }
    assert project.run_command("stop", "run").returncode == 0
    assert run.finish()[0] == 6


# The plan


def test_work_begins_once_a_person_has_approved_the_plan(project: Project):
    run = project.start("good", "--approve-plan", "--time", "20m")
    request = run.wait_for_event("asked")
    assert request["kind"] == "plan"
    assert "TAS-1 [remaining, priority 2] make one.txt" in request["question"]
    rejection = ("runs", "answer", str(request["number"]), "Begin with two.txt")
    assert project.run_command(*rejection).returncode == 0
    second = run.wait_for_event("asked")
    prompt = project.read_journal("session/prompt")[1]["text"]
    assert "Begin with two.txt" in prompt
    assert "did not approve it" in prompt
    # Killed while it waits, it asks the same question again.
    run.process.kill()
    run.process.communicate()
    wait_until(lambda: not project.list_live_processes())
    resumed = project.resume()
    assert resumed.wait_for_event("asked")["number"] == second["number"]
    assert project.run_command("inbox", "answer", f"request-{second['number']}", "approve").returncode == 0
    assert resumed.finish()[0] == 0
    assert project.list_tasks() == DONE


def test_a_plan_that_no_person_approves_ends_the_run(project: Project):
    ran = project.run("good", "--approve-plan", "--question-time", "0.5s")
    assert ran.code == 9
    assert ran.reason.startswith("a decision on request-1 did not arrive within 0.5 s")
    [waiting] = ran.list_events("waiting")
    assert waiting["why"] == "a decision on request-1"
    assert datetime.fromisoformat(waiting["until"]) <= datetime.now(UTC)
    assert project.read_made_files() == {}


# Tasks with a command


def test_a_completed_task_whose_command_fails_is_remaining_again(project: Project):
    run = project.start("completes_too_early", "--approve-plan")
    request = run.wait_for_event("asked")
    command = f"{sys.executable} -c \"open('one.txt')\""
    assert project.run_command("runs", "accept", "run", "TAS-1", command).returncode == 0
    assert project.run_command("runs", "answer", str(request["number"]), "approve").returncode == 0
    assert run.wait_for_event("task_reopened")["task"] == "TAS-1"
    assert run.finish()[0] == 0
    assert project.list_tasks() == DONE
    # Three tasks and the one that came back.
    assert len(project.read_journal("worked")) == 4
    prompts = [facts["text"] for facts in project.read_journal("session/prompt")]
    assert sum("TAS-1 was completed, but its acceptance command does not pass" in text for text in prompts) == 1
