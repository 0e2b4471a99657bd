"""Where written things come from: each source tells what is new, and shows what was found once more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shopfloor.domain.decisions import Entry
from shopfloor.domain.index import Written
from shopfloor.domain.knowledge import Discovery
from shopfloor.domain.loops import NOTE_PREFIX, Note, task_id
from shopfloor.domain.mail import Mail, reader_of
from shopfloor.domain.tasks import BoardKind, Comment, Task
from shopfloor.repositories.work import Work
from shopfloor.repositories.written import Change

Some = Callable[[Work, Sequence[str]], list[Written]]

_BOARDS = (BoardKind.EPIC, BoardKind.LOOP)
"""Whose tasks everybody may find; a user's list is nobody else's."""


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of written thing.

    What only some may find carries an `owner`. `shown` is asked for whatever was found, so that nothing stale is
    shown, and nothing to whom it does not concern.
    """

    name: str
    changed: Callable[[Work, int, int], list[Change]]
    """What changed since then and is not in the index as it is now, oldest first, at most so many."""
    some: Some
    """What there is of these, for the index."""
    shown: Some
    """What there is of these, for the caller."""


def discovery(found: Discovery) -> Written:
    return Written(
        source="discovery",
        ref=str(found.id),
        id=f"discovery-{found.id}",
        type=found.type,
        title="",
        text=found.content,
        module=found.module,
        session=found.session,
        owner=None,
        created_at=found.created_at,
        changed_at=found.created_at,
    )


def decision(entry: Entry) -> Written:
    return Written(
        source="decision",
        ref=str(entry.id),
        id=f"log-{entry.id}",
        type="decision",
        title=entry.decision,
        text=entry.reasoning,
        module=None,
        session=None,
        owner=None,
        created_at=entry.created_at,
        changed_at=entry.created_at,
    )


def task(found: Task) -> Written:
    in_loop = found.kind == BoardKind.LOOP
    return Written(
        source="task",
        ref=str(found.number),
        id=task_id(found.number) if in_loop else f"task-{found.number}",
        type="task",
        title=found.title,
        text=found.description or "",
        module=None,
        session=found.board if in_loop else None,
        owner=None,
        created_at=found.created_at,
        changed_at=found.updated_at,
    )


def comment(found: Comment, about: Task | None) -> Written:
    """A comment as the index knows it, by its own words alone; with its task, as it is shown."""
    of = None if about is None else task(about)
    return Written(
        source="task",
        ref=str(found.id),
        id=of.id if of else f"comment-{found.id}",
        type="comment",
        title=of.title if of else "",
        text=f"{found.author}: {found.body}" if of else found.body,
        module=None,
        session=of.session if of else None,
        owner=None,
        created_at=found.created_at,
        changed_at=found.created_at,
    )


def mail(found: Mail) -> Written:
    return Written(
        source="mail",
        ref=str(found.id),
        id=f"mail-{found.id}",
        type="mail",
        title=found.subject,
        text=found.body,
        module=None,
        session=None,
        owner=found.sender.key,
        created_at=found.created_at,
        changed_at=found.created_at,
    )


def note(found: Note) -> Written:
    return _said(found.id, found.type, found.content, found.run, found.created_at)


def _said(ref: str, type: str, text: str, run: str, at: int) -> Written:
    return Written(
        source="session",
        ref=ref,
        id=ref,
        type=type,
        title="",
        text=text,
        module=None,
        session=run,
        owner=None,
        created_at=at,
        changed_at=at,
    )


def _discoveries(work: Work, refs: Sequence[str]) -> list[Written]:
    return [discovery(each) for each in work.discoveries.some([int(ref) for ref in refs])]


def _decisions(work: Work, refs: Sequence[str]) -> list[Written]:
    return [decision(each) for each in work.decisions.some([int(ref) for ref in refs])]


def _tasks(work: Work, refs: Sequence[str]) -> list[Written]:
    numbers = [int(ref) for ref in refs]
    return [task(each) for kind in _BOARDS for each in work.tasks_in(kind).some(numbers)]


def _comments(work: Work, refs: Sequence[str]) -> list[Written]:
    return [comment(each, None) for _, each in work.comments.some([int(ref) for ref in refs])]


def _comments_with_tasks(work: Work, refs: Sequence[str]) -> list[Written]:
    found = work.comments.some([int(ref) for ref in refs])
    numbers = list({number for number, _ in found})
    about = {each.number: each for kind in _BOARDS for each in work.tasks_in(kind).some(numbers)}
    return [comment(each, about[number]) for number, each in found if number in about]


def _mails(work: Work, refs: Sequence[str]) -> list[Written]:
    return [mail(each) for each in work.mail.some([int(ref) for ref in refs])]


def _own_mails(work: Work, refs: Sequence[str]) -> list[Written]:
    return [mail(each) for each in work.mail.some_of(reader_of(work.actor), [int(ref) for ref in refs])]


def _sessions(work: Work, refs: Sequence[str]) -> list[Written]:
    notes = [int(ref.removeprefix(NOTE_PREFIX)) for ref in refs if "/" not in ref]
    found = [note(each) for each in work.run_talk.some_notes(notes)]
    for ref in refs:
        run, slash, number = ref.rpartition("/")
        if slash and (said := work.runs.summary(run, int(number))):
            found.append(_said(ref, "summary", said[0], run, said[1]))
    return found


def _changed_tasks(work: Work, since: int, limit: int) -> list[Change]:
    return _first((change for kind in _BOARDS for change in work.tasks_in(kind).unindexed(since, limit)), limit)


def _changed_sessions(work: Work, since: int, limit: int) -> list[Change]:
    notes = work.run_talk.unindexed_notes(since, limit)
    return _first([*notes, *work.runs.unindexed_summaries(since, limit)], limit)


def _first(changes: Iterable[Change], limit: int) -> list[Change]:
    """The oldest of all, so that nothing is passed over when the rest is looked for later."""
    return sorted(changes)[:limit]


SOURCES: list[Source] = [
    Source("discovery", lambda work, at, limit: work.discoveries.unindexed(at, limit), _discoveries, _discoveries),
    Source("decision", lambda work, at, limit: work.decisions.unindexed(at, limit), _decisions, _decisions),
    Source("task", _changed_tasks, _tasks, _tasks),
    Source("comment", lambda work, _, limit: work.comments.unindexed(limit), _comments, _comments_with_tasks),
    Source("session", _changed_sessions, _sessions, _sessions),
    Source("mail", lambda work, at, limit: work.mail.unindexed(at, limit), _mails, _own_mails),
]
"""What is searched beside code."""
