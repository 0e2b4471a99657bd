from __future__ import annotations

import pytest

from shopfloor.usecases import crews
from tests.operator_access import read_agent, write_as_operator

STATES = ["PENDING", "ASSIGNED", "IN_PROGRESS", "REVIEW", "BLOCKED", "COMPLETED", "FAILED", "CANCELLED"]


def move(team, caller, task, state, **input):
    return team.call(caller, "mcp__task__update_status", taskId=task, state=state, **input)


def get(team, task):
    return team.call("sup", "mcp__task__get", taskId=task)


# Claims


def test_a_worker_claims_the_most_urgent_ready_task_of_its_epic(team_on_each_engine):
    team = team_on_each_engine
    epic = team.create_epic("w1")
    blocker = team.create_task("First", epicId=epic, priority=4)
    team.create_task("Elsewhere", priority=0)
    team.create_task("Blocked", epicId=epic, priority=0, dependsOn=[blocker])
    urgent = team.create_task("Urgent", epicId=epic, priority=1)
    claim = team.call("w1", "mcp__task__claim")
    assert (claim["task"]["id"], claim["task"]["state"], claim["task"]["assigneeId"]) == (urgent, "IN_PROGRESS", "w1")
    assert (claim["fence"], claim["task"]["attempts"]) == (1, 1)
    assert team.call("w1", "mcp__agent__get_status")["state"] == "BUSY"
    assert team.call("sup", "mcp__epic__get", epicId=epic)["state"] == "IN_PROGRESS"


def test_worker_without_an_epic_claims_from_the_epics_of_its_supervisor(team):
    epic = team.create_epic("sup")
    task = team.create_task(epicId=epic)
    assert team.call("w1", "mcp__task__claim")["task"]["id"] == task


def test_agent_without_an_epic_claims_from_open_epics_that_have_no_crew(team_on_each_engine):
    team = team_on_each_engine
    team.call(None, "agent_create", name="solo", issueToken=False)
    cancelled, driven, first, second = (team.create_epic() for _ in range(4))
    team.call("sup", "mcp__epic__update_status", epicId=cancelled, state="CANCELLED")
    facts = {"title": "", "spec": "", "project": ".", "branch": "b", "base": "b", "options": "{}"}
    number = int(driven.removeprefix("epic-"))
    write_as_operator(team.shop, lambda uow: crews.create_crew(uow, "crew", epic=number, workers=1, **facts))
    for epic in (driven, second, first):
        team.create_task(f"Task of {epic}", epicId=epic)
    team.create_task("Task of no epic")
    claimed = []
    while (task := team.call("solo", "mcp__task__claim")["task"]) is not None:
        claimed.append(task["title"])
        team.call("solo", "mcp__task__update_status", taskId=task["id"], state="REVIEW")
    assert claimed == ["Task of no epic", f"Task of {second}", f"Task of {first}"]


def test_claim_without_a_ready_task_returns_null_and_the_reason(team):
    epic = team.create_epic("w1")
    assert team.call("w1", "mcp__task__claim") == {"task": None, "reason": f"No task is ready in {epic}"}
    team.create_task(epicId=epic)
    team.call("sup", "mcp__epic__update_status", epicId=epic, state="BLOCKED")
    assert team.call("w1", "mcp__task__claim") == {"task": None, "reason": f"{epic} is BLOCKED"}


def test_named_task_is_claimed_by_one_agent_and_null_for_the_next(team):
    task = team.create_task()
    assert team.call("w1", "mcp__task__claim", taskId=task)["task"]["id"] == task
    assert team.call("w2", "mcp__task__claim", taskId=task) == {
        "task": None,
        "reason": f"{task} is IN_PROGRESS, assigned to w1",
    }
    assert team.expect_error("w2", "mcp__task__claim", taskId="task-99")[0] == "RESOURCE_NOT_FOUND"


def test_agent_with_a_task_cannot_claim_another_but_may_claim_its_own_again(team):
    task, other = team.create_task(), team.create_task()
    old = team.call("w1", "mcp__task__claim", taskId=task)["fence"]
    assert team.expect_error("w1", "mcp__task__claim") == ("INVALID_AGENT_STATE", f"You already hold {task}")
    assert team.expect_error("w1", "mcp__task__claim", taskId=other)[0] == "INVALID_AGENT_STATE"
    again = team.call("w1", "mcp__task__claim", taskId=task)
    assert (again["fence"], again["task"]["attempts"]) == (old + 1, 2)
    code, message = team.expect_error("w1", "mcp__task__update_status", state="REVIEW", fence=old)
    assert code == "INVALID_AGENT_STATE"
    assert "no longer current" in message


