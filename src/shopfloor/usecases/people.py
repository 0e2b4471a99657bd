"""Users of the floor."""

from __future__ import annotations

from shopfloor.domain.actors import Person, user_name
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work


def add(work: Work, name: str) -> Person:
    """A new user."""
    if not work.people.add(user_name(name), work.now):
        raise InvalidInput(f"There is a user '{name}' already; a new token: shopfloor token issue --user", field="name")
    work.workspaces.close(work.workspace, work.now)
    return work.people.get(name)
