"""Users of the floor."""

from __future__ import annotations

from shopfloor.domain.actors import Kind, Person, Principal, user_name
from shopfloor.errors import InvalidInput, NotFound, PermissionDenied
from shopfloor.gateways import passwords
from shopfloor.repositories.work import Work


def add(work: Work, name: str) -> Person:
    """A new user."""
    if not work.people.add(user_name(name), work.now):
        raise InvalidInput(f"There is a user '{name}' already; a new token: shopfloor token issue --user", field="name")
    work.workspaces.close(work.workspace, work.now)
    return work.people.get(name)


def ensure(work: Work) -> None:
    """The caller is a user from the first write on; whoever was removed stays so."""
    work.people.ensure(user_name(work.actor.name), work.now)
    if work.people.get(work.actor.name).removed_at is not None:
        raise PermissionDenied("The user was removed")


hashed = passwords.hashed


def set_password(work: Work, name: str, hashed: str) -> Person:
    """The user, who signs in with the new password from now on; pages opened with the old one are closed."""
    person = _present(work, name)
    work.people.set_password(name, hashed)
    work.tokens.revoke_all(Kind.PAGE, Principal(Kind.USER, name).key, work.now)
    return person


def remove(work: Work, name: str) -> Person:
    """The user, signed out everywhere. The list stays for 30 days, in case the user is added again."""
    person = _present(work, name)
    work.people.remove(name, work.now)
    work.tokens.revoke_all(Kind.USER, name, work.now)
    work.tokens.revoke_all(Kind.PAGE, Principal(Kind.USER, name).key, work.now)
    return person


def _present(work: Work, name: str) -> Person:
    person = work.people.get(name)
    if person.removed_at is not None:
        raise NotFound(f"User '{name}' was removed", user=name)
    return person


def seat(work: Work, name: str, desk: str | None) -> Person:
    """The user, with what he or she may do at the desk from now on."""
    work.people.get(name)
    work.people.seat(name, desk)
    return work.people.get(name)
