"""The tool behind the overview page."""

from __future__ import annotations

from shopfloor.domain.decisions import format_reference
from shopfloor.domain.tasks import Task
from shopfloor.domain.times import SECOND, format_iso, format_iso_or_none
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.toolsets.desk.crews import format_crew
from shopfloor.toolsets.desk.log import format_entry
from shopfloor.toolsets.desk.runs import format_run
from shopfloor.usecases import overview
from shopfloor.usecases.overview import AgentStatus, LastStatement


@toolset.tool("floor_overview", read_only=True)
def show_overview(uow: UnitOfWork) -> Json:
    """Show agents and their work, problems, items that wait for a person, and the latest events."""
    seen = overview.get_overview(uow)
    return {
        "agents": [
            {**format_agent_status(status), "said": format_last_statement(seen.said.get(status.agent.name))}
            for status in seen.agent_statuses
        ],
        "moreAgents": seen.more_agents,
        "counts": seen.counts,
        "runs": [format_run(uow, run) for run in seen.runs],
        "crews": [format_crew(uow, crew) for crew in seen.crews],
        "waiting": seen.waiting,
        "moreWaiting": seen.waiting == overview.MAX_COUNT,
        "reviews": [_format_review(task) for task in seen.reviews],
        "deadLetters": seen.dead_letters,
        "escalations": [
            {
                "id": escalation.id,
                "agent": escalation.subject,
                "tool": escalation.tool,
                "code": escalation.code,
                "message": escalation.message,
                "count": escalation.count,
                "reference": format_reference(escalation.reference),
                "at": format_iso(escalation.last_at),
            }
            for escalation in seen.escalations
        ],
        "recentCalls": {"seconds": overview.RECENT_PERIOD // SECOND, "calls": seen.recent_calls},
        "callsPerMinute": [
            {"at": format_iso(at), "calls": calls, "failed": failed} for at, calls, failed in seen.per_minute
        ],
        "events": [
            {
                "id": event.id,
                "name": event.name,
                "data": event.data,
                "reference": None if event.reference is None else format_reference(event.reference),
                "at": format_iso(event.created_at),
            }
            for event in seen.events
        ],
        "activity": [
            {
                "who": sentence.who,
                "did": sentence.did,
                "kind": sentence.kind,
                "id": sentence.id,
                "title": sentence.title,
                "note": sentence.note,
                "reference": None if sentence.event.reference is None else format_reference(sentence.event.reference),
                "at": format_iso(sentence.event.created_at),
            }
            for sentence in seen.sentences
        ],
        "processes": [
            {"kind": process.kind, "host": process.host, "pid": process.pid, "url": process.url,
             "startedAt": format_iso(process.started_at)}
            for process in seen.processes
        ],
    }  # fmt: skip


def _format_review(task: Task) -> Json:
    facts = {"id": f"task-{task.number}", "number": task.number, "title": task.title}
    return {**facts, "assignee": task.assignee, "at": format_iso(task.updated_at)}


def format_last_statement(said: LastStatement | None) -> Json | None:
    """Return the last statement of an agent, or None."""
    return None if said is None else {"text": said.text, "at": format_iso(said.at)}


def format_agent_status(status: AgentStatus) -> Json:
    """Return an agent with its work as lists show it."""
    task = status.task
    return {
        "id": status.agent.name,
        "type": status.agent.type,
        "state": status.state,
        "supervisor": status.agent.supervisor,
        "task": status.agent.current_task,
        "taskTitle": None if task is None else task.title,
        "taskState": None if task is None else task.state.value,
        "heldSince": None if task is None else format_iso_or_none(task.held_at),
        "epic": status.agent.current_epic,
        "retryAt": format_iso_or_none(status.agent.retry_at) if status.state == "failed" else None,
        "failures": status.agent.failures,
        "lastActiveAt": format_iso(status.agent.last_active_at),
        "leaseExpiresAt": format_iso_or_none(status.lease_until),
        "leaseExpired": status.lease_until is not None and status.lease_until < status.now,
        "lastCall": None if status.last is None else format_entry(status.last),
    }