def test_any_call_of_the_holder_renews_the_lease(team):
    task = team.create_task()
    first = team.call("w1", "mcp__task__claim", taskId=task)["leaseExpiresAt"]
    team.pass_time(60)
    team.call("w1", "mcp__agent__get_task")
    agent = read_agent(team.shop, "w1")
    team.engine.database.store.flush()
    assert read_agent(team.shop, "w1").last_active_at > agent.created_at + 59_000_000
    assert first < team.call("w1", "mcp__task__claim", taskId=task)["leaseExpiresAt"]


def test_an_assigned_task_is_claimed_first(team):
    epic = team.create_epic("w1")
    team.create_task("Urgent", epicId=epic, priority=0)
    mine = team.create_task("Mine", epicId=epic, priority=4)
    team.call("orc", "mcp__task__assign", taskId=mine, agentId="w1")
    assert team.call("w1", "mcp__agent__get_task")["state"] == "ASSIGNED"
    assert team.call("w1", "mcp__task__claim")["task"]["id"] == mine


# Assignments


def test_assigned_agent_is_notified_by_mail(team):
    task = team.create_task("Paint it", description="Red")
    given = team.call("orc", "mcp__task__assign", taskId=task, agentId="w1")
    assert (given["state"], given["assigneeId"]) == ("ASSIGNED", "w1")
    (mail,) = team.list_inbox("w1")
    assert (mail["subject"], mail["body"]) == (f"Assigned to you: {task} Paint it", "Red")
    team.call("w1", "mcp__mail__reply", originalMailId=mail["id"], body="Will do")
    assert team.list_inbox("orc")[0]["fromAgentId"] == "w1"


def test_assigning_to_another_agent_takes_the_task_from_its_holder(team):
    task = team.create_task()
    fence = team.call("w1", "mcp__task__claim", taskId=task)["fence"]
    team.call("orc", "mcp__task__assign", taskId=task, agentId="w2")
    assert team.call("w1", "mcp__agent__get_status")["currentTaskId"] is None
    assert team.call("w2", "mcp__agent__get_status")["currentTaskId"] == task
    code, message = team.expect_error("w1", "mcp__task__update_status", taskId=task, state="REVIEW", fence=fence)
    assert (code, "assigned to w2" in message) == ("INVALID_AGENT_STATE", True)


def test_assigning_needs_an_existing_agent_and_an_open_task(team):
    task = team.create_task()
    assert team.expect_error("orc", "mcp__task__assign", taskId=task, agentId="ghost")[0] == "AGENT_NOT_FOUND"
    move(team, "sup", task, "CANCELLED")
    assert team.expect_error("orc", "mcp__task__assign", taskId=task, agentId="w1")[0] == "INVALID_INPUT"


def test_next_assigned_task_becomes_current_when_one_ends(team):
    first, second = team.create_task(), team.create_task()
    for task in (first, second):
        team.call("orc", "mcp__task__assign", taskId=task, agentId="w1")
    assert team.call("w1", "mcp__agent__get_task")["id"] == first
    team.call("w1", "mcp__task__update_status", state="IN_PROGRESS")
    team.call("w1", "mcp__task__update_status", state="REVIEW")
    assert team.call("w1", "mcp__agent__get_task")["id"] == second


# Moves


def test_review_is_approved_by_a_leader_and_never_by_the_worker(team):
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    assert team.expect_error("w1", "mcp__task__update_status", state="COMPLETED")[0] == "PERMISSION_DENIED"
    team.call("w1", "mcp__task__update_status", state="REVIEW", prUrl="https://example.test/1", branchName="b")
    assert team.expect_error("w1", "mcp__task__update_status", taskId=task, state="COMPLETED")[0] == "PERMISSION_DENIED"
    done = move(team, "orc", task, "COMPLETED")
    assert (done["state"], done["prUrl"], done["branchName"]) == ("COMPLETED", "https://example.test/1", "b")


def test_requested_changes_return_to_the_worker_with_the_comment(team):
    task = team.create_task("Paint it")
    team.call("w1", "mcp__task__claim", taskId=task)
    team.call("w1", "mcp__task__update_status", state="REVIEW")
    move(team, "sup", task, "IN_PROGRESS", comment="Blue, please")
    (mail,) = team.list_inbox("w1")
    assert (mail["subject"], mail["body"]) == (f"Changes requested: {task} Paint it", "Blue, please")
    assert team.call("w1", "mcp__agent__get_task")["id"] == task
    assert [note["body"] for note in get(team, task)["comments"]] == ["Blue, please"]


def test_worker_acts_only_on_the_task_it_holds(team):
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    for tool, input in [("update_status", {"state": "REVIEW"}), ("add_comment", {"body": "b"})]:
        assert team.expect_error("w2", f"mcp__task__{tool}", taskId=task, **input)[0] == "INVALID_AGENT_STATE"
        assert team.expect_error("w2", f"mcp__task__{tool}", **input)[0] == "INVALID_AGENT_STATE"
    assert get(team, task)["state"] == "IN_PROGRESS"


