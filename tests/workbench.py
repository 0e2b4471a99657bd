"""A floor in the hands of a test: tools that do whatever is asked, pauses noted instead of slept, and a look at the rows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from shopfloor.app import TOOLSETS, build
from shopfloor.background.dispatcher import Subscriber
from shopfloor.domain.actors import Kind
from shopfloor.domain.decisions import Entry
from shopfloor.domain.times import SECOND
from shopfloor.errors import ShopfloorError, StoreBusy, WrongState
from shopfloor.repositories.escalations import Escalation
from shopfloor.repositories.work import Outside, Work
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Answer, Call, Credential, Toolset, Waiting
from shopfloor.usecases import decisions

PATIENCE = 60.0
"""Only ends a test that would hang."""

on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""For a test of which the engine makes no difference."""

STATUS = "mcp__agent__get_status"
LOG_DECISION = "mcp__system__log_decision"
DECISION = {"title": "Chose a queue", "body": "Because of the load"}


@dataclass
class Tools:
    """A toolset of which the test decides what happens inside; `seen` counts how often a tool really ran."""

    seen: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    inside: Callable[[str], None] = lambda text: None

    def toolset(self) -> Toolset:
        """The toolset `bench`."""
        bench = Toolset(
            "bench",
            answer=lambda value, call: value,
            refuse=_refuse,
            acts_as=Kind.AGENT,
            may=lambda caller, tool: not tool.startswith("forbidden"),
        )

        @bench.tool("note")
        def note(work: Work, text: str) -> dict[str, Any]:
            """Leave a trace in the store, then fail if the test wants that."""
            number = self._trace(work, text)
            self._happen(text)
            return {"noted": text, "log": number}

        @bench.tool("look", read_only=True)
        def look(work: Work, text: str = "") -> dict[str, Any]:
            """Read only."""
            self._happen(text)
            return {"looked": text}

        @bench.tool("fetch", outside=True)
        def fetch(outside: Outside, text: str) -> dict[str, Any]:
            """Something outside of the store, then a trace in it."""
            self._happen(text)
            return {"fetched": text, "log": outside.write(lambda work: self._trace(work, text))}

        @bench.tool("await")
        def await_decision(work: Work, text: str, seconds: int = 60, waited: Waiting | None = None) -> Any:
            """Wait until somebody logs a decision of this title."""
            self._happen(text)
            titles = [entry.decision for entry in work.decisions.page(limit=100) if entry.kind == "manual"]
            if text in titles:
                return {"came": text}
            if waited is None:
                return Waiting("log", work.now + seconds * SECOND, state="asked")
            return waited if work.now < waited.until else {"came": None, "state": waited.state}

        @bench.tool("forbidden")
        def forbidden(work: Work) -> None:
            """Nobody may."""

        return bench

    def _trace(self, work: Work, text: str) -> int:
        return decisions.log(work, "bench", "note", text, "left by a tool of the test")

    def _happen(self, text: str) -> None:
        self.seen.append(text)
        self.inside(text)
        if self.failures:
            raise self.failures.pop(0)


def _refuse(error: ShopfloorError, call: Call) -> dict[str, Any]:
    return {"error": error.code, "message": error.message}


def bare_call(tool: str = "note", input: Any = None) -> Call:
    """A call for a step that stands alone."""
    return Call(_BENCH, tool, {} if input is None else input, Credential(), "test")


_BENCH = Tools().toolset()


class Workbench(Shopfloor):
    """A floor with the toolset `bench`."""

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
        self.floor = build(settings, toolsets=ours, subscribers=subscribers, sleep=self.pauses.append)
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
    ) -> Answer:
        """The answer as a door gets it: with a token or none, a claimed name, an idempotency key."""
        return self.floor.call(self.a_call(tool, input, toolset=toolset, token=token, claim=claim, key=key))

    def a_call(
        self,
        tool: str,
        input: Any = None,
        *,
        toolset: str = "bench",
        token: str | None = None,
        claim: str | None = None,
        key: str | None = None,
    ) -> Call:
        return Call(
            self.floor.toolsets[toolset],
            tool,
            {} if input is None else input,
            Credential(token=token),
            "test",
            claim=claim,
            key=key,
        )

    def log(self) -> list[Entry]:
        """The rows of the decision log, oldest first, those included that nobody waited for."""
        self.floor.works.store.flush()
        return self.floor.look(lambda work: work.decisions.page(limit=1000))[::-1]

    def lines(self) -> list[tuple[str, str, str]]:
        """The kind, the subject and the tool of each row."""
        return [(entry.kind, entry.subject, entry.tool) for entry in self.log()]

    def traces(self) -> list[str]:
        """What the tools of the test left in the store."""
        return [entry.decision for entry in self.log() if entry.kind == "manual"]

    def escalations(self) -> list[Escalation]:
        """Newest first."""
        return self.floor.look(lambda work: work.escalations.page(100))

    def stack(self, entry: Entry) -> str | None:
        return self.floor.look(lambda work: work.decisions.stack(entry.id))

    def execute(self, sql: str, **params: Any) -> int:
        """Reach into the store, for what no tool does."""
        return self.floor.works.store.write(lambda connection: connection.execute(sql, **params))

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        return self.floor.works.store.read(lambda connection: connection.all(sql, **params))

    def pass_time(self, span: int) -> None:
        """From now on the store's clock is ahead by so many microseconds."""
        before = self.floor.works.clock
        self.floor.works.clock = lambda: before() + span

    def break_the_log(self) -> None:
        """From now on no row of the log can be written, as if the disk were full."""
        self.execute(_BROKEN_LOG[self.floor.works.store.engine])

    def mend_the_log(self) -> None:
        self.execute(_MENDED_LOG[self.floor.works.store.engine])


_BROKEN_LOG = {
    "sqlite": "CREATE TRIGGER full BEFORE INSERT ON decision BEGIN SELECT RAISE(ABORT, 'the log is full'); END",
    "postgres": "ALTER TABLE decision ADD CONSTRAINT full_log CHECK (false) NOT VALID",
}
_MENDED_LOG = {
    "sqlite": "DROP TRIGGER full",
    "postgres": "ALTER TABLE decision DROP CONSTRAINT full_log",
}


def busy() -> StoreBusy:
    """A failure that may pass."""
    return StoreBusy()


def wrong_state() -> WrongState:
    """A refusal."""
    return WrongState("The agent holds no task")


def until(condition: Callable[[], Any]) -> Any:
    """The first true value of the condition, looked at again and again."""
    limit = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < limit, "this never became true"
        time.sleep(0.002)
    return value


async def until_then(condition: Callable[[], Any]) -> None:
    """The same on an event loop, which goes on meanwhile."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "this never became true"
        await asyncio.sleep(0.001)


def together(*functions: Callable[[], Any]) -> list[Any]:
    """What each function returned, all of them run at the same time."""
    answers: list[Any] = [None] * len(functions)
    ready = threading.Barrier(len(functions))

    def run(place: int) -> None:
        ready.wait(PATIENCE)
        answers[place] = functions[place]()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return answers
