"""Agents, tasks and epics as the contract spells them."""

from __future__ import annotations

from shopfloor.domain.actors import Agent
from shopfloor.domain.epics import Epic
from shopfloor.domain.ids import spelled
from shopfloor.domain.tasks import Task
from shopfloor.domain.times import iso, iso_or_none
from shopfloor.toolkit import Json


def agent_answer(agent: Agent, now: int) -> Json:
    """An agent's status."""
    return {
        "id": agent.name,
        "type": agent.type,
        "state": agent.state(now),
        "currentEpicId": spelled("epic", agent.current_epic),
        "currentTaskId": spelled("task", agent.current_task),
        "tmuxSessionName": agent.tmux_session_name,
        "lastActiveAt": iso(agent.last_active_at),
        "createdAt": iso(agent.created_at),
        "updatedAt": iso(agent.updated_at),
    }


def task_answer(task: Task) -> Json:
    """A task as the contract spells it."""
    return {
        "id": f"task-{task.number}",
        "title": task.title,
        "description": task.description or "",
        "state": task.state.value,
        "epicId": spelled("epic", task.epic),
        "worktreePath": task.worktree_path,
        "branchName": task.branch_name,
        "prUrl": task.pr_url,
        "createdAt": iso(task.created_at),
        "updatedAt": iso(task.updated_at),
    }


def epic_answer(epic: Epic) -> Json:
    """An epic as the contract spells it."""
    return {
        "id": f"epic-{epic.id}",
        "linearIssueId": epic.linear_issue_id,
        "linearIssueUrl": epic.linear_issue_url,
        "title": epic.title,
        "description": epic.description,
        "state": epic.state.value,
        "createdAt": iso(epic.created_at),
        "updatedAt": iso(epic.updated_at),
        "completedAt": iso_or_none(epic.completed_at),
    }
