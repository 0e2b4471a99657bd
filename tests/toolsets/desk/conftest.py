"""A server with a crew, and the desk of its operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shopfloor.app import SUBSCRIBERS
from shopfloor.toolkit import CallResult
from tests.rows_read import count_rows_read
from tests.workbench import Workbench


class Desk:
    """Calls the tools of the desk as the operator."""

    def __init__(self, shopfloor: Workbench) -> None:
        self.shopfloor = shopfloor

    def __call__(self, tool: str, /, **input: Any) -> Any:
        answer = self.answer(tool, **input)
        assert answer.error is None, answer.body
        return answer.body

    def answer(self, tool: str, /, **input: Any) -> CallResult:
        return self.shopfloor.answer("desk", tool, input)

    def expect_error(self, tool: str, /, **input: Any) -> str:
        answer = self.answer(tool, **input)
        assert answer.error is not None, answer.body
        return str(answer.body["error"])

    def call_as_agent(self, name: str, tool: str, /, **input: Any) -> Any:
        """Call a tool of the factory as an agent, and return its data."""
        body = self.shopfloor.answer("factory", tool, input, name).body
        assert body["success"], body
        return body["data"]

    @property
    def engine(self) -> str:
        return self.shopfloor.engine.database.store.engine

    def flush_log(self) -> None:
        """Write the deferred rows of the log."""
        self.shopfloor.engine.database.store.flush()


def number_series_sql(desk: Desk) -> str:
    """Return SQL for the numbers from 1 to :many, as a table with the column i."""
    if desk.engine == "postgres":
        return "SELECT generate_series(1, :many) AS i"
    return "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many) SELECT i FROM n"


def count_rows(desk: Desk, tool: str, /, **given: object) -> int:
    """Count the rows that a call reads."""
    return count_rows_read(desk.shopfloor.engine.database, lambda: desk(tool, **given))


@pytest.fixture
def desk(open_workbench: Callable[..., Workbench]) -> Desk:
    shopfloor = open_workbench(subscribers=SUBSCRIBERS)
    for name, type in [
        ("lead", "SUPERVISOR"),
        ("planner", "ORCHESTRATOR"),
        ("builder", "WORKER"),
        ("tester", "WORKER"),
    ]:
        shopfloor.seed_agent(name, type, "lead" if name != "lead" else None, with_token=False)
    return Desk(shopfloor)
