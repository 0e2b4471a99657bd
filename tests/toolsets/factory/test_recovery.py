"""Recovery of tasks from silent and crashing agents."""

from __future__ import annotations

import pytest

from shopfloor.usecases import agents, processes, recovery
from tests.operator_access import read_agent
from tests.workbench import seed_agent

SILENCE = 420


def reconcile(team):
    return team.write(recovery.return_tasks_of_silent_agents)


def report_crashes(team, name="w1", times=1):
    for _ in range(times):
        agent = team.write(lambda uow: agents.report_crash(uow, name))
    return agent


def read_state(team, name="w1"):
    """Read the state as the supervisor: a call of the agent itself would count as activity."""
    listed = team.call("sup", "mcp__supervisor__list_agents")["agents"]
    return next(agent["state"] for agent in listed if agent["id"] == name)


def test_task_of_a_silent_agent_returns_to_the_queue(team_on_each_engine):
    team = team_on_each_engine
    task = team.create_task("Paint it")
    fence = team.call("w1", "mcp__task__claim", taskId=task)["fence"]
    team.pass_time(SILENCE - 5)
    assert reconcile(team) == 0
    team.pass_time(10)
    assert reconcile(team) == 1
    assert reconcile(team) == 0
    assert team.call("w2", "mcp__task__claim", taskId=task)["task"]["attempts"] == 2
    code, message = team.expect_error("w1", "mcp__task__update_status", taskId=task, state="REVIEW", fence=fence)
    assert code == "INVALID_AGENT_STATE"
    assert "assigned to w2" in message
    assert "w1 was silent for more than 420 s" in message


def beat(team):
    team.write(lambda uow: processes.record_heartbeat(uow, 0))


def test_time_without_a_server_is_not_the_silence_of_agents(team_on_each_engine):
    team = team_on_each_engine
    beat(team)
    task = team.create_task()
    fence = team.call("w1", "mcp__task__claim", taskId=task)["fence"]
    team.pass_time(SILENCE * 10, server_up=False)
    # Woken in the middle of a round: the tasks run before the next heartbeat.
    assert reconcile(team) == 0
    beat(team)
    assert reconcile(team) == 0
    team.pass_time(SILENCE - 5)
    assert reconcile(team) == 0
    team.call("w1", "mcp__task__update_status", taskId=task, state="REVIEW", fence=fence)


def test_agent_that_does_not_return_after_the_server_did_is_silent(team):
    beat(team)
    team.call("w1", "mcp__task__claim", taskId=team.create_task())
    team.pass_time(SILENCE * 10, server_up=False)
    beat(team)
    team.pass_time(SILENCE + 5)
    assert reconcile(team) == 1


@pytest.mark.parametrize(("others", "returned"), [([], 0), (["serve"], 1), (["run"], 0)])
def test_start_of_the_only_server_gives_agents_time_to_return(team, others, returned):
    for kind in others:
        team.write(lambda uow, kind=kind: processes.register_process(uow, kind, None))
    beat(team)
    team.call("w1", "mcp__task__claim", taskId=team.create_task())
    team.pass_time(SILENCE + 5)
    team.write(lambda uow: [uow.processes.record_heartbeat(each.id, uow.now) for each in uow.processes.list_all()])
    team.write(lambda uow: processes.register_process(uow, "serve", None))
    assert reconcile(team) == returned


def test_supervisor_and_operator_are_notified_once_each(team):
    for _ in range(2):
        team.call("orc", "mcp__task__assign", taskId=team.create_task(), agentId="w1")
    team.pass_time(SILENCE + 5)
    assert reconcile(team) == 2
    assert reconcile(team) == 0
    (mail,) = team.list_inbox("sup")
    assert mail["subject"] == "w1 has gone silent"
    assert "task-1 is pending again: A task\ntask-2 is pending again: A task" in mail["body"]
    assert [mail["subject"] for mail in team.call(None, "inbox_list")["mails"]] == ["w1 has gone silent"]


