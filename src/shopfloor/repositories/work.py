"""Work: one transaction, with the repositories scoped to the caller, the clock, and `tell`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, TypeVar

from shopfloor.domain.actors import Principal
from shopfloor.domain.events import Event
from shopfloor.domain.mail import reader_of
from shopfloor.domain.rules import Rules
from shopfloor.domain.tasks import BoardKind
from shopfloor.repositories.agents import Agents
from shopfloor.repositories.answers import Answers
from shopfloor.repositories.conversations import Conversations
from shopfloor.repositories.decisions import Decisions
from shopfloor.repositories.epics import Epics
from shopfloor.repositories.escalations import Escalations
from shopfloor.repositories.index import Index
from shopfloor.repositories.knowledge import Accesses, Discoveries
from shopfloor.repositories.loops import Runs, RunTalk
from shopfloor.repositories.mail import Mails
from shopfloor.repositories.outbox import Outbox
from shopfloor.repositories.people import People
from shopfloor.repositories.processes import Processes
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.tokens import Tokens
from shopfloor.repositories.workspaces import Workspaces
from shopfloor.store.database import Connection, Store

T = TypeVar("T")


class Work:
    """What a use case works with, for as long as one transaction lasts."""

    def __init__(self, floor: Works, connection: Connection, actor: Principal, now: int, reference: int) -> None:
        self._floor = floor
        self._connection = connection
        self.actor = actor
        self.now = now
        self.reference = reference
        self.workspace = floor.workspace
        self.process = floor.process
        self.rules = floor.rules
        self.task: int | None = None
        """The task that this work is about, for the log."""
        self.deeds: list[Callable[[Work], None]] = []
        self.told: list[Event] = []

    def tell(self, event: Event) -> None:
        """Write down that it happened; subscribers and those who wait hear of it once this work is durable."""
        self.outbox.add(event, self._floor.subscribers.get(event.name, ()), self.reference, self.now)
        self._connection.hint(*event.topics())
        self.told.append(event)

    def the(self, kind: type[T]) -> T:
        """The one thing of that kind that this floor has outside of its store."""
        thing: T = self._floor.gateways[kind]
        return thing

    def afterwards(self, deed: Callable[[Work], None]) -> None:
        """Do something small once the answer stands: in this work, or, where it only reads, in the next commit."""
        self.deeds.append(deed)

    def savepoint(self) -> AbstractContextManager[None]:
        """A part of this work that can fail by itself, and is then as if it had never been."""
        return _Part(self, self._connection.savepoint())

    @cached_property
    def workspaces(self) -> Workspaces:
        return Workspaces(self._connection)

    @cached_property
    def agents(self) -> Agents:
        return Agents(self._connection, self.workspace)

    @cached_property
    def people(self) -> People:
        return People(self._connection, self.workspace)

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens(self._connection, self.workspace)

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks of all epics, and those of none."""
        return Tasks(self._connection, self.workspace, BoardKind.EPIC)

    def tasks_of(self, kind: BoardKind, board: str) -> Tasks:
        """The tasks of one board."""
        return Tasks(self._connection, self.workspace, kind, board)

    def tasks_in(self, kind: BoardKind) -> Tasks:
        """The tasks of all boards of a kind, for housekeeping."""
        return Tasks(self._connection, self.workspace, kind)

    def conversations_of(self, user: str) -> Conversations:
        """The conversations of one user."""
        return Conversations(self._connection, self.workspace, user)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self._connection, self.workspace)

    @cached_property
    def run_talk(self) -> RunTalk:
        return RunTalk(self._connection, self.workspace)

    @cached_property
    def epics(self) -> Epics:
        return Epics(self._connection, self.workspace)

    @cached_property
    def mail(self) -> Mails:
        return Mails(self._connection, self.workspace)

    @cached_property
    def decisions(self) -> Decisions:
        return Decisions(self._connection, self.workspace)

    @cached_property
    def discoveries(self) -> Discoveries:
        return Discoveries(self._connection, self.workspace)

    @cached_property
    def accesses(self) -> Accesses:
        return Accesses(self._connection, self.workspace)

    @cached_property
    def index(self) -> Index:
        return Index(self._connection, self.workspace, self._floor.root, reader_of(self.actor))

    @cached_property
    def answers(self) -> Answers:
        return Answers(self._connection, self.workspace, self.actor.key)

    @cached_property
    def outbox(self) -> Outbox:
        return Outbox(self._connection, self.workspace)

    @cached_property
    def escalations(self) -> Escalations:
        return Escalations(self._connection, self.workspace)

    @cached_property
    def processes(self) -> Processes:
        return Processes(self._connection, self.workspace)


class _Part(AbstractContextManager[None]):
    __slots__ = ("_deeds", "_savepoint", "_told", "_work")

    def __init__(self, work: Work, savepoint: AbstractContextManager[None]) -> None:
        self._work = work
        self._savepoint = savepoint

    def __enter__(self) -> None:
        self._deeds, self._told = len(self._work.deeds), len(self._work.told)
        self._savepoint.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            del self._work.deeds[self._deeds :]
            del self._work.told[self._told :]
        self._savepoint.__exit__(kind, error, trace)


@dataclass(slots=True)
class Works:
    """Opens Work on one store, for one workspace."""

    store: Store
    clock: Callable[[], int]
    workspace: int = 0
    process: int | None = None
    subscribers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    root: str = ""
    """The project root that this floor's index is about."""
    gateways: dict[type, Any] = field(default_factory=dict)
    """The things outside of the store that this floor has, one of a kind."""
    rules: Rules = field(default_factory=Rules)
    heard: Callable[[Event], None] = lambda event: None
    """Who hears of what this process did, once it is durable. Whoever must hear of it is a subscriber."""

    def write(self, fn: Callable[[Work], T], actor: Principal, reference: int = 0) -> T:
        """What `fn` returns, after everything it wrote is durable. It may run more than once, but counts once."""
        told: list[Event] = []

        def attempt(connection: Connection) -> T:
            nonlocal told
            work = Work(self, connection, actor, self.clock(), reference)
            told = work.told
            return fn(work)

        result = self.store.write(attempt)
        for event in told:
            self.heard(event)
        return result

    def read(self, fn: Callable[[Work], T], actor: Principal, reference: int = 0) -> T:
        """What `fn` returns, read from one consistent snapshot."""
        return self.store.read(lambda connection: fn(Work(self, connection, actor, self.clock(), reference)))

    def later(self, fn: Callable[[Work], object], actor: Principal, reference: int = 0) -> None:
        """Hand `fn` to one of the next commits, without waiting for it."""
        self.store.later(lambda connection: fn(Work(self, connection, actor, self.clock(), reference)))


@dataclass(frozen=True, slots=True)
class Outside:
    """What a tool gets that waits on more than the store: it opens work when it needs some."""

    works: Works
    actor: Principal
    reference: int
    report: Callable[[float, float | None, str | None], None] | None = None

    def read(self, fn: Callable[[Work], T]) -> T:
        return self.works.read(fn, self.actor, self.reference)

    def write(self, fn: Callable[[Work], T]) -> T:
        return self.works.write(fn, self.actor, self.reference)

    def later(self, fn: Callable[[Work], object]) -> None:
        self.works.later(fn, self.actor, self.reference)

    def the(self, kind: type[T]) -> T:
        """The one thing of that kind that this floor has outside of its store."""
        thing: T = self.works.gateways[kind]
        return thing

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far it is, where the door can."""
        if self.report is not None:
            self.report(done, total, message)
