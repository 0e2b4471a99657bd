"""Agents, tasks and epics in the shape of the contract."""

from __future__ import annotations

from shopfloor.domain.epics import Epic
from shopfloor.domain.ids import format_id
from shopfloor.domain.principals import Agent
from shopfloor.domain.tasks import Task
from shopfloor.domain.times import format_iso, format_iso_or_none
from shopfloor.toolkit import Json


def format_agent_status(agent: Agent, now: int) -> Json:
    """Render an agent's status."""
    return {
        "id": agent.name,
        "type": agent.type,
        "state": agent.state(now),
        "currentEpicId": format_id("epic", agent.current_epic),
        "currentTaskId": format_id("task", agent.current_task),
        "tmuxSessionName": agent.tmux_session_name,
        "lastActiveAt": format_iso(agent.last_active_at),
        "createdAt": format_iso(agent.created_at),
        "updatedAt": format_iso(agent.updated_at),
    }


def format_contract_task(task: Task) -> Json:
    """Render the fields of a task that the contract names."""
    return {
        "id": f"task-{task.number}",
        "title": task.title,
        "description": task.description or "",
        "state": task.state.value,
        "epicId": format_id("epic", task.epic),
        "worktreePath": task.worktree_path,
        "branchName": task.branch_name,
        "prUrl": task.pr_url,
        "createdAt": format_iso(task.created_at),
        "updatedAt": format_iso(task.updated_at),
    }


def format_epic(epic: Epic) -> Json:
    """Render an epic."""
    return {
        "id": f"epic-{epic.id}",
        "linearIssueId": epic.linear_issue_id,
        "linearIssueUrl": epic.linear_issue_url,
        "title": epic.title,
        "description": epic.description,
        "state": epic.state.value,
        "createdAt": format_iso(epic.created_at),
        "updatedAt": format_iso(epic.updated_at),
        "completedAt": format_iso_or_none(epic.completed_at),
    }
