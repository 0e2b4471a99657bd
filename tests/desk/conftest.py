"""A floor with a crew, and the hands of the people in charge."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from shopfloor.app import SUBSCRIBERS
from shopfloor.toolkit import Answer
from tests.workbench import Workbench


class Desk:
    """Calls the tools of the desk as the operator, or as whoever holds a token."""

    def __init__(self, floor: Workbench) -> None:
        self.floor = floor

    def __call__(self, tool: str, /, **input: Any) -> Any:
        answer = self.answer(tool, **input)
        assert answer.error is None, answer.body
        return answer.body

    def answer(self, tool: str, /, **input: Any) -> Answer:
        return self.floor.answer("desk", tool, input)

    def refusal(self, tool: str, /, **input: Any) -> str:
        answer = self.answer(tool, **input)
        assert answer.error is not None, answer.body
        return str(answer.body["error"])

    def agent(self, name: str, tool: str, /, **input: Any) -> Any:
        """What an agent does in the factory."""
        body = self.floor.answer("factory", tool, input, name).body
        assert body["success"], body
        return body["data"]

    @property
    def engine(self) -> str:
        return self.floor.floor.works.store.engine

    def settle(self) -> None:
        """Rows that nobody waited for are in the log."""
        self.floor.floor.works.store.flush()


def series(desk: Desk) -> str:
    """The numbers from 1 to :many, as a table with the column i."""
    if desk.engine == "postgres":
        return "SELECT generate_series(1, :many) AS i"
    return "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many) SELECT i FROM n"


def cost(desk: Desk, tool: str, /, **given: object) -> float:
    """Seconds that a call takes at best: of the processor, where the store is in this process."""
    clock = time.process_time if desk.engine == "sqlite" else time.perf_counter
    times = []
    for _ in range(12):
        began = clock()
        desk(tool, **given)
        times.append(clock() - began)
    return min(times)


@pytest.fixture
def desk(opened: Callable[..., Workbench]) -> Desk:
    floor = opened(subscribers=SUBSCRIBERS)
    for name, type in [
        ("lead", "SUPERVISOR"),
        ("planner", "ORCHESTRATOR"),
        ("builder", "WORKER"),
        ("tester", "WORKER"),
    ]:
        floor.hire(name, type, "lead" if name != "lead" else None, with_token=False)
    return Desk(floor)
