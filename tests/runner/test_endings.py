"""How runs end when the work is not done, and what keeps them from ending too early."""

from __future__ import annotations

import json
import sys

import pytest

from tests.runner.support import FILES, Project, wait_until

PASSES = f"{sys.executable} -c pass"


def test_a_run_without_tasks_is_not_done(project: Project):
    ran = project.run("plans_nothing", "--no-progress", "1", verify=PASSES)
    ended = ran.list_events("run_ended")[0]
    assert (ran.code, ended["state"]) == (7, "empty")
    assert ran.reason == "the agent has planned no task. Continue: shopfloor run --resume run"
    assert project.read_journal("session-complete")[0]["said"].startswith(
        "error: the session is not complete: there are no"
    )


def test_a_run_with_blocked_tasks_is_not_done(project: Project):
    ran = project.run("blocks_all", verify=PASSES)
    ended = ran.list_events("run_ended")[0]
    assert (ran.code, ended["state"]) == (8, "blocked")
    assert "0 of 3 tasks are settled and 1 acceptance command passed" in ran.reason
    assert "it passed before the first iteration too; blocked: TAS-1, TAS-2, TAS-3" in ran.reason
    [mail] = json.loads(project.run_command("inbox", "--json").stdout)["mails"]
    assert (mail["subject"], mail["from"]) == ("Run run ended: blocked", "shopfloor")
    assert "shopfloor run --resume run" in project.run_command("inbox", "read", mail["id"]).stdout


def test_a_run_waits_for_the_person_it_asked_without_using_its_time(project: Project):
    run = project.start("blocks_all_and_asks", "--time", "60s", verify=PASSES)
    waiting = run.wait_for_event("waiting")
    assert waiting["why"] == "an answer to request-1"
    [row] = json.loads(project.run_command("runs", "--json").stdout)["runs"]
    assert (row["state"], row["reason"].startswith("until 20")) == ("waiting", True)
    assert project.run_command("inbox", "answer", "request-1", "blue").returncode == 0
    code, out, _ = run.finish()
    assert code == 0, out
    assert [each.number for each in project.list_iterations()] == [0, 1, 2, 3, 4]
    assert project.list_tasks() == [(f"make {name}", "completed") for name in FILES]


def test_an_unanswered_question_has_its_own_ending(project: Project):
    ran = project.run("blocks_all_and_asks", "--question-time", "0.3s", verify=PASSES)
    assert (ran.code, ran.list_events("run_ended")[0]["state"]) == (9, "unanswered")
    assert ran.reason.startswith("an answer to request-1 did not arrive within 0.3 s")
    assert len(project.list_iterations()) == 2


def test_a_verification_that_was_green_before_the_start_is_reported(project: Project):
    ran = project.run("good", verify=PASSES)
    assert (ran.code, ran.list_events("verified_before")[0]["passed"]) == (0, True)
    assert ran.reason.endswith("1 acceptance command passed; it passed before the first iteration too")


def test_words_in_the_last_iteration_make_one_more_due(project: Project):
    run = project.start("pauses_at_the_end")
    wait_until(lambda: project.read_journal("last task"))
    assert project.run_command("say", "run", "Wait: also make four.txt").returncode == 0
    project.release_agent()
    assert run.finish()[0] == 0
    prompts = [facts["text"] for facts in project.read_journal("session/prompt")]
    assert ["also make four.txt" in text for text in prompts] == [False] * 4 + [True]


def test_tokens_are_counted_per_request_and_not_as_the_size_of_the_context(project: Project):
    ran = project.run("spends", "--tokens", "150000")
    assert ran.code == 3
    assert ran.list_events("iteration_ended")[0]["estimated"] is True
    assert project.read_run().tokens == 600_000


def test_a_budget_without_reports_is_said_to_have_no_effect(project: Project):
    ran = project.run("good", "--tokens", "5")
    assert (ran.code, len(ran.list_events("tokens_unreported"))) == (0, 1)


@pytest.mark.parametrize("option", ["--cost", "--tokens", "--iterations"])
def test_a_budget_of_zero_is_rejected(project: Project, option: str):
    ran = project.run("good", option, "0")
    assert ran.code == 1
    assert option.removeprefix("--") in ran.err


def test_commits_of_the_config_file_can_be_switched_off(project: Project):
    (project.root / "shopfloor.toml").write_text("[run]\ncommit = true\n")
    assert project.run("good", "--no-commit", "--iterations", "1").code == 3


def test_a_rate_limit_is_waited_for_and_uses_no_iteration(project: Project):
    ran = project.run("is_rate_limited", "--rate-limit-pause", "0.3s")
    assert ran.code == 0
    assert [event["why"] for event in ran.list_events("waiting")] == ["the provider's rate limit"] * 2
    assert [(each.number, each.attempts) for each in project.list_iterations()] == [(0, 3), (1, 1), (2, 1), (3, 1)]


def test_a_pause_uses_up_no_time(project: Project):
    run = project.start("patient", "--time", "300s")
    run.wait_for_event("iteration_started")
    project.run_command("pause", "run")
    project.release_agent()
    run.wait_for_event("paused")
    before = project.read_run().spent
    project.run_command("runs")
    project.run_command("stop", "run")
    run.finish()
    assert project.read_run().spent == before