def test_illegal_transition_names_the_allowed_ones(team):
    task = team.create_task()
    assert team.expect_error("sup", "mcp__task__update_status", taskId=task, state="REVIEW") == (
        "INVALID_INPUT",
        "A task cannot go from PENDING to REVIEW; allowed: ASSIGNED, IN_PROGRESS, CANCELLED",
    )
    assert team.expect_error("sup", "mcp__task__update_status", taskId=task, state="DONE")[0] == "INVALID_INPUT"


def test_leader_that_starts_a_task_holds_it(team):
    task = team.create_task()
    begun = move(team, "orc", task, "IN_PROGRESS")
    assert (begun["assigneeId"], begun["attempts"]) == ("orc", 1)
    assert team.call("orc", "mcp__agent__get_status")["currentTaskId"] == task


def test_comment_goes_to_the_current_task_by_default(team):
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    assert team.call("w1", "mcp__task__add_comment", body="Half way")["commentId"] == "comment-1"
    (note,) = get(team, task)["comments"]
    assert (note["author"], note["body"]) == ("w1", "Half way")


# Dependencies


def test_a_dependent_task_is_ready_when_its_blockers_are_completed(team_on_each_engine):
    team = team_on_each_engine
    epic = team.create_epic("w1", "w2")
    one, two = team.create_task(epicId=epic), team.create_task(epicId=epic)
    last = team.create_task("Last", epicId=epic, dependsOn=[one, two])
    for name in ("w1", "w2"):
        task = team.call(name, "mcp__task__claim")["task"]["id"]
        team.call(name, "mcp__task__update_status", state="REVIEW")
        assert team.call(name, "mcp__task__claim", taskId=last)["task"] is None
        move(team, "sup", task, "COMPLETED")
    assert team.call("w1", "mcp__task__claim")["task"]["id"] == last


@pytest.mark.parametrize("end", ["FAILED", "CANCELLED"])
def test_failed_or_cancelled_blocker_keeps_blocking_until_removed_and_is_reported(team, end):
    blocker = team.create_task()
    task = team.create_task(dependsOn=[blocker])
    if end == "FAILED":
        move(team, "sup", blocker, "IN_PROGRESS")
    move(team, "sup", blocker, end)
    answer = team.call("w1", "mcp__task__claim", taskId=task)
    assert answer["task"] is None
    assert answer["reason"] == (
        f"{task} is blocked by {blocker} ({end}); a failed or cancelled one keeps blocking until the dependency is removed"
    )
    assert team.expect_error("sup", "mcp__task__update_status", taskId=task, state="IN_PROGRESS")[0] == "INVALID_INPUT"
    assert get(team, task)["blockedBy"] == answer["reason"]
    team.call("orc", "mcp__task__update", taskId=task, removeDependsOn=[blocker])
    assert team.call("w1", "mcp__task__claim", taskId=task)["task"]["id"] == task


def test_dependency_cycle_is_rejected(team):
    one = team.create_task()
    two = team.create_task(dependsOn=[one])
    three = team.create_task(dependsOn=[two])
    for blocker in (one, two, three):
        assert team.expect_error("orc", "mcp__task__update", taskId=one, addDependsOn=[blocker])[0] == "INVALID_INPUT"
    assert get(team, one)["dependsOn"] == []
    assert team.expect_error("orc", "mcp__task__create", title="t", dependsOn=["task-99"])[0] == "RESOURCE_NOT_FOUND"


# Edits and lists


def test_edit_of_an_old_version_is_rejected(team):
    task = team.create_task()
    edited = team.call("orc", "mcp__task__update", taskId=task, title="New", priority=0, version=1)
    assert (edited["title"], edited["priority"], edited["version"]) == ("New", 0, 2)
    code, message = team.expect_error("orc", "mcp__task__update", taskId=task, title="Newer", version=1)
    assert (code, message) == ("INVALID_INPUT", f"{task} has changed: it is at version 2, not 1")


@pytest.mark.parametrize(
    "input", [{"title": ""}, {"priority": 5}, {"priority": -1}, {"priority": True}, {"epicId": 3}, {"state": "REVIEW"}]
)
def test_title_and_description_of_a_task_have_limits(team, input):
    assert team.expect_error("orc", "mcp__task__create", **{"title": "t"} | input)[0] == "INVALID_INPUT"


