"""Users: people with an account."""

from __future__ import annotations

from shopfloor.domain.principals import Kind, Principal, User, check_user_name
from shopfloor.errors import InvalidInput, NotFound, PermissionDenied
from shopfloor.gateways import passwords
from shopfloor.repositories.uow import UnitOfWork


def add_user(uow: UnitOfWork, name: str) -> User:
    """Add a user."""
    if not uow.users.add(check_user_name(name), uow.now):
        raise InvalidInput(f"User '{name}' already exists", field="name")
    uow.workspaces.close(uow.workspace, uow.now)
    return uow.users.get(name)


def ensure_user(uow: UnitOfWork) -> None:
    """Create the calling user on the first write; a removed user stays removed."""
    uow.users.ensure(check_user_name(uow.actor.name), uow.now)
    if uow.users.get(uow.actor.name).removed_at is not None:
        raise PermissionDenied("The user was removed")


hash_password = passwords.hash_password


def set_password(uow: UnitOfWork, name: str, password_hash: str) -> User:
    """Set the user's password and end the sessions that were opened with the old one."""
    person = _get_present(uow, name)
    uow.users.set_password(name, password_hash)
    uow.tokens.revoke_all(Kind.PAGE, Principal(Kind.USER, name).key, uow.now)
    return person


def remove_user(uow: UnitOfWork, name: str) -> User:
    """Remove the user and sign them out everywhere. Their list is kept for 30 days, in case they are added again."""
    person = _get_present(uow, name)
    uow.users.remove(name, uow.now)
    uow.tokens.revoke_all(Kind.USER, name, uow.now)
    uow.tokens.revoke_all(Kind.PAGE, Principal(Kind.USER, name).key, uow.now)
    return person


def _get_present(uow: UnitOfWork, name: str) -> User:
    person = uow.users.get(name)
    if person.removed_at is not None:
        raise NotFound(f"User '{name}' was removed", user=name)
    return person


def set_desk_role(uow: UnitOfWork, name: str, desk: str | None) -> User:
    """Set the user's desk role."""
    uow.users.get(name)
    uow.users.set_desk_role(name, desk)
    return uow.users.get(name)
