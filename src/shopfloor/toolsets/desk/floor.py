"""Tools that show the floor at a glance."""

from __future__ import annotations

from shopfloor.domain.decisions import spell_reference
from shopfloor.domain.times import iso, iso_or_none
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.log import brief
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.toolsets.desk.runs import spell_run
from shopfloor.usecases import overview
from shopfloor.usecases.overview import Seat


@toolset.tool("floor_overview", read_only=True)
def floor_overview(work: Work) -> Json:
    """Who works on what, what is stuck, what needs an answer, and what changed last."""
    seen = overview.overview(work)
    return {
        "agents": [_seat(seat) for seat in seen.seats],
        "moreAgents": seen.more_seats,
        "counts": seen.counts,
        "runs": [spell_run(work, run) for run in seen.runs],
        "waiting": seen.waiting,
        "moreWaiting": seen.waiting == overview.COUNTED,
        "deadLetters": seen.dead_letters,
        "escalations": [
            {
                "id": escalation.id,
                "agent": escalation.subject,
                "tool": escalation.tool,
                "code": escalation.code,
                "message": escalation.message,
                "count": escalation.count,
                "reference": spell_reference(escalation.reference),
                "at": iso(escalation.last_at),
            }
            for escalation in seen.escalations
        ],
        "callsPerMinute": [
            {"at": iso(at), "calls": calls, "failed": failed} for at, calls, failed in seen.per_minute
        ],
        "events": [
            {
                "id": told.id,
                "name": told.name,
                "data": told.data,
                "reference": None if told.reference is None else spell_reference(told.reference),
                "at": iso(told.created_at),
            }
            for told in seen.events
        ],
        "processes": [
            {"kind": process.kind, "host": process.host, "pid": process.pid, "url": process.url,
             "startedAt": iso(process.started_at)}
            for process in seen.processes
        ],
    }  # fmt: skip


def _seat(seat: Seat) -> Json:
    agent = seat.agent
    return {
        "id": agent.name,
        "type": agent.type,
        "state": seat.state,
        "supervisor": agent.supervisor,
        "task": agent.current_task,
        "taskTitle": seat.task_title,
        "epic": agent.current_epic,
        "lastActiveAt": iso(agent.last_active_at),
        "leaseExpiresAt": iso_or_none(seat.lease_until),
        "lastCall": None if seat.last is None else brief(seat.last),
    }
