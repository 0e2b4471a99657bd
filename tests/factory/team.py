"""A small team on a floor of its own, and what tests do with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from shopfloor.domain.times import SECOND
from shopfloor.repositories.work import Work
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Answer

MEMBERS = {"sup": "SUPERVISOR", "orc": "ORCHESTRATOR", "w1": "WORKER", "w2": "WORKER"}


class Team:
    """`sup` leads `orc`, `w1` and `w2`. Time stands at the hands of the test, on top of the real one."""

    def __init__(self, folder: Path, *, running: bool = False, **settings: Any) -> None:
        self.shop = Shopfloor(Settings(project=folder, retry_pause=0, **settings))
        self.floor = self.shop.floor
        self._running = running
        self._clock = self.floor.works.clock
        self._ahead = 0
        self.floor.works.clock = lambda: self._clock() + self._ahead
        for name, type in MEMBERS.items():
            self.hire(name, type)

    def __enter__(self) -> Self:
        if self._running:
            self.shop.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.shop.close()

    def hire(self, name: str, type: str = "WORKER") -> str:
        self.shop.hire(name, type, None if name == "sup" else "sup", with_token=False)
        return name

    def answer(self, caller: str | None, tool: str, **input: Any) -> Answer:
        toolset = "factory" if tool.startswith("mcp__") else "desk"
        return self.shop.answer(toolset, tool, input, caller)

    def call(self, caller: str | None, tool: str, **input: Any) -> Any:
        """The data of an answer that must not be a refusal."""
        answer = self.answer(caller, tool, **input)
        assert answer.error is None, answer.body
        return answer.body["data"] if tool.startswith("mcp__") else answer.body

    def refused(self, caller: str | None, tool: str, **input: Any) -> tuple[str, str]:
        """The code and the message of a refusal."""
        answer = self.answer(caller, tool, **input)
        assert answer.error is not None, answer.body
        if not tool.startswith("mcp__"):
            return answer.body["code"], answer.body["error"]
        assert answer.body["success"] is False
        return answer.body["error"]["code"], answer.body["error"]["message"]

    def skip(self, seconds: float) -> None:
        """Let time pass."""
        self._ahead += int(seconds * SECOND)

    def do(self, fn: Callable[[Work], Any]) -> Any:
        return self.floor.administer(fn)

    def look(self, fn: Callable[[Work], Any]) -> Any:
        self.floor.works.store.flush()
        return self.floor.look(fn)

    def dispatch(self) -> None:
        """Deliver what the outbox holds."""
        while self.floor.dispatcher.deliver_due():
            pass

    def inbox(self, name: str) -> list[dict[str, Any]]:
        """An agent's unread mail, newest first."""
        mails: list[dict[str, Any]] = self.call(name, "mcp__mail__list_inbox")["mails"]
        return mails

    def events(self, name: str) -> list[dict[str, Any]]:
        """The data of all events of one name, in order."""
        rows = self.look(
            lambda work: work._connection.all(
                "SELECT data FROM event WHERE workspace = :workspace AND name = :name ORDER BY id",
                workspace=work.workspace,
                name=name,
            )
        )
        return [json.loads(row[0]) for row in rows]

    def task(self, title: str = "A task", **facts: Any) -> str:
        """The id of a new task."""
        id: str = self.call("orc", "mcp__task__create", title=title, **facts)["id"]
        return id

    def epic(self, *members: str) -> str:
        """The id of a new epic that these agents work for."""
        id: str = self.call("sup", "mcp__epic__create", title="An epic")["id"]
        for name in members:
            self.call("sup", "mcp__epic__assign", epicId=id, agentId=name)
        return id
