"""The documents that search covers besides code: how they are loaded, and how changed ones get into the index."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shopfloor.domain.discoveries import Discovery
from shopfloor.domain.index import SearchDocument, index_document
from shopfloor.domain.mail import Mail, mail_reader_key
from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.runs import NOTE_PREFIX, format_task_id
from shopfloor.domain.tasks import BoardKind, Comment, Task
from shopfloor.repositories.uow import Database, UnitOfWork

INDEX_OWNER = Principal(Kind.SERVER, "search")
"""The principal of the index's own transactions: reading for the index is not reading for a caller."""

MARKS_PER_TRANSACTION = 200
"""Documents of 1 kB take 20 ms of the writer's time, which other writes wait for."""

SEARCHED_BOARDS = (BoardKind.EPIC, BoardKind.LOOP)
"""Tasks that every principal may find. The tasks on a user's list are that user's alone."""

Load = Callable[[UnitOfWork, Sequence[str]], list[SearchDocument]]


class DocumentIndex:
    """Brings the index up to date with the documents that their repositories marked as changed."""

    def __init__(self, database: Database, on_change: Callable[[], None]) -> None:
        self._database = database
        self._on_change = on_change

    def update(self, seconds: float = math.inf) -> bool:
        """Index marked documents for `seconds`, at least one batch; return whether none is left."""
        if not self._database.read(lambda uow: uow.index_marks.exist(), INDEX_OWNER):
            return True
        deadline = time.monotonic() + seconds
        while True:
            taken = self._database.write(_index_marked, INDEX_OWNER)
            self._on_change()
            if taken < MARKS_PER_TRANSACTION:
                return True
            if time.monotonic() > deadline:
                return False


def _index_marked(uow: UnitOfWork) -> int:
    """Take marks, load their documents and replace their chunks, all in one transaction."""
    # Marks are only ever added. A document that changes meanwhile gets one of its own, which this transaction does not
    # see and does not take.
    taken = 0
    for source, refs in uow.index_marks.take(MARKS_PER_TRANSACTION).items():
        taken += len(refs)
        documents = {document.ref: document for document in SOURCES[source].load(uow, list(dict.fromkeys(refs)))}
        uow.index.replace_chunks(
            "", source, {ref: [index_document(documents[ref])] if ref in documents else () for ref in refs}
        )
    return taken


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of document.

    `load` reads documents of every owner, for the index. `load_for_caller` reads what a search found for its
    response: as it is now, and only what the caller may see.
    """

    load: Load
    load_for_caller: Load


def discovery_document(discovery: Discovery) -> SearchDocument:
    return SearchDocument(
        source="discovery",
        ref=str(discovery.id),
        id=f"discovery-{discovery.id}",
        type=discovery.type,
        title="",
        text=discovery.content,
        module=discovery.module,
        session=discovery.session,
        owner=None,
        created_at=discovery.created_at,
        changed_at=discovery.created_at,
    )


def _task_document(task: Task) -> SearchDocument:
    in_run = task.kind == BoardKind.LOOP
    return SearchDocument(
        source="task",
        ref=str(task.number),
        id=format_task_id(task.number) if in_run else f"task-{task.number}",
        type="task",
        title=task.title,
        text=task.description or "",
        module=None,
        session=task.board if in_run else None,
        owner=None,
        created_at=task.created_at,
        changed_at=task.updated_at,
    )


def _comment_document(comment: Comment, task: Task | None) -> SearchDocument:
    """Return a comment for the index, with its own text alone, or for a response, under the title of its task."""
    shown = None if task is None else _task_document(task)
    return SearchDocument(
        source="task",
        ref=str(comment.id),
        id=shown.id if shown else f"comment-{comment.id}",
        type="comment",
        title=shown.title if shown else "",
        text=f"{comment.author}: {comment.body}" if shown else comment.body,
        module=None,
        session=shown.session if shown else None,
        owner=None,
        created_at=comment.created_at,
        changed_at=comment.created_at,
    )


def _mail_document(mail: Mail) -> SearchDocument:
    return SearchDocument(
        source="mail",
        ref=str(mail.id),
        id=f"mail-{mail.id}",
        type="mail",
        title=mail.subject,
        text=mail.body,
        module=None,
        session=None,
        owner=mail.sender.key,
        created_at=mail.created_at,
        changed_at=mail.created_at,
    )


def _session_document(ref: str, type: str, text: str, run: str, created_at: int) -> SearchDocument:
    return SearchDocument(
        source="session",
        ref=ref,
        id=ref,
        type=type,
        title="",
        text=text,
        module=None,
        session=run,
        owner=None,
        created_at=created_at,
        changed_at=created_at,
    )


def _load_discoveries(uow: UnitOfWork, refs: Sequence[str]) -> list[SearchDocument]:
    return [discovery_document(each) for each in uow.discoveries.find_many([int(ref) for ref in refs])]


def _load_decisions(uow: UnitOfWork, refs: Sequence[str]) -> list[SearchDocument]:
    return [
        SearchDocument(
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
        for entry in uow.decisions.find_many([int(ref) for ref in refs])
    ]


def _load_tasks(uow: UnitOfWork, refs: Sequence[str]) -> list[SearchDocument]:
    numbers = [int(ref) for ref in refs]
    return [_task_document(each) for kind in SEARCHED_BOARDS for each in uow.tasks_in(kind).find_many(numbers)]


def _load_comments(uow: UnitOfWork, refs: Sequence[str]) -> list[SearchDocument]:
    return [_comment_document(each, None) for _, each in uow.comments.find_many([int(ref) for ref in refs])]


def _load_comments_with_tasks(uow: UnitOfWork, refs: Sequence[str]) -> list[SearchDocument]:
    comments = uow.comments.find_many([int(ref) for ref in refs])
    numbers = list({number for number, _ in comments})
    tasks = {task.number: task for kind in SEARCHED_BOARDS for task in uow.tasks_in(kind).find_many(numbers)}
    return [_comment_document(comment, tasks[number]) for number, comment in comments if number in tasks]


def _load_mail(uow: UnitOfWork, refs: Sequence[str]) -> list[SearchDocument]:
    return [_mail_document(each) for each in uow.mail.find_many([int(ref) for ref in refs])]


def _load_callers_mail(uow: UnitOfWork, refs: Sequence[str]) -> list[SearchDocument]:
    return [
        _mail_document(each) for each in uow.mail.find_visible(mail_reader_key(uow.actor), [int(ref) for ref in refs])
    ]


def _load_notes_and_summaries(uow: UnitOfWork, refs: Sequence[str]) -> list[SearchDocument]:
    """Load notes (NOT-1) and summaries of iterations (RUN/2)."""
    notes = uow.notes.find_many([int(ref.removeprefix(NOTE_PREFIX)) for ref in refs if "/" not in ref])
    documents = [_session_document(note.id, note.type, note.content, note.run, note.created_at) for note in notes]
    for ref in refs:
        run, slash, number = ref.rpartition("/")
        if slash and (summary := uow.runs.find_summary(run, int(number))):
            documents.append(_session_document(ref, "summary", summary[0], run, summary[1]))
    return documents


SOURCES: dict[str, Source] = {
    "discovery": Source(_load_discoveries, _load_discoveries),
    "decision": Source(_load_decisions, _load_decisions),
    "task": Source(_load_tasks, _load_tasks),
    "comment": Source(_load_comments, _load_comments_with_tasks),
    "session": Source(_load_notes_and_summaries, _load_notes_and_summaries),
    "mail": Source(_load_mail, _load_callers_mail),
}
"""The documents besides code, by the source that marks and chunks carry."""
