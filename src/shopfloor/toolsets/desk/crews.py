"""Tools for crews: list and show them, approve their plans, steer and scale them, and merge their work."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from shopfloor.domain.crews import Crew, CrewStatus, Merge, Phase
from shopfloor.domain.mail import EXCERPT_CHARACTERS
from shopfloor.domain.pagination import fetch_size, parse_number_cursor, to_page
from shopfloor.domain.principals import WORKER
from shopfloor.domain.runs import Run, RunState, Wanted, describe_status
from shopfloor.domain.times import SECOND, format_iso, format_iso_or_none
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import changes, claims, crews, run_answers, runs
from shopfloor.usecases.external import ExternalContext

_BUDGETS = ("time", "iterations", "tokens", "cost")

CrewName = Annotated[str, Field(description="Name of the crew", min_length=1, max_length=64)]


@toolset.tool("crew_list", read_only=True)
def list_crews(uow: UnitOfWork, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the crews, latest first."""
    rows = uow.crews.list_page(fetch_size(limit), parse_number_cursor("crews", cursor))
    return to_page("crews", rows, limit, lambda crew: format_crew(uow, crew), lambda crew: crew.created_at)


@toolset.tool("crew_show", read_only=True)
def show_crew(uow: UnitOfWork, crew: CrewName) -> Json:
    """Show one crew with its workers, its tasks, its merge queue, and what it asks people."""
    found = uow.crews.get(crew)
    of_crew = uow.runs.list_of_crew(crew, crews.MAX_RUNS)
    # A worker that waits for its first task has no run yet.
    workers: dict[str, list[Run]] = {name: [] for name in crews.list_worker_names(uow, found)}
    for run in of_crew:
        workers.setdefault(run.worker or "", []).append(run)
    names, used = {run.name: run for run in of_crew}, crews.sum_usage(uow, found, of_crew)
    return {
        **format_crew(uow, found),
        "report": found.report,
        "assignees": sorted(name for name in workers if uow.agents.get(name).type == WORKER),
        "requests": [
            {
                "request": request.number,
                "kind": request.kind,
                "question": request.question,
                "options": list(request.options),
                "agentId": names[request.run].worker,
                "task": names[request.run].task,
            }
            for request in uow.run_requests.list_pending(crews.MAX_REQUESTS)
            if request.run in names
        ],
        "openQuestions": [
            {
                "mailId": f"mail-{mail.id}",
                "agentId": mail.sender.name,
                "subject": mail.subject,
                "body": mail.body[:EXCERPT_CHARACTERS],
                "options": list(question.options),
                "deadline": format_iso(question.deadline),
            }
            for mail, question in crews.list_open_questions(uow, found)
        ],
        "workers": [_format_worker(uow, name, workers[name], used.get(name, (0, 0))) for name in sorted(workers)],
        "tasks": [
            {
                "id": f"task-{task.number}",
                "number": task.number,
                "title": task.title,
                "state": task.state.value,
                "assigneeId": task.assignee,
                "blocked": task.open_blockers > 0,
                "canAssign": claims.can_assign(task),
            }
            for task in crews.list_tasks(uow, found)
        ],
        "merges": [format_merge(merge) for merge in crews.list_merges(uow, found)],
    }


@toolset.tool("crew_approve_plan", idempotent=True, approval=True)
def approve_plan(
    uow: UnitOfWork,
    crew: CrewName,
    approve: Annotated[bool, Field(description="False rejects the plan, and stops the crew")] = True,
) -> Json:
    """Approve the plan of a crew, with the acceptance commands that its tasks propose."""
    return format_crew(uow, run_answers.decide_plan(uow, crew, approved=approve))


@toolset.tool("crew_pause", idempotent=True)
def pause_crew(uow: UnitOfWork, crew: CrewName) -> Json:
    """Pause a crew: each agent ends its turn, and none starts another. Rejected if no process drives the crew."""
    return format_crew(uow, crews.steer_crew(uow, crew, Wanted.PAUSE))


@toolset.tool("crew_resume", idempotent=True)
def resume_crew(uow: UnitOfWork, crew: CrewName) -> Json:
    """Resume a paused crew. Rejected if no process drives the crew."""
    return format_crew(uow, crews.steer_crew(uow, crew, Wanted.GO))


@toolset.tool("crew_stop", idempotent=True)
def stop_crew(uow: UnitOfWork, crew: CrewName) -> Json:
    """Stop a crew now. Its worktrees stay as they are. Rejected if no process drives the crew."""
    return format_crew(uow, crews.steer_crew(uow, crew, Wanted.STOP))


@toolset.tool("crew_scale", idempotent=True)
def scale_crew(
    uow: UnitOfWork, crew: CrewName, workers: Annotated[int, Field(description="Number of workers", ge=0, le=64)]
) -> Json:
    """Change the number of workers. A worker that is no longer wanted ends after its task."""
    return format_crew(uow, crews.scale_crew(uow, crew, workers))


