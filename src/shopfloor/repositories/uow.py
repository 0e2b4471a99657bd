"""The unit of work: one transaction with its repositories, its clock and `emit(event)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from shopfloor.domain.events import Event
from shopfloor.domain.limits import Limits
from shopfloor.domain.mail import mail_reader_key
from shopfloor.domain.principals import Principal
from shopfloor.domain.tasks import BoardKind
from shopfloor.gateways import Gateways
from shopfloor.repositories.agents import Agents
from shopfloor.repositories.call_windows import CallWindows
from shopfloor.repositories.chunks import Chunks, TermCounts
from shopfloor.repositories.conversations import Conversations
from shopfloor.repositories.crews import Crews, Merges
from shopfloor.repositories.decisions import Decisions
from shopfloor.repositories.discoveries import Discoveries
from shopfloor.repositories.embeddings import StoredEmbeddings
from shopfloor.repositories.epics import Epics
from shopfloor.repositories.escalations import Escalations
from shopfloor.repositories.file_access import FileAccesses
from shopfloor.repositories.foreign_ids import ForeignIds
from shopfloor.repositories.health import Health
from shopfloor.repositories.idempotency import IdempotencyKeys
from shopfloor.repositories.index import Index
from shopfloor.repositories.index_marks import IndexMarks
from shopfloor.repositories.launches import Launches
from shopfloor.repositories.mail import Mails
from shopfloor.repositories.notes import Notes
from shopfloor.repositories.outbox import Outbox
from shopfloor.repositories.processes import Processes, Registration
from shopfloor.repositories.reviews import Reviews
from shopfloor.repositories.run_messages import RunMessages
from shopfloor.repositories.run_requests import RunRequests
from shopfloor.repositories.runs import Runs
from shopfloor.repositories.seals import Seals
from shopfloor.repositories.tasks import Comments, Tasks
from shopfloor.repositories.tokens import Tokens
from shopfloor.repositories.transcripts import Transcripts
from shopfloor.repositories.usage import Usage
from shopfloor.repositories.users import Users
from shopfloor.repositories.workspaces import Workspaces
from shopfloor.store.protocol import Connection, Store

T = TypeVar("T")
R = TypeVar("R")


class _Lazy(Generic[R]):
    """A repository that is created on first use: a call uses four of twenty."""

    def __init__(self, create: Callable[[Connection, int], R]) -> None:
        self._create = create

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, uow: UnitOfWork, _: type) -> R:
        # Stored under the same name, so the next access bypasses this descriptor.
        repository = uow.__dict__[self._name] = self._create(uow._connection, uow.workspace)
        return repository


class UnitOfWork:
    """One transaction: the repositories, scoped to the caller, and the events that it emits."""

    agents = _Lazy(Agents)
    users = _Lazy(Users)
    tokens = _Lazy(Tokens)
    runs = _Lazy(Runs)
    notes = _Lazy(Notes)
    run_requests = _Lazy(RunRequests)
    run_messages = _Lazy(RunMessages)
    transcripts = _Lazy(Transcripts)
    reviews = _Lazy(Reviews)
    epics = _Lazy(Epics)
    crews = _Lazy(Crews)
    merges = _Lazy(Merges)
    mail = _Lazy(Mails)
    decisions = _Lazy(Decisions)
    discoveries = _Lazy(Discoveries)
    file_accesses = _Lazy(FileAccesses)
    foreign_ids = _Lazy(ForeignIds)
    index_marks = _Lazy(IndexMarks)
    outbox = _Lazy(Outbox)
    escalations = _Lazy(Escalations)
    processes = _Lazy(Processes)
    launches = _Lazy(Launches)
    usage = _Lazy(Usage)
    call_windows = _Lazy(CallWindows)
    seals = _Lazy(Seals)
    health = _Lazy(Health)
    comments = _Lazy(Comments)
    """The comments on the tasks of all epics and runs."""

    def __init__(self, database: Database, connection: Connection, actor: Principal, now: int, reference: int) -> None:
        self._database = database
        self._connection = connection
        self.actor = actor
        self.now = now
        self.reference = reference
        self.workspace = database.workspace
        self.process = database.registration.number
        self.limits = database.limits
        self.task: int | None = None
        """The task that this call is about, for the log."""
        self.deferred: list[Callable[[UnitOfWork], None]] = []
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Store an event. Subscribers and waiting calls are notified once the transaction is durable."""
        self.outbox.add(event, self._database.subscribers.get(event.name, ()), self.reference, self.now)
        self._connection.notify_on_commit(*event.topics())
        self.events.append(event)

    def notify(self, *topics: str) -> None:
        """Notify waiters on these topics once the transaction is durable, without an event."""
        self._connection.notify_on_commit(*topics)

    @property
    def gateways(self) -> Gateways:
        return self._database.gateways

    def on_finish(self, action: Callable[[UnitOfWork], None]) -> None:
        """Run a small action once the response is known: in this commit, or in a later one that a crash may lose.

        It may run twice after a failover, so it must be idempotent.
        """
        self.deferred.append(action)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Open a block that is rolled back alone, with its events, if an exception leaves it."""
        deferred, events = len(self.deferred), len(self.events)
        try:
            with self._connection.savepoint():
                yield
        except BaseException:
            del self.deferred[deferred:]
            del self.events[events:]
            raise

    @cached_property
    def workspaces(self) -> Workspaces:
        return Workspaces(self._connection)

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks of all epics, and those without an epic."""
        return Tasks(self._connection, self.workspace, BoardKind.EPIC)

    def tasks_of(self, kind: BoardKind, board: str) -> Tasks:
        """Return the tasks of one board."""
        return Tasks(self._connection, self.workspace, kind, board)

    def tasks_in(self, kind: BoardKind) -> Tasks:
        """Return the tasks of all boards of a kind, for housekeeping."""
        return Tasks(self._connection, self.workspace, kind)

    def conversations_of(self, user: str) -> Conversations:
        """Return the conversations of one user."""
        return Conversations(self._connection, self.workspace, user)

    @cached_property
    def index(self) -> Index:
        return Index(self._connection, self.workspace, self._database.root)

    @cached_property
    def chunks(self) -> Chunks:
        """The chunks that the principal of this unit of work may find."""
        return Chunks(
            self._connection,
            self.workspace,
            self._database.root,
            mail_reader_key(self.actor),
            self._database.term_counts,
        )

    @cached_property
    def embeddings(self) -> StoredEmbeddings:
        return StoredEmbeddings(self._connection, self.workspace, self._database.root)

    @cached_property
    def idempotency(self) -> IdempotencyKeys:
        return IdempotencyKeys(self._connection, self.workspace, self.actor.key)


