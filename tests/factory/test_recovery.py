"""What silent and crashing agents leave behind finds its way back."""

from __future__ import annotations

import pytest

from shopfloor.usecases import agents, recovery

SILENCE = 420


def reconcile(team):
    return team.do(recovery.return_tasks_of_silent)


def crash(team, name="w1", times=1):
    for _ in range(times):
        agent = team.do(lambda work: agents.crashed(work, name))
    return agent


def state(team, name="w1"):
    """Seen from outside: asking the agent itself would be a sign of life."""
    listed = team.call("sup", "mcp__supervisor__list_agents")["agents"]
    return next(agent["state"] for agent in listed if agent["id"] == name)


def test_the_task_of_a_silent_agent_goes_back_to_the_queue(team_anywhere):
    team = team_anywhere
    task = team.task("Paint it")
    fence = team.call("w1", "mcp__task__claim", taskId=task)["fence"]
    team.skip(SILENCE - 5)
    assert reconcile(team) == 0
    team.skip(10)
    assert reconcile(team) == 1
    assert reconcile(team) == 0
    assert team.call("w2", "mcp__task__claim", taskId=task)["task"]["attempts"] == 2
    code, message = team.refused("w1", "mcp__task__update_status", taskId=task, state="REVIEW", fence=fence)
    assert code == "INVALID_AGENT_STATE"
    assert "held by w2" in message
    assert "w1 was silent for more than 420 s" in message


def test_supervisor_and_person_are_told_once_each(team):
    for _ in range(2):
        team.call("orc", "mcp__task__assign", taskId=team.task(), agentId="w1")
    team.skip(SILENCE + 5)
    assert reconcile(team) == 2
    assert reconcile(team) == 0
    (mail,) = team.inbox("sup")
    assert mail["subject"] == "w1 has gone silent"
    assert "task-1 A task: PENDING again\ntask-2 A task: PENDING again" in mail["body"]
    assert [mail["subject"] for mail in team.call(None, "inbox_list")["mails"]] == ["w1 has gone silent"]


def test_who_calls_or_waits_is_not_silent(team):
    task = team.task()
    team.call("w1", "mcp__task__claim", taskId=task)
    for _ in range(10):
        team.skip(SILENCE / 2)
        team.call("w1", "mcp__agent__get_status")
        team.floor.works.store.flush()
        assert reconcile(team) == 0
    team.do(lambda work: work.agents.wait("w1", work.now + 10**12))
    team.skip(SILENCE * 2)
    assert reconcile(team) == 0


def test_a_new_assignment_gives_a_silent_agent_time(team):
    team.skip(SILENCE * 10)
    team.call("orc", "mcp__task__assign", taskId=team.task(), agentId="w1")
    assert reconcile(team) == 0


def test_a_task_fails_at_its_fifth_attempt(team):
    task = team.task()
    for attempt in range(1, 6):
        claim = team.call("w1", "mcp__task__claim", taskId=task)
        assert claim["task"]["attempts"] == attempt
        team.skip(SILENCE + 5)
        assert reconcile(team) == 1
    failed = team.call("sup", "mcp__task__get", taskId=task)
    assert failed["state"] == "FAILED"
    assert "FAILED after 5 attempts" in team.inbox("sup")[0]["body"]
    assert team.call("w1", "mcp__agent__get_status")["currentTaskId"] is None


def test_the_log_tells_what_the_reconciler_did(team):
    task = team.task()
    team.call("w1", "mcp__task__claim", taskId=task)
    team.skip(SILENCE + 5)
    reconcile(team)
    entry = team.call("sup", "mcp__system__list_decisions", taskId=task)["decisions"][0]
    assert (entry["decision"], entry["reasoning"]) == (
        f"{task} is PENDING again",
        "w1 was silent for more than 420 s",
    )
    assert (entry["agentId"], entry["actor"]) == ("w1", "floor:reconciler")


def test_three_crashes_in_a_minute_mark_an_agent_as_failed(team_anywhere):
    team = team_anywhere
    task = team.task()
    team.call("w1", "mcp__task__claim", taskId=task)
    crash(team, times=2)
    assert state(team) == "BUSY"
    crash(team)
    assert state(team) == "FAILED"
    assert team.call("sup", "mcp__task__get", taskId=task)["state"] == "PENDING"
    assert team.refused("w1", "mcp__task__claim")[0] == "INVALID_AGENT_STATE"
    assert team.refused("orc", "mcp__task__assign", taskId=task, agentId="w1")[0] == "INVALID_AGENT_STATE"
    assert [mail["subject"] for mail in team.inbox("sup")] == ["w1 has failed"]
    assert len(team.call(None, "inbox_list")["mails"]) == 1


def test_crashes_far_apart_do_not_count_together(team):
    for _ in range(5):
        crash(team)
        team.skip(31)
    assert state(team) == "IDLE"


def test_a_failed_agent_may_try_again_and_recovers_when_it_lives(team):
    crash(team, times=3)
    team.skip(61)
    assert state(team) == "IDLE"
    team.call("w1", "mcp__task__claim", taskId=team.task())
    assert team.do(recovery.release_recovered) == 0
    team.skip(61)
    assert team.do(recovery.release_recovered) == 1
    assert team.shop.agent("w1").failed_at is None


def test_one_crash_on_probation_is_enough_and_the_pause_doubles(team):
    agent = crash(team, times=3)
    first = agent.retry_at - agent.failed_at
    team.skip(61)
    agent = crash(team)
    assert state(team) == "FAILED"
    assert agent.retry_at - agent.failed_at == 2 * first
    assert len(team.inbox("sup")) == 1


def test_a_retired_agent_leaves_its_task_behind(team):
    task = team.task()
    team.call("w1", "mcp__task__claim", taskId=task)
    team.call("sup", "mcp__supervisor__retire_agent", agentId="w1")
    assert team.call("w2", "mcp__task__claim", taskId=task)["task"]["id"] == task


@pytest.mark.parametrize("supervisor", [None, "sup"])
def test_without_a_supervisor_only_the_person_is_told(team, supervisor):
    team.shop.hire("loner", "WORKER", supervisor, with_token=False)
    crash(team, "loner", 3)
    assert len(team.inbox("sup")) == (supervisor == "sup")
    assert len(team.call(None, "inbox_list")["mails"]) == 1
