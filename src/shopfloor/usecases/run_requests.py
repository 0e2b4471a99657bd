"""The questions that runs ask people: permissions, proposed acceptance commands, stuck notes, plans, reviews."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shopfloor.domain.run_events import RunAnswered, RunAsked
from shopfloor.domain.runs import Request
from shopfloor.repositories.uow import UnitOfWork

ALLOW, ALWAYS, DENY = "allow", "always", "deny"
APPROVAL = (ALLOW, DENY)
CREW_PLAN = "plan_of_crew"
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


def ask_decision(uow: UnitOfWork, run: str, kind: str, question: str) -> Request:
    """Ask the people in charge to approve something, unless they were already asked."""
    pending = [each for each in uow.run_requests.list_pending(_PAGE_SIZE, run) if each.kind == kind]
    return pending[0] if pending else ask_person(uow, run, kind, question, (APPROVE,))


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
