"""The state of a task has one owner, which counts the open blockers of its dependents."""

from __future__ import annotations

import pytest

from shopfloor.domain.tasks import State, Task
from shopfloor.repositories.uow import UnitOfWork
from tests.operator_access import write_as_operator
from tests.workbench import Workbench


@pytest.mark.parametrize("column", ["state", "completed_at", "started_at", "deleted_at"])
def test_columns_of_a_transition_cannot_be_updated_alone(shopfloor: Workbench, column: str):
    def update(uow: UnitOfWork) -> Task:
        task = uow.tasks.add(title="Paint", now=uow.now)
        return uow.tasks.update(task.number, uow.now, **{column: None})

    with pytest.raises(AssertionError):
        write_as_operator(shopfloor, update)


def test_dependents_are_blocked_exactly_while_a_task_is_open(shopfloor: Workbench):
    def count(uow: UnitOfWork) -> list[int]:
        first = uow.tasks.add(title="Prime", now=uow.now)
        second = uow.tasks.add(title="Paint", now=uow.now)
        uow.tasks.add_blocker(second.number, first.number)
        counts = []

        def keep(changed: Task) -> Task:
            counts.append(uow.tasks.get(second.number).open_blockers)
            return changed

        first = keep(first)
        first = keep(uow.tasks.transition(first, State.COMPLETED, uow.now))
        first = keep(uow.tasks.delete(first, uow.now))
        first = keep(uow.tasks.restore(first, uow.now))
        first = keep(uow.tasks.transition(first, State.PENDING, uow.now))
        first = keep(uow.tasks.delete(first, uow.now))
        keep(uow.tasks.restore(first, uow.now))
        return counts

    assert write_as_operator(shopfloor, count) == [1, 0, 0, 0, 1, 0, 1]
