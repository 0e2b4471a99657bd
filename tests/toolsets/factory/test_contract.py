"""The printed contract: its examples without a credential, its shapes key by key, its codes."""

from __future__ import annotations

import re

import httpx2
import pytest

from shopfloor.errors import Unavailable
from tests.toolsets.factory.team import Team
from tests.toolsets.factory.test_escalation import break_tool  # noqa: F401 - a fixture
from tests.toolsets.factory.transports import serve_in_thread

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

MAIL = ["id", "fromAgentId", "fromAgentType", "subject", "body", "isRead", "createdAt", "readAt"]
STATUS = [
    "id", "type", "state", "currentEpicId", "currentTaskId", "tmuxSessionName", "lastActiveAt", "createdAt", "updatedAt",
]  # fmt: skip
TASK = [
    "id", "title", "description", "state", "epicId", "worktreePath", "branchName", "prUrl", "createdAt", "updatedAt",
]  # fmt: skip
EPIC = [
    "id", "linearIssueId", "linearIssueUrl", "title", "description", "state", "createdAt", "updatedAt", "completedAt",
]  # fmt: skip


def test_printed_examples_work_on_a_new_server(tmp_path):
    with Team(tmp_path, running=True) as team, serve_in_thread(team.shop) as url:
        team.create_agent("worker-123")
        team.create_agent("supervisor-456", "SUPERVISOR")

        def execute(agent, tool, input):
            body = {"agentId": agent, "toolName": tool, "input": input}
            return httpx2.post(f"{url}/mcp/execute", json=body).json()

        sent = execute(
            "worker-123",
            "mcp__mail__send",
            {"toAgentId": "supervisor-456", "subject": "Task Blocked", "body": "I need help unblocking this task"},
        )
        assert list(sent) == ["success", "data", "timestamp"]
        assert list(sent["data"]) == ["mailId", "timestamp"]
        inbox = execute("supervisor-456", "mcp__mail__list_inbox", {})
        assert inbox["data"]["mails"][0]["subject"] == "Task Blocked"
        logged = execute("worker-123", "mcp__system__log_decision", {"title": "Chose an approach", "body": "Redis"})
        assert list(logged["data"]) == ["logId", "timestamp"]
        assert TIME.fullmatch(logged["timestamp"])


def test_responses_have_the_printed_keys_first_and_added_keys_last(team):
    id = team.call("w1", "mcp__mail__send", toAgentId="sup", subject="s", body="b")["mailId"]
    inbox = team.call("sup", "mcp__mail__list_inbox")
    assert list(inbox) == ["count", "unreadCount", "mails"]
    assert list(inbox["mails"][0]) == [*MAIL, "bodyIsUntrusted"]
    assert list(team.call("sup", "mcp__mail__read", mailId=id)) == [*MAIL, "bodyIsUntrusted"]
    assert list(team.call("sup", "mcp__mail__reply", originalMailId=id, body="b")) == ["mailId", "timestamp"]
    assert list(team.call("w1", "mcp__agent__get_status")) == STATUS
    epic = team.create_epic("orc")
    task = team.call("orc", "mcp__task__create", title="t", epicId=epic)
    assert list(task) == [*TASK, "priority", "dependsOn", "assigneeId", "attempts", "version"]
    assert list(team.call("w1", "mcp__task__claim", taskId=task["id"])) == ["task", "fence", "leaseExpiresAt"]
    assert list(team.call("w1", "mcp__agent__get_task")) == TASK
    assert list(team.call("w1", "mcp__agent__get_epic")) == EPIC
    for name, rows in [("task", "tasks"), ("epic", "epics")]:
        assert list(team.call("orc", f"mcp__{name}__list")) == ["count", rows]
    assert list(team.call("sup", "mcp__supervisor__list_agents")) == ["count", "agents"]
    decision = team.call("orc", "mcp__system__list_decisions")["decisions"][0]
    assert list(decision)[:6] == ["id", "agentId", "decision", "reasoning", "context", "createdAt"]


def test_every_printed_code_is_used_and_rate_limited_is_added(team, break_tool, tmp_path):  # noqa: F811
    assert team.expect_error("w1", "mcp__epic__create", title="t") == (
        "PERMISSION_DENIED",
        "Tool 'mcp__epic__create' is not allowed for agent type 'WORKER'",
    )
    assert team.expect_error("w1", "mcp__no__tool")[0] == "TOOL_NOT_FOUND"
    assert team.expect_error("w1", "mcp__mail__send")[0] == "INVALID_INPUT"
    assert team.expect_error("ghost", "mcp__agent__get_status")[0] == "AGENT_NOT_FOUND"
    assert team.expect_error("w1", "mcp__mail__read", mailId="mail-9")[0] == "RESOURCE_NOT_FOUND"
    assert team.expect_error("orc", "mcp__agent__get_task") == ("INVALID_AGENT_STATE", "Agent is not a WORKER")
    break_tool("mcp__mail__reply")
    assert team.expect_error("w1", "mcp__mail__reply", originalMailId="mail-9", body="b")[0] == "INTERNAL_ERROR"
    break_tool("mcp__mail__reply", Unavailable())
    assert team.expect_error("w1", "mcp__mail__reply", originalMailId="mail-9", body="b")[0] == "TRANSIENT_ERROR"
    with Team(tmp_path / "limited", rate_limits={"mcp__mail__send": 1}) as limited:
        limited.call("w1", "mcp__mail__send", toAgentId="sup", subject="s", body="b")
        assert (
            limited.expect_error("w1", "mcp__mail__send", toAgentId="sup", subject="s", body="b")[0] == "RATE_LIMITED"
        )


@pytest.mark.parametrize("tool", ["mcp__mail__list_inbox", "mcp__agent__get_status", "mcp__agent__get_epic"])
def test_every_agent_may_get_its_own_status(team, tool):
    for name in ("sup", "orc", "w1"):
        answer = team.answer(name, tool)
        assert answer.error is None or answer.error.code == "INVALID_AGENT_STATE"


def test_missing_epic_is_not_found(team):
    team.write(lambda uow: uow.agents.set_epic("orc", 99, uow.now))
    assert team.expect_error("orc", "mcp__agent__get_epic") == ("RESOURCE_NOT_FOUND", "Epic epic-99 not found")
