"""Questions of runs to people, and the answers: permissions, proposed acceptance commands, stuck notes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shopfloor.domain.crew_events import CrewChanged
from shopfloor.domain.crews import MAX_CREW_TASKS, Phase
from shopfloor.domain.run_events import RunAnswered, RunAsked, RunTaskChanged
from shopfloor.domain.runs import Request, Wanted, find_proposed_command, format_task_id, shorten
from shopfloor.domain.tasks import BoardKind
from shopfloor.errors import InvalidInput, InvalidState
from shopfloor.repositories.uow import UnitOfWork

ALLOW, ALWAYS, DENY = "allow", "always", "deny"
APPROVAL = (ALLOW, DENY)
PLAN = "plan_of_crew"
"""The kind of question that asks whether a crew may work on its plan."""
REJECT = "reject"
WITHDRAWN = "withdrawn"
"""The stored answer to a question that no longer matters."""

DECISIONS = ("plan", "review")
"""Kinds of questions that are answered with `approve`, or with text for the next prompt."""
APPROVE = "approve"

_PAGE_SIZE = 200


def ask_person(
    uow: UnitOfWork, run: str, kind: str, question: str, options: tuple[str, ...] = (), about: str | None = None
) -> Request:
    """Ask the people in charge. With options, the answer is one of them; without, it is text."""
    request = uow.run_requests.add(run, kind, question, options, uow.now, about)
    uow.emit(RunAsked(run=run, request=request.number))
    return request


def answer_request(uow: UnitOfWork, number: int, text: str) -> Request:
    """Answer a question. A text answer is included in the next prompt of the run."""
    request = uow.run_requests.get(number)
    is_decision = request.kind in DECISIONS
    if request.options and text not in request.options and not is_decision:
        raise InvalidInput(f"'{text[:40]}' is not an answer to this", hint=f"Answer {' or '.join(request.options)}")
    if not uow.run_requests.set_answer(number, text, uow.actor.key, uow.now):
        raise InvalidState(f"question {number} is already answered: {request.answer}", rule="request_answered")
    if request.kind == "acceptance":
        # The command comes from the request: exactly what the person saw, not what the task says by now.
        task, command = json.loads(request.about or "[]")
        if text == ALLOW:
            uow.tasks_of(BoardKind.LOOP, request.run).update(task, uow.now, acceptance=json.dumps(command))
            uow.emit(RunTaskChanged(run=request.run, task=task))
        what = "was approved and has to pass" if text == ALLOW else "was not approved and does not count"
        uow.run_messages.add(
            request.run, uow.actor.key, f"The acceptance command of {format_task_id(task)} {what}.", uow.now
        )
    if request.kind == "plan" and text == APPROVE:
        uow.runs.update(request.run, uow.now, plan_approved=1)
    if request.kind == PLAN:
        _decide_plan(uow, request.run, approved=text == APPROVE)
    if not request.options or (is_decision and text != APPROVE):
        uow.run_messages.add(request.run, uow.actor.key, f"About '{shorten(request.question)}': {text}", uow.now)
    uow.emit(RunAnswered(run=request.run, request=number))
    return uow.run_requests.get(number)


def ask_decision(uow: UnitOfWork, run: str, kind: str, question: str) -> Request:
    """Ask the people in charge to approve something, unless they were already asked."""
    pending = [each for each in uow.run_requests.list_pending(_PAGE_SIZE, run) if each.kind == kind]
    return pending[0] if pending else ask_person(uow, run, kind, question, (APPROVE,))


def _decide_plan(uow: UnitOfWork, run: str, *, approved: bool) -> None:
    """Let a crew work on its plan, with the acceptance commands that it proposes, or stop the crew."""
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


def withdraw_requests(
    uow: UnitOfWork, run: str, number: int | None = None, kinds: Sequence[str] = ("permission",)
) -> None:
    """Withdraw questions that no longer matter: one, or all of these kinds."""
    for request in uow.run_requests.list_pending(_PAGE_SIZE, run):
        if request.kind in kinds and number in (None, request.number):
            _withdraw(uow, request)


def withdraw_proposals(uow: UnitOfWork, run: str, task: int) -> None:
    """Withdraw the proposed acceptance commands of a task."""
    for request in uow.run_requests.list_pending(_PAGE_SIZE, run):
        if request.kind == "acceptance" and json.loads(request.about or "[0]")[0] == task:
            _withdraw(uow, request)


def _withdraw(uow: UnitOfWork, request: Request) -> None:
    uow.run_requests.set_answer(request.number, WITHDRAWN, uow.actor.key, uow.now)
    uow.emit(RunAnswered(run=request.run, request=request.number))
