"""A tool that is declared read-only cannot write."""

from __future__ import annotations

import pytest

from shopfloor.domain.principals import OPERATOR
from shopfloor.errors import StoreFailed
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases.external import ExternalContext
from tests.workbench import Workbench


def add_task(uow: UnitOfWork) -> None:
    uow.tasks.add(title="Sneaked in", now=uow.now)


def test_the_unit_of_work_of_a_read_cannot_write(shopfloor: Workbench):
    with pytest.raises(StoreFailed):
        shopfloor.engine.database.read(add_task, OPERATOR)
    assert shopfloor.engine.database.read(lambda uow: uow.tasks.list_page(limit=1), OPERATOR) == []


def test_read_only_outside_tool_gets_no_writing_unit_of_work(shopfloor: Workbench):
    engine = shopfloor.engine
    external = ExternalContext(engine.database, engine.search, OPERATOR, 0, read_only=True)
    with pytest.raises(RuntimeError, match="read-only"):
        external.write(add_task)
    with pytest.raises(StoreFailed):
        external.read(add_task)
    assert external.read(lambda uow: uow.tasks.list_page(limit=1)) == []