@dataclass(slots=True)
class Database:
    """Open units of work on one store, for one workspace."""

    store: Store
    clock: Callable[[], int]
    gateways: Gateways
    workspace: int = 0
    registration: Registration = field(default_factory=Registration)
    subscribers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    root: str = ""
    """The project root that the index covers."""
    limits: Limits = field(default_factory=Limits)
    term_counts: TermCounts = field(default_factory=TermCounts)
    """How many texts of the index have each common word."""
    on_committed_event: Callable[[Event], None] = lambda event: None
    """Called with each event of this process once it is durable. A crash may lose it, unlike a delivery."""

    def write(self, fn: Callable[[UnitOfWork], T], actor: Principal, reference: int = 0) -> T:
        """Run `fn` in one transaction and return its result once it is durable. `fn` may run more than once."""
        events: list[Event] = []

        def attempt(connection: Connection) -> T:
            nonlocal events
            uow = UnitOfWork(self, connection, actor, self.clock(), reference)
            # Those of the last attempt: earlier attempts were rolled back, and their events never happened.
            events = uow.events
            return fn(uow)

        result = self.store.write(attempt)
        for event in events:
            self.on_committed_event(event)
        return result

    def read(self, fn: Callable[[UnitOfWork], T], actor: Principal, reference: int = 0) -> T:
        """Run `fn` on one consistent snapshot and return its result."""
        return self.store.read(lambda connection: fn(UnitOfWork(self, connection, actor, self.clock(), reference)))

    def later(
        self,
        fn: Callable[[UnitOfWork], object],
        actor: Principal,
        reference: int = 0,
        *,
        may_repeat: bool = False,
    ) -> None:
        """Queue `fn` for one of the next commits without waiting for it.

        With `may_repeat`, it runs again if the outcome of its commit is unknown, so it must be idempotent.
        """
        self.store.later(
            lambda connection: fn(UnitOfWork(self, connection, actor, self.clock(), reference)),
            _never_done if may_repeat else None,
        )

    def log_end_later(self, fn: Callable[[UnitOfWork], object], actor: Principal, reference: int) -> None:
        """Queue `fn`, which writes the end of a call to the log, for one of the next commits."""
        self.store.later(
            lambda connection: fn(UnitOfWork(self, connection, actor, self.clock(), reference)),
            lambda connection: UnitOfWork(self, connection, actor, self.clock(), reference).decisions.has_end(
                reference
            ),
        )


def _never_done(_: Connection) -> bool:
    return False
