"""Tools with which a driver asks people."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.runs import check_fence, run_topic
from shopfloor.domain.times import SECOND
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json, Waiting
from shopfloor.toolsets.run.contract import Fence, lock_run, toolset
from shopfloor.toolsets.run.driving import RECHECK_INTERVAL
from shopfloor.usecases import run_requests

Number = Annotated[int, Field(description="The question's number", ge=1)]


@toolset.tool("request_permission")
def ask_permission(
    uow: UnitOfWork,
    fence: Fence,
    question: Annotated[str, Field(description="The question")],
    options: Annotated[list[str], Field(description="The possible answers")],
    subject: Annotated[str, Field(description="What it is about; a question about the same may have been answered")],
) -> Json:
    """Ask a person for a permission on behalf of the agent. Return the number of the question.

    If a person has answered `always` to a question about the same subject, return that answer without asking.
    """
    lock_run(uow, fence)
    if uow.run_requests.is_always_allowed(uow.actor.name, subject):
        return {"number": None, "answer": run_requests.ALWAYS}
    request = run_requests.ask_person(uow, uow.actor.name, "permission", question, tuple(options), subject)
    return {"number": request.number, "answer": None}


@toolset.tool("request_decision")
def ask_decision(
    uow: UnitOfWork,
    fence: Fence,
    kind: Annotated[Literal["plan", "review"], Field(description="What it is about")],
    question: Annotated[str, Field(description="The question")],
) -> Json:
    """Ask a person to approve something, or find the question that is already open. Return its number."""
    lock_run(uow, fence)
    return {"number": run_requests.ask_decision(uow, uow.actor.name, kind, question).number}


@toolset.tool("request_wait")
def wait_for_answer(
    uow: UnitOfWork,
    fence: Fence,
    number: Number,
    seconds: Annotated[float, Field(description="How long to wait", ge=0)],
    resumed: Waiting | None = None,
) -> Json | Waiting:
    """Return the answer of a person. At the deadline, withdraw the question and return none."""
    name = uow.actor.name
    check_fence(uow.runs.get(name), fence)
    request = uow.run_requests.get(number)
    if request.answered_at is not None:
        return {"answer": None if request.answer == run_requests.WITHDRAWN else request.answer}
    deadline = uow.now + int(seconds * SECOND) if resumed is None else resumed.state
    if uow.now >= deadline or (resumed is not None and resumed.until == 0):
        run_requests.withdraw_requests(uow, name, number, (request.kind,))
        return {"answer": None}
    return Waiting(run_topic(name), min(deadline, uow.now + RECHECK_INTERVAL), deadline)


@toolset.tool("request_withdraw")
def withdraw_request(uow: UnitOfWork, fence: Fence, number: Number) -> None:
    """Withdraw a question that no longer matters."""
    lock_run(uow, fence)
    run_requests.withdraw_requests(uow, uow.actor.name, number)