@toolset.tool("crew_compare", read_only=True, external=True)
def compare_branch(external: ExternalContext, crew: CrewName) -> Json:
    """Compare the branch of a crew with the project's: the commits to merge, and those that only the project has."""
    found = changes.compare_branch(external, crew)
    return {
        "crew": crew,
        "isHere": found.is_here,
        "projectBranch": found.project_branch,
        "commits": found.commits,
        "behind": found.behind,
    }


@toolset.tool("crew_merge_branch", external=True, admin=True, idempotent=True)
def merge_crew(external: ExternalContext, crew: CrewName) -> Json:
    """Merge the verified work of a crew into the branch of the project, on the machine that has the project.

    If the project has moved on, the merge is first made in a separate worktree and verified.
    """
    merged = changes.merge_crew(external, crew)
    unfinished = [f"task-{number}" for number in merged.unfinished]
    return {"crew": crew, "branch": merged.branch, "commit": merged.commit, "unfinished": unfinished}


def format_crew(uow: UnitOfWork, crew: Crew) -> Json:
    """Return a crew as lists show it."""
    driven = crews.is_driven(uow, crew)
    status = crews.load_status(uow, crew.name)
    used = uow.runs.list_of_crew(crew.name, crews.MAX_RUNS)
    options, spent = json.loads(crew.options or "{}"), _sum_used(uow, crew, used)
    return {
        "crew": crew.name,
        "epicId": f"epic-{crew.epic}",
        "epicTitle": uow.epics.get(crew.epic).title,
        "state": crew.state.value,
        "wanted": crew.wanted.value,
        "phase": crew.phase.value,
        "driven": driven,
        "status": _describe_status(status, driven),
        "reason": crew.reason,
        "wantedWorkers": crew.workers,
        "branch": crew.branch,
        "project": crew.project,
        "taskCounts": status.tasks,
        "questions": [f"mail-{number}" for number in status.questions],
        "iterations": spent["iterations"],
        "tokens": spent["tokens"],
        "cost": spent["cost"],
        "elapsed": spent["time"],
        "budgets": {name: options[name] for name in _BUDGETS if options.get(name)},
        "remaining": {name: max(0, options[name] - spent[name]) for name in _BUDGETS if options.get(name)},
        "workerBudgets": {name: options[f"worker_{name}"] for name in _BUDGETS if options.get(f"worker_{name}")},
        "startedAt": format_iso(crew.created_at),
        "endedAt": format_iso_or_none(crew.ended_at),
    }


def _sum_used(uow: UnitOfWork, crew: Crew, of_crew: list[Run]) -> dict[str, float]:
    """Return a crew's usage of each budget, in the budget's unit."""
    return {
        "time": crews.get_elapsed(uow, crew) // SECOND,
        "iterations": sum(run.iteration + (run.spent > 0) for run in of_crew),
        "tokens": sum(run.tokens for run in of_crew),
        "cost": sum(run.cost for run in of_crew) / 1_000_000,
    }


def _describe_status(status: CrewStatus, driven: bool) -> str:
    """Return the state of a crew as the one word that every page and command shows."""
    crew = status.crew
    if crew.state is not RunState.ACTIVE:
        return crew.state.value
    if not driven:
        return "interrupted"
    if crew.wanted is not Wanted.GO:
        return {Wanted.PAUSE: "paused", Wanted.STOP: "stopping"}[crew.wanted]
    if status.waits_for_answer and crew.phase is Phase.WORK:
        return "waiting"
    return {"plan": "planning", "approval": "waiting", "work": "running"}[crew.phase.value]


def _format_worker(uow: UnitOfWork, name: str, of_worker: list[Run], used: tuple[int, int]) -> Json:
    current = next((run for run in of_worker if runs.is_driven(uow, run)), None)
    agent = uow.agents.get(name)
    status = "idle" if current is None else describe_status(current, driven=True)
    return {
        "agentId": name,
        "status": "paused" if agent.has_failed(uow.now) else status,
        "run": None if current is None else current.name,
        "task": None if current is None or current.task is None else f"task-{current.task}",
        "taskNumber": None if current is None else current.task,
        "waiting": None if current is None else current.waiting,
        "iteration": None if current is None else current.iteration,
        "elapsed": (runs.get_elapsed(uow, current) if current is not None else 0) // SECOND,
        "tokens": used[0],
        "cost": used[1] / 1_000_000,
        "runs": [run.name for run in of_worker[:20]],
    }


def format_merge(merge: Merge) -> Json:
    """Return an entry of the merge queue as pages and commands show it."""
    return {
        "task": f"task-{merge.task}",
        "state": merge.state.value,
        "branch": merge.branch,
        "commit": merge.commit,
        "mergedCommit": merge.merged_commit,
        "attempts": merge.attempts,
        "output": merge.output,
        "approvedBy": merge.approved_by,
        "updatedAt": format_iso(merge.updated_at),
    }