def test_agent_that_calls_or_waits_is_not_silent(team):
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    for _ in range(10):
        team.pass_time(SILENCE / 2)
        team.call("w1", "mcp__agent__get_status")
        team.engine.database.store.flush()
        assert reconcile(team) == 0
    team.write(lambda uow: uow.agents.set_waiting_until("w1", uow.now + 10**12))
    team.pass_time(SILENCE * 2)
    assert reconcile(team) == 0


def test_new_assignment_restarts_the_timeout_of_a_silent_agent(team):
    team.pass_time(SILENCE * 10)
    team.call("orc", "mcp__task__assign", taskId=team.create_task(), agentId="w1")
    assert reconcile(team) == 0


def test_a_task_fails_at_its_fifth_attempt(team):
    task = team.create_task()
    for attempt in range(1, 6):
        claim = team.call("w1", "mcp__task__claim", taskId=task)
        assert claim["task"]["attempts"] == attempt
        team.pass_time(SILENCE + 5)
        assert reconcile(team) == 1
    failed = team.call("sup", "mcp__task__get", taskId=task)
    assert failed["state"] == "FAILED"
    assert "task-1 failed after 5 attempts" in team.list_inbox("sup")[0]["body"]
    assert team.call("w1", "mcp__agent__get_status")["currentTaskId"] is None


def test_actions_of_the_reconciler_are_logged(team):
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    team.pass_time(SILENCE + 5)
    reconcile(team)
    entry = team.call("sup", "mcp__system__list_decisions", taskId=task)["decisions"][0]
    assert (entry["decision"], entry["reasoning"]) == (
        f"{task} is PENDING again",
        "w1 was silent for more than 420 s",
    )
    assert (entry["agentId"], entry["actor"]) == ("w1", "floor:reconciler")


def test_three_crashes_in_a_minute_mark_an_agent_as_failed(team_on_each_engine):
    team = team_on_each_engine
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    report_crashes(team, times=2)
    assert read_state(team) == "BUSY"
    report_crashes(team)
    assert read_state(team) == "FAILED"
    assert team.call("sup", "mcp__task__get", taskId=task)["state"] == "PENDING"
    assert team.expect_error("w1", "mcp__task__claim")[0] == "INVALID_AGENT_STATE"
    assert team.expect_error("orc", "mcp__task__assign", taskId=task, agentId="w1")[0] == "INVALID_AGENT_STATE"
    assert [mail["subject"] for mail in team.list_inbox("sup")] == ["w1 has failed"]
    assert len(team.call(None, "inbox_list")["mails"]) == 1


def test_crashes_more_than_a_minute_apart_are_not_added_up(team):
    for _ in range(5):
        report_crashes(team)
        team.pass_time(31)
    assert read_state(team) == "IDLE"


def test_failed_agent_may_try_again_and_recovers_without_a_crash(team):
    report_crashes(team, times=3)
    team.pass_time(61)
    assert read_state(team) == "IDLE"
    team.call("w1", "mcp__task__claim", taskId=team.create_task())
    assert team.write(recovery.release_recovered_agents) == 0
    team.pass_time(61)
    assert team.write(recovery.release_recovered_agents) == 1
    assert read_agent(team.shop, "w1").failed_at is None


def test_crash_on_probation_marks_the_agent_as_failed_and_doubles_the_back_off(team):
    agent = report_crashes(team, times=3)
    first = agent.retry_at - agent.failed_at
    team.pass_time(61)
    agent = report_crashes(team)
    assert read_state(team) == "FAILED"
    assert agent.retry_at - agent.failed_at == 2 * first
    assert len(team.list_inbox("sup")) == 1


def test_task_of_a_retired_agent_returns_to_the_queue(team):
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    team.call("sup", "mcp__supervisor__retire_agent", agentId="w1")
    assert team.call("w2", "mcp__task__claim", taskId=task)["task"]["id"] == task


@pytest.mark.parametrize("supervisor", [None, "sup"])
def test_without_a_supervisor_only_the_operator_is_notified(team, supervisor):
    seed_agent(team.shop, "loner", "WORKER", supervisor, with_token=False)
    report_crashes(team, "loner", 3)
    assert len(team.list_inbox("sup")) == (supervisor == "sup")
    assert len(team.call(None, "inbox_list")["mails"]) == 1