def test_tasks_are_listed_by_epic_state_and_assignee(team):
    epic = team.create_epic("w1")
    tasks = [team.create_task(f"Number {number}", epicId=epic, description="x" * 500) for number in range(3)]
    team.create_task("Elsewhere")
    team.call("w1", "mcp__task__claim")
    page = team.call("orc", "mcp__task__list", epicId=epic, limit=2)
    assert [task["id"] for task in page["tasks"]] == tasks[:2]
    assert (len(page["tasks"][0]["description"]), page["tasks"][0]["descriptionTruncated"]) == (200, True)
    rest = team.call("orc", "mcp__task__list", epicId=epic, limit=2, cursor=page["nextCursor"])
    assert ([task["id"] for task in rest["tasks"]], "nextCursor" in rest) == (tasks[2:], False)
    assert team.call("orc", "mcp__task__list", epicId=epic, state="PENDING")["count"] == 2
    assert team.call("orc", "mcp__task__list", assigneeId="w1")["count"] == 1
    assert team.expect_error("orc", "mcp__task__list", epicId="epic-99")[0] == "RESOURCE_NOT_FOUND"


def test_only_a_user_sets_the_acceptance_command_of_a_task(team):
    task = team.create_task()
    assert "acceptanceCommand" not in get(team, task)
    team.call(None, "task_acceptance", taskId=task, command=["make", "test"])
    assert get(team, task)["acceptanceCommand"] == ["make", "test"]
    denied = team.shop.answer("desk", "task_acceptance", {"taskId": task, "command": ["true"]}, "sup")
    assert denied.body["code"] == "PERMISSION_DENIED"


# Epics


def test_an_epic_is_completed_when_none_of_its_tasks_is_open(team):
    epic = team.create_epic("w1")
    done, failed, cancelled = (team.create_task(epicId=epic) for _ in range(3))
    for task in (done, failed):
        move(team, "sup", task, "IN_PROGRESS")
    assert team.expect_error("orc", "mcp__epic__update_status", epicId=epic, state="COMPLETED")[0] == "INVALID_INPUT"
    move(team, "sup", done, "REVIEW")
    move(team, "sup", done, "COMPLETED")
    move(team, "sup", failed, "FAILED")
    move(team, "sup", cancelled, "CANCELLED")
    completed = team.call("orc", "mcp__epic__update_status", epicId=epic, state="COMPLETED")
    assert completed["completedAt"] is not None
    assert team.expect_error("orc", "mcp__task__create", title="Late", epicId=epic)[0] == "INVALID_INPUT"
    assert (
        team.expect_error("sup", "mcp__task__update_status", taskId=failed, state="IN_PROGRESS")[0] == "INVALID_INPUT"
    )
    code, message = team.expect_error("orc", "mcp__epic__update_status", epicId=epic, state="PLANNING")
    assert (code, message) == (
        "INVALID_INPUT",
        "An epic cannot go from COMPLETED to PLANNING; allowed: none, COMPLETED is final",
    )


def test_an_agents_epic_comes_from_its_task_or_its_assignment(team):
    epic, other = team.create_epic("orc", "w1"), team.create_epic()
    assert team.call("orc", "mcp__agent__get_epic")["id"] == epic
    assert team.expect_error("w1", "mcp__agent__get_epic") == (
        "INVALID_AGENT_STATE",
        "WORKER doesn't have a current task",
    )
    team.call("w1", "mcp__task__claim", taskId=team.create_task(epicId=other))
    assert team.call("w1", "mcp__agent__get_epic")["id"] == other
    assert team.expect_error("sup", "mcp__agent__get_epic") == (
        "INVALID_AGENT_STATE",
        "Agent doesn't have a current epic",
    )
    team.call("w2", "mcp__task__claim", taskId=team.create_task())
    assert team.expect_error("w2", "mcp__agent__get_epic")[0] == "INVALID_AGENT_STATE"


def test_unknown_epics_are_not_found(team):
    assert team.expect_error("orc", "mcp__epic__get", epicId="epic-9")[0] == "RESOURCE_NOT_FOUND"
    assert team.expect_error("orc", "mcp__epic__assign", epicId="epic-9", agentId="w1")[0] == "RESOURCE_NOT_FOUND"
    assert (
        team.expect_error("orc", "mcp__epic__assign", epicId=team.create_epic(), agentId="ghost")[0]
        == "AGENT_NOT_FOUND"
    )


def test_blocked_task_is_assigned_without_becoming_current(team):
    number = team.create_task("Blocked")
    team.call("w1", "mcp__task__claim", taskId=number)
    team.call("w1", "mcp__task__update_status", taskId=number, state="BLOCKED")
    team.call("orc", "mcp__task__assign", taskId=number, agentId="w2")
    assert team.call("w2", "mcp__agent__get_status")["currentTaskId"] is None
    team.call("w2", "mcp__task__update_status", taskId=number, state="IN_PROGRESS")
    assert team.call("w2", "mcp__agent__get_status")["currentTaskId"] == number
