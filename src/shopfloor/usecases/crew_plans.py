"""The plan of a crew: a person may have to approve it before the crew works on it."""

from __future__ import annotations

import json

from shopfloor.domain.crew_events import CrewChanged
from shopfloor.domain.crews import MAX_CREW_TASKS, Crew, Phase
from shopfloor.domain.runs import Wanted, find_proposed_command
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import run_requests


def finish_planning(uow: UnitOfWork, crew: Crew, run: str, *, ask: bool) -> Crew:
    """Let the crew work on its plan, or ask a person first."""
    if not ask:
        crew = uow.crews.update(crew.name, uow.now, phase=Phase.WORK)
    else:
        crew = uow.crews.update(crew.name, uow.now, phase=Phase.APPROVAL)
        lines = [f"May the crew {crew.name} work on this plan? Edit the tasks of epic-{crew.epic} first if you like."]
        tasks = uow.tasks.list_page(limit=MAX_CREW_TASKS, board=str(crew.epic))
        lines += [f"- task-{task.number} {task.title}" for task in tasks]
        run_requests.withdraw_requests(uow, run, kinds=(run_requests.CREW_PLAN,))
        answers = (run_requests.APPROVE, run_requests.REJECT)
        run_requests.ask_person(uow, run, run_requests.CREW_PLAN, "\n".join(lines), answers)
    uow.emit(CrewChanged(crew=crew.name))
    return crew


def settle_plan(uow: UnitOfWork, run: str, *, approved: bool) -> None:
    """Let the crew that planned in this run work, with the acceptance commands that its plan proposes; or stop it."""
    crew = uow.crews.get(uow.runs.get(run).crew or "")
    if not approved:
        uow.crews.update(crew.name, uow.now, wanted=Wanted.STOP)
    else:
        uow.crews.update(crew.name, uow.now, phase=Phase.WORK)
        for task in uow.tasks.list_page(limit=MAX_CREW_TASKS, board=str(crew.epic)):
            command = find_proposed_command(task.description or "")
            if command is not None and task.acceptance is None:
                uow.tasks.update(task.number, uow.now, acceptance=json.dumps(command, ensure_ascii=False))
    uow.emit(CrewChanged(crew=crew.name))
