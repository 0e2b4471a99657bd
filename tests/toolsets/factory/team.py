"""A server with a small team of agents, and what tests do with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from shopfloor.domain.times import SECOND
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import CallResult
from tests.operator_access import read_as_operator, write_as_operator
from tests.workbench import seed_agent

MEMBERS = {"sup": "SUPERVISOR", "orc": "ORCHESTRATOR", "w1": "WORKER", "w2": "WORKER"}


class Team:
    """A server with the agents `sup`, who leads, `orc`, `w1` and `w2`. Tests can advance its clock."""

    def __init__(self, folder: Path, *, running: bool = False, **settings: Any) -> None:
        self.shop = Shopfloor(Settings(project=folder, retry_pause=0, **settings))
        self.engine = self.shop.engine
        self._running = running
        self._clock = self.engine.database.clock
        self._ahead = 0
        self.engine.database.clock = lambda: self._clock() + self._ahead
        for name, type in MEMBERS.items():
            self.create_agent(name, type)

    def __enter__(self) -> Self:
        if self._running:
            self.shop.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.shop.close()

    def create_agent(self, name: str, type: str = "WORKER") -> str:
        seed_agent(self.shop, name, type, None if name == "sup" else "sup", with_token=False)
        return name

    def answer(self, caller: str | None, tool: str, **input: Any) -> CallResult:
        toolset = "factory" if tool.startswith("mcp__") else "desk"
        return self.shop.answer(toolset, tool, input, caller)

    def call(self, caller: str | None, tool: str, **input: Any) -> Any:
        """Call a tool that must succeed, and return its data."""
        answer = self.answer(caller, tool, **input)
        assert answer.error is None, answer.body
        return answer.body["data"] if tool.startswith("mcp__") else answer.body

    def expect_error(self, caller: str | None, tool: str, **input: Any) -> tuple[str, str]:
        """Call a tool that must fail, and return the code and the message of its error."""
        answer = self.answer(caller, tool, **input)
        assert answer.error is not None, answer.body
        if not tool.startswith("mcp__"):
            return answer.body["code"], answer.body["error"]
        assert answer.body["success"] is False
        return answer.body["error"]["code"], answer.body["error"]["message"]

    def pass_time(self, seconds: float, *, server_up: bool = True) -> None:
        """Advance the clock, while a server is up and sends heartbeats, or while none is."""
        before = self.engine.database.clock()
        self._ahead += int(seconds * SECOND)
        if server_up:
            self.engine.database.store.write(
                lambda connection: connection.execute(
                    "UPDATE workspace SET up_since = coalesce(up_since, :before), heartbeat_at = :now",
                    before=before,
                    now=self.engine.database.clock(),
                )
            )

    def write(self, fn: Callable[[UnitOfWork], Any]) -> Any:
        return write_as_operator(self.shop, fn)

    def read(self, fn: Callable[[UnitOfWork], Any]) -> Any:
        self.engine.database.store.flush()
        return read_as_operator(self.shop, fn)

    def dispatch(self) -> None:
        """Deliver every event of the outbox."""
        while self.engine.dispatcher.deliver_due():
            pass

    def list_inbox(self, name: str) -> list[dict[str, Any]]:
        """List the unread mail of an agent, newest first."""
        mails: list[dict[str, Any]] = self.call(name, "mcp__mail__list_inbox")["mails"]
        return mails

    def list_events(self, name: str) -> list[dict[str, Any]]:
        """List the data of all events of one name, in order."""
        rows = self.read(
            lambda uow: uow._connection.fetch_all(
                "SELECT data FROM event WHERE workspace = :workspace AND name = :name ORDER BY id",
                workspace=uow.workspace,
                name=name,
            )
        )
        return [json.loads(row[0]) for row in rows]

    def create_task(self, title: str = "A task", **facts: Any) -> str:
        """Create a task and return its id."""
        id: str = self.call("orc", "mcp__task__create", title=title, **facts)["id"]
        return id

    def create_epic(self, *members: str) -> str:
        """Create an epic, assign these agents to it, and return its id."""
        id: str = self.call("sup", "mcp__epic__create", title="An epic")["id"]
        for name in members:
            self.call("sup", "mcp__epic__assign", epicId=id, agentId=name)
        return id
