"""One golden file for each tool: its calls, and every character of their results.

Rewritten with SHOPFLOOR_GOLDEN=write in the environment of the test.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from shopfloor.toolsets import desk, factory
from tests.toolsets.factory.team import MEMBERS, Team
from tests.toolsets.factory.transports import Execute, serve_in_thread

GOLDEN = Path(__file__).parent / "golden"
HUMAN = ("inbox_ack", "inbox_answer", "inbox_list", "inbox_read", "inbox_reply", "task_acceptance")
"""The human's side of the factory; tests.toolsets.desk holds the rest of the desk."""
TOOLS = sorted([*factory.toolset.tools, *(name for name in desk.toolset.tools if name in HUMAN)])
WRITING = os.environ.pop("SHOPFLOOR_GOLDEN", "") == "write"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_TOKEN = re.compile(r"sfa_[a-z0-9]+_[A-Za-z0-9_-]+")

STORY: list[tuple[str, str, dict[str, Any]]] = [
    ("sup", "mcp__supervisor__create_agent", {"agentId": "w3", "tmuxSessionName": "w3-session"}),
    ("sup", "mcp__supervisor__list_agents", {"type": "WORKER", "limit": 2}),
    ("sup", "mcp__supervisor__retire_agent", {"agentId": "w3"}),
    ("orc", "mcp__epic__create", {"title": "Sign-in", "linearIssueId": "LIN-1", "linearIssueUrl": "https://linear.app/1"}),
    ("orc", "mcp__epic__assign", {"epicId": "epic-1", "agentId": "w1"}),
    ("orc", "mcp__epic__assign", {"epicId": "epic-1", "agentId": "orc"}),
    ("orc", "mcp__task__create", {"title": "Tokens", "description": "Sign them", "epicId": "epic-1", "priority": 1}),
    ("orc", "mcp__task__create", {"title": "Page", "epicId": "epic-1", "dependsOn": ["task-1"]}),
    ("orc", "mcp__task__create", {"title": "Circle", "epicId": "epic-9"}),
    ("orc", "mcp__task__update", {"taskId": "task-2", "title": "Sign-in page", "priority": 0, "version": 1}),
    ("orc", "mcp__task__update", {"taskId": "task-1", "addDependsOn": ["task-2"]}),
    ("w1", "mcp__agent__get_task", {}),
    ("w1", "mcp__agent__get_epic", {}),
    ("w1", "mcp__task__claim", {}),
    ("w1", "mcp__task__claim", {}),
    ("w2", "mcp__task__claim", {"taskId": "task-2"}),
    ("w1", "mcp__agent__get_task", {}),
    ("w1", "mcp__agent__get_epic", {}),
    ("orc", "mcp__agent__get_epic", {}),
    ("orc", "mcp__agent__get_task", {}),
    ("w1", "mcp__agent__get_status", {}),
    ("w1", "mcp__task__add_comment", {"body": "Half way"}),
    ("w1", "mcp__system__log_decision", {"title": "Chose EdDSA", "body": "Short keys"}),
    ("w1", "mcp__task__update_status", {"state": "REVIEW", "prUrl": "https://example.test/pr/1", "fence": 1}),
    ("sup", "mcp__task__update_status", {"taskId": "task-1", "state": "COMPLETED", "comment": "Good"}),
    ("sup", "mcp__task__update_status", {"taskId": "task-1", "state": "PENDING"}),
    ("orc", "mcp__task__assign", {"taskId": "task-2", "agentId": "w2"}),
    ("orc", "mcp__task__get", {"taskId": "task-1"}),
    ("orc", "mcp__task__get", {"taskId": "task-9"}),
    ("orc", "mcp__task__list", {"epicId": "epic-1"}),
    ("orc", "mcp__epic__update_status", {"epicId": "epic-1", "state": "COMPLETED"}),
    ("orc", "mcp__epic__get", {"epicId": "epic-1"}),
    ("orc", "mcp__epic__list", {"state": "IN_PROGRESS"}),
    ("human", "task_acceptance", {"taskId": "task-2", "command": ["make", "test"]}),
    ("w1", "mcp__mail__send", {"toAgentId": "sup", "subject": "Need help", "body": "I am stuck"}),
    ("w1", "mcp__mail__send", {"to": ["role:WORKER", "orc"], "subject": "All", "body": "Hello", "importance": "low"}),
    ("w1", "mcp__mail__send", {"subject": "Without a recipient", "body": "Hello"}),
    ("sup", "mcp__mail__list_inbox", {}),
    ("w1", "mcp__mail__list_inbox", {"sent": True, "limit": 1}),
    ("sup", "mcp__mail__read", {"mailId": "mail-2"}),
    ("w2", "mcp__mail__read", {"mailId": "mail-2"}),
    ("w2", "mcp__mail__read", {"mailId": "mail-99"}),
    ("sup", "mcp__mail__reply", {"originalMailId": "mail-2", "body": "Look at the log"}),
    ("w1", "mcp__mail__wait", {"timeoutSeconds": 1}),
    ("w1", "mcp__mail__acknowledge", {"mailId": "mail-4"}),
    ("w1", "mcp__mail__wait", {"timeoutSeconds": 0}),
    ("w1", "mcp__mail__ask", {"subject": "Which?", "body": "A or B", "options": ["A", "B"], "timeoutSeconds": 0}),
    ("w2", "mcp__mail__send", {"toHuman": True, "subject": "Done", "body": "All of it", "ackWithinMinutes": 5}),
    ("human", "inbox_list", {}),
    ("human", "inbox_read", {"mailId": "mail-6"}),
    ("human", "inbox_ack", {"mailId": "mail-6"}),
    ("human", "inbox_reply", {"mailId": "mail-6", "body": "Thanks"}),
    ("human", "inbox_answer", {"mailId": "mail-5", "answer": "C"}),
    ("human", "inbox_answer", {"mailId": "mail-5", "answer": "B"}),
    ("w1", "mcp__mail__ask", {"ticket": "mail-5"}),
    ("orc", "mcp__system__list_decisions", {"toolName": "mcp__epic__create"}),
    ("sup", "mcp__system__list_decisions", {"agentId": "w1", "taskId": "task-1", "limit": 3}),
]  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """The input and the result of each call of the story, over /mcp/execute; those of the desk over Python."""
    recorded: dict[str, list[Any]] = {tool: [] for tool in TOOLS}
    with Team(tmp_path_factory.mktemp("floor"), running=True) as team, serve_in_thread(team.shop) as url:
        agents = {name: Execute(url, team.shop.issue_token(agent=name)["token"]) for name in MEMBERS}
        for caller, tool, input in STORY:
            team.engine.database.store.flush()  # rows of reads are written later, and the story numbers them
            answer = team.shop.call("desk", tool, input) if caller == "human" else agents[caller].call(tool, input)
            recorded[tool].append({"as": caller, "input": input, "answer": _replace_times_and_tokens(answer)})
    return recorded


def _replace_times_and_tokens(answer: Any) -> Any:
    text = _TOKEN.sub("<token>", _TIME.sub("<time>", json.dumps(answer, ensure_ascii=False)))
    return json.loads(text)


@pytest.fixture(scope="module", autouse=True)
def write_golden_files(recorded: dict[str, list[Any]]) -> None:
    if WRITING:
        for tool, steps in recorded.items():
            text = json.dumps(steps, indent=2, ensure_ascii=False)
            (GOLDEN / f"{tool}.json").write_text(text + "\n", "utf-8")


@pytest.mark.parametrize("tool", TOOLS)
def test_tool_returns_what_its_golden_file_has(recorded, tool):
    assert recorded[tool] == json.loads((GOLDEN / f"{tool}.json").read_text("utf-8"))


def test_every_tool_has_a_golden_file_and_none_is_unused():
    assert sorted(path.stem for path in GOLDEN.iterdir()) == TOOLS
