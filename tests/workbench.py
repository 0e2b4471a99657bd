"""A Shopfloor for tests: tools that a test controls, retry pauses recorded instead of slept, and access to the rows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from shopfloor.app import TOOLSETS, build
from shopfloor.background.dispatcher import Subscriber
from shopfloor.domain.decisions import Entry
from shopfloor.domain.principals import Agent, Kind, Principal
from shopfloor.domain.times import SECOND
from shopfloor.errors import InvalidState, ShopfloorError, StoreBusy
from shopfloor.repositories.escalations import Escalation
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import CallRecord, CallResult, Context, Credential, Request, Toolset, Waiting
from shopfloor.usecases import agents, credentials, decisions, users
from shopfloor.usecases.external import ExternalContext
from tests.operator_access import read_as_operator, write_as_operator

T = TypeVar("T")

PATIENCE = 300.0
"""Timeout in seconds that only ends a test that would hang."""

on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""Mark a test that has the same result on both engines."""

STATUS = "mcp__agent__get_status"
LOG_DECISION = "mcp__system__log_decision"
DECISION = {"title": "Chose a queue", "body": "Because of the load"}


@dataclass
class Tools:
    """The tools of the toolset `bench`. A test sets what they do; `seen` lists the `text` of each run."""

    seen: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    inside: Callable[[str], None] = lambda text: None

    def toolset(self) -> Toolset:
        """Build the toolset `bench`."""
        bench = Toolset(
            "bench",
            render_error=_render_error,
            principal_kind=Kind.AGENT,
            allows=lambda caller, tool: not tool.name.startswith("forbidden"),
        )

        @bench.tool("note")
        def note(uow: UnitOfWork, text: str) -> dict[str, Any]:
            """Log a decision, then raise the next of `failures`."""
            number = self._log_decision(uow, text)
            self._record_run(text)
            return {"noted": text, "log": number}

        @bench.tool("look", read_only=True)
        def look(uow: UnitOfWork, text: str = "") -> dict[str, Any]:
            """Read without writing."""
            self._record_run(text)
            return {"looked": text}

        @bench.tool("fetch", external=True)
        def fetch(external: ExternalContext, text: str) -> dict[str, Any]:
            """Run outside of a transaction, then log a decision."""
            self._record_run(text)
            return {"fetched": text, "log": external.write(lambda uow: self._log_decision(uow, text))}

        @bench.tool("await")
        def await_decision(uow: UnitOfWork, text: str, seconds: int = 60, resumed: Waiting | None = None) -> Any:
            """Wait until a decision with this title is logged."""
            self._record_run(text)
            titles = [entry.decision for entry in uow.decisions.list_page(limit=100) if entry.kind == "manual"]
            if text in titles:
                return {"came": text}
            if resumed is None:
                return Waiting("log", uow.now + seconds * SECOND, state="asked")
            return resumed if uow.now < resumed.until else {"came": None, "state": resumed.state}

        @bench.tool("forbidden")
        def forbidden(uow: UnitOfWork) -> None:
            """Fail the test: the toolset allows this to no caller."""

        return bench

    def _log_decision(self, uow: UnitOfWork, text: str) -> int:
        return decisions.log_decision(uow, "bench", "note", text, "logged by a tool of the test")

    def _record_run(self, text: str) -> None:
        self.seen.append(text)
        self.inside(text)
        if self.failures:
            raise self.failures.pop(0)


def _render_error(error: ShopfloorError, _: Request, __: int) -> dict[str, Any]:
    return {"error": error.code, "message": error.message}


def bare_request(tool: str = "note", input: Any = None) -> Request:
    """Return a request for testing a single step."""
    return Request(_BENCH, tool, {} if input is None else input, Credential(), "test")


def bare_record() -> CallRecord:
    return CallRecord(reference=7, started_at=1_000_000)


def bare_context(tool: str = "note") -> Context:
    """Return a context for testing a single step."""
    return Context(
        bare_request(tool), bare_record(), Principal(Kind.AGENT, "builder", "WORKER"), _BENCH.tools[tool], {}, None
    )


_BENCH = Tools().toolset()


def seed_agent(
    shopfloor: Shopfloor, name: str, type: str = "WORKER", supervisor: str | None = None, *, with_token: bool = False
) -> tuple[Agent, str | None]:
    """Create an agent, and a token if wanted, without a row in the log."""

    def create(uow: UnitOfWork) -> tuple[Agent, str | None]:
        agent = agents.create_agent(uow, name, type, uow.limits.agent_types, supervisor)
        return agent, credentials.issue_for_agent(uow, name)[1] if with_token else None

    return write_as_operator(shopfloor, create)


