"""Read and write the store with the operator's rights, for what tests set up or check without a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from shopfloor.domain.principals import OPERATOR, Agent
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor

T = TypeVar("T")


def write_as_operator(shopfloor: Shopfloor, fn: Callable[[UnitOfWork], T]) -> T:
    """Run `fn` in one unit of work of the operator."""
    return shopfloor.engine.database.write(fn, OPERATOR)


def read_as_operator(shopfloor: Shopfloor, fn: Callable[[UnitOfWork], T]) -> T:
    """Run `fn` on a snapshot as the operator."""
    return shopfloor.engine.database.read(fn, OPERATOR)


def read_agent(shopfloor: Shopfloor, name: str) -> Agent:
    """Return an agent as the store has it, also a retired one."""
    return read_as_operator(shopfloor, lambda uow: uow.agents.get(name))
