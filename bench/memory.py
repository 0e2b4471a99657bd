"""What a team writes, of every kind, with the question that each of it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.retrieval import Question
from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.loops import NOTE_PREFIX
from shopfloor.domain.mail import FLOOR, HUMAN
from shopfloor.repositories.work import Work
from shopfloor.serving import Shopfloor
from shopfloor.usecases import decisions, loops

RUN = "night"

Write = Callable[[Work, str], int]


def _discovery(work: Work, body: str) -> int:
    number, _ = work.discoveries.add(
        type="pattern",
        content=body,
        module=None,
        author="bench",
        session=None,
        supersedes=None,
        digest=body.encode(),
        files={},
        now=work.now,
    )
    return number


def _task(work: Work, body: str) -> int:
    return work.tasks.add(title="A task", description=body, now=work.now).number


def _comment(work: Work, body: str) -> int:
    return work.tasks.add_comment(work.tasks.add(title="A task", now=work.now).number, "bench", body, work.now)


def _mail(work: Work, body: str) -> int:
    number = work.mail.add(sender=FLOOR, sender_type="SYSTEM", subject="News", body=body, now=work.now)
    work.mail.address(number, HUMAN, wanted=False, overdue_at=None)
    return number


def _note(work: Work, body: str) -> int:
    (note,) = loops.add_notes(work, RUN, [("learning", body)])
    return int(note.id.removeprefix(NOTE_PREFIX))


KINDS: dict[str, Write] = {
    "discovery": _discovery,
    "decision": lambda work, body: decisions.log(work, "factory", "bench", "A decision", body),
    "task": _task,
    "comment": _comment,
    "mail": _mail,
    "session": _note,
}


def write(floor: Shopfloor, pairs: Sequence[tuple[str, str]]) -> dict[str, list[Question]]:
    """The bodies written down as each kind in turn, and for each kind the subjects as questions."""
    works = floor.floor.works
    works.write(lambda work: loops.create(work, RUN, spec="s", project="p", options="{}"), OPERATOR)
    asked: dict[str, list[Question]] = {kind: [] for kind in KINDS}
    for place, (subject, body) in enumerate(pairs):
        kind, put = list(KINDS.items())[place % len(KINDS)]
        number = works.write(lambda work, put=put, body=body: put(work, body[:10_000]), OPERATOR)  # type: ignore[misc]
        ref = f"{NOTE_PREFIX}{number}" if kind == "session" else str(number)
        asked[kind].append(Question(subject, f"{kind}/{ref}", 0, True))
    return asked