class Workbench(Shopfloor):
    """A Shopfloor with the toolset `bench`."""

    def __init__(
        self,
        settings: Settings,
        *,
        kind: str = "test",
        tools: Tools | None = None,
        toolsets: Sequence[Toolset] = (),
        subscribers: Sequence[Subscriber] = (),
    ) -> None:
        self.tools = tools or Tools()
        self.pauses: list[float] = []
        self.settings = settings
        ours = {toolset.name: toolset for toolset in [*TOOLSETS.values(), self.tools.toolset(), *toolsets]}
        self.engine = build(settings, toolsets=ours, subscribers=subscribers, sleep=self.pauses.append)
        self._kind = kind

    def ask(
        self,
        tool: str,
        input: Any = None,
        *,
        toolset: str = "bench",
        token: str | None = None,
        claim: str | None = None,
        key: str | None = None,
    ) -> CallResult:
        """Call a tool as a transport does: with or without a token, a claimed name and an idempotency key."""
        return self.engine.call(self.new_request(tool, input, toolset=toolset, token=token, claim=claim, key=key))

    def new_request(
        self,
        tool: str,
        input: Any = None,
        *,
        toolset: str = "bench",
        token: str | None = None,
        claim: str | None = None,
        key: str | None = None,
    ) -> Request:
        return Request(
            self.engine.toolsets[toolset],
            tool,
            {} if input is None else input,
            Credential(token=token),
            "test",
            claimed_name=claim,
            idempotency_key=key,
        )

    def write(self, fn: Callable[[UnitOfWork], T]) -> T:
        """Arrange something in the store as the operator, without a row in the log."""
        return write_as_operator(self, fn)

    def read(self, fn: Callable[[UnitOfWork], T]) -> T:
        """Read from the store as the operator, without a row in the log."""
        return read_as_operator(self, fn)

    def seed_agent(
        self, name: str, type: str = "WORKER", supervisor: str | None = None, *, with_token: bool = False
    ) -> tuple[Agent, str | None]:
        """Create an agent, and a token if wanted, without a row in the log."""
        return seed_agent(self, name, type, supervisor, with_token=with_token)

    def seed_user(self, name: str) -> str:
        """Add a user without a row in the log, and return the user's token."""

        def add(uow: UnitOfWork) -> str:
            users.add_user(uow, name)
            return credentials.issue_for_user(uow, name)[1]

        return self.write(add)

    def log(self) -> list[Entry]:
        """Return the rows of the decision log, oldest first, including those still in the write queue."""
        self.engine.database.store.flush()
        return self.read(lambda uow: uow.decisions.list_page(limit=1000))[::-1]

    def lines(self) -> list[tuple[str, str, str]]:
        """Return the kind, subject and tool of each row of the log."""
        return [(entry.kind, entry.subject, entry.tool) for entry in self.log()]

    def traces(self) -> list[str]:
        """Return the titles that the tools of the test logged."""
        return [entry.decision for entry in self.log() if entry.kind == "manual"]

    def escalations(self) -> list[Escalation]:
        """Return the escalations, newest first."""
        return self.read(lambda uow: uow.escalations.list_page(100))

    def stack(self, entry: Entry) -> str | None:
        return self.read(lambda uow: uow.decisions.find_stack(entry.id))

    def execute(self, sql: str, **params: Any) -> int:
        """Run SQL that no tool would run."""
        return self.engine.database.store.write(lambda connection: connection.execute(sql, **params))

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        return self.engine.database.store.read(lambda connection: connection.fetch_all(sql, **params))

    def pass_time(self, span: int) -> None:
        """Move the clock of the store ahead by `span` microseconds."""
        before = self.engine.database.clock
        self.engine.database.clock = lambda: before() + span

    def break_log(self) -> None:
        """Make every insert into the log fail, as if the disk were full."""
        self.execute(_BREAK_LOG[self.engine.database.store.engine])

    def repair_log(self) -> None:
        self.execute(_REPAIR_LOG[self.engine.database.store.engine])


_BREAK_LOG = {
    "sqlite": "CREATE TRIGGER full BEFORE INSERT ON decision BEGIN SELECT RAISE(ABORT, 'the log is full'); END",
    "postgres": "ALTER TABLE decision ADD CONSTRAINT full_log CHECK (false) NOT VALID",
}
_REPAIR_LOG = {
    "sqlite": "DROP TRIGGER full",
    "postgres": "ALTER TABLE decision DROP CONSTRAINT full_log",
}


def busy() -> StoreBusy:
    """Return a transient error."""
    return StoreBusy()


def wrong_state() -> InvalidState:
    """Return an error that rejects the call."""
    return InvalidState("The agent holds no task")


def wait_until(condition: Callable[[], Any]) -> Any:
    """Poll the condition until it is true, and return its value."""
    limit = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < limit, "the condition never became true"
        time.sleep(0.002)
    return value


async def wait_until_async(condition: Callable[[], Any]) -> None:
    """Poll the condition without blocking the event loop."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "the condition never became true"
        await asyncio.sleep(0.001)


def run_together(*functions: Callable[[], Any]) -> list[Any]:
    """Run the functions at the same time and return their results in order."""
    results: list[Any] = [None] * len(functions)
    ready = threading.Barrier(len(functions))

    def run(index: int) -> None:
        ready.wait(PATIENCE)
        results[index] = functions[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return results
