"""Team memory of every kind, with a query for each entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.retrieval import Question
from shopfloor.domain.mail import HUMAN, SYSTEM
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.runs import NOTE_PREFIX
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.usecases import decisions, notes, runs

RUN = "night"

Write = Callable[[UnitOfWork, str], int]


def _discovery(uow: UnitOfWork, body: str) -> int:
    number, _ = uow.discoveries.add(
        type="pattern",
        content=body,
        module=None,
        author="bench",
        session=None,
        supersedes=None,
        digest=body.encode(),
        files={},
        now=uow.now,
    )
    return number


def _task(uow: UnitOfWork, body: str) -> int:
    return uow.tasks.add(title="A task", description=body, now=uow.now).number


def _comment(uow: UnitOfWork, body: str) -> int:
    return uow.tasks.add_comment(uow.tasks.add(title="A task", now=uow.now).number, "bench", body, uow.now)


def _mail(uow: UnitOfWork, body: str) -> int:
    number = uow.mail.add(sender=SYSTEM, sender_type="SYSTEM", subject="News", body=body, now=uow.now)
    uow.mail.add_recipient(number, HUMAN, wanted=False, overdue_at=None)
    return number


def _note(uow: UnitOfWork, body: str) -> int:
    (note,) = notes.add_notes(uow, RUN, [("learning", body)])
    return int(note.id.removeprefix(NOTE_PREFIX))


KINDS: dict[str, Write] = {
    "discovery": _discovery,
    "decision": lambda uow, body: decisions.log_decision(uow, "factory", "bench", "A decision", body),
    "task": _task,
    "comment": _comment,
    "mail": _mail,
    "session": _note,
}


def record(shopfloor: Shopfloor, pairs: Sequence[tuple[str, str]]) -> dict[str, list[Question]]:
    """Record the bodies as each kind in turn, and return for each kind the subjects as queries."""
    database = shopfloor.engine.database
    database.write(lambda uow: runs.create_run(uow, RUN, spec="s", project="p", options="{}"), OPERATOR)
    queries: dict[str, list[Question]] = {kind: [] for kind in KINDS}
    for place, (subject, body) in enumerate(pairs):
        kind, add = list(KINDS.items())[place % len(KINDS)]
        number = database.write(lambda uow, add=add, body=body: add(uow, body[:10_000]), OPERATOR)  # type: ignore[misc]
        ref = f"{NOTE_PREFIX}{number}" if kind == "session" else str(number)
        queries[kind].append(Question(subject, f"{kind}/{ref}", 0, True))
    return queries
