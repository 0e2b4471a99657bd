"""The answers of people to the questions of runs, and what follows from each."""

from __future__ import annotations

from shopfloor.domain.crews import Crew
from shopfloor.domain.run_events import RunAnswered
from shopfloor.domain.runs import Request, shorten
from shopfloor.errors import InvalidInput, InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import crew_plans, run_tasks
from shopfloor.usecases.crews import MAX_RUNS
from shopfloor.usecases.run_requests import ALLOW, APPROVE, CREW_PLAN, DECISIONS, REJECT


def answer_request(uow: UnitOfWork, number: int, text: str) -> Request:
    """Answer a question. A text answer is included in the next prompt of the run."""
    request = uow.run_requests.get(number)
    is_decision = request.kind in DECISIONS
    if request.options and text not in request.options and not is_decision:
        raise InvalidInput(f"'{text[:40]}' is not an answer to this", hint=f"Answer {' or '.join(request.options)}")
    if not uow.run_requests.set_answer(number, text, uow.actor.key, uow.now):
        raise InvalidState(f"question {number} is already answered: {request.answer}", rule="request_answered")
    if request.kind == "acceptance":
        run_tasks.settle_proposal(uow, request, approved=text == ALLOW)
    if request.kind == "plan" and text == APPROVE:
        uow.runs.update(request.run, uow.now, plan_approved=1)
    if request.kind == CREW_PLAN:
        crew_plans.settle_plan(uow, request.run, approved=text == APPROVE)
    if not request.options or (is_decision and text != APPROVE):
        uow.run_messages.add(request.run, uow.actor.key, f"About '{shorten(request.question)}': {text}", uow.now)
    uow.emit(RunAnswered(run=request.run, request=number))
    return uow.run_requests.get(number)


def decide_plan(uow: UnitOfWork, name: str, *, approved: bool) -> Crew:
    """Approve or reject the plan of a crew that waits for approval."""
    uow.crews.get(name)
    for run in uow.runs.list_of_crew(name, MAX_RUNS):
        for request in uow.run_requests.list_pending(1, run.name):
            if request.kind == CREW_PLAN:
                answer_request(uow, request.number, APPROVE if approved else REJECT)
                return uow.crews.get(name)
    raise InvalidState(f"the crew '{name}' has no plan that waits for approval", rule="no_plan", crew=name)
