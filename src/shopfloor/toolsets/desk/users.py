"""Tools for users: add, list and remove them, and set their passwords and desk roles."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.pagination import fetch_size, parse_cursor, to_page
from shopfloor.domain.principals import DESK_ROLES, User, format_desk_role
from shopfloor.domain.times import format_iso, format_iso_or_none
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import credentials, users
from shopfloor.usecases.external import ExternalContext

Name = Annotated[str, Field(description="Name of the user, 1-255 characters")]
Role = Annotated[
    Literal["none", "viewer", "editor"],
    Field(description="Desk role: viewer (read only), editor (may also answer and move tasks) or none"),
]
Password = Annotated[str, Field(description="The new password", max_length=1000)]


@toolset.tool("user_add", secret=True, admin=True)
def add_user(uow: UnitOfWork, name: Name, role: Role = "none") -> Json:
    """Add a user. The response is the only place that shows the user's token."""
    users.add_user(uow, name)
    user = users.set_desk_role(uow, name, DESK_ROLES[role])
    _, token = credentials.issue_for_user(uow, name)
    return {"user": format_user(user), "token": token}


@toolset.tool("user_list", read_only=True)
def list_users(uow: UnitOfWork, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List all users by name, with their desk roles."""
    rows = uow.users.list_page(fetch_size(limit), parse_cursor("users", cursor) or "")
    return to_page("users", rows, limit, format_user, lambda user: user.name)


@toolset.tool("user_show", read_only=True)
def show_user(uow: UnitOfWork, name: Name) -> Json:
    """Show one user, even a removed one."""
    return {"user": format_user(uow.users.get(name))}


@toolset.tool("user_set_role", idempotent=True, admin=True)
def set_role(uow: UnitOfWork, name: Name, role: Role) -> Json:
    """Set the desk role of a user."""
    return {"user": format_user(users.set_desk_role(uow, name, DESK_ROLES[role]))}


@toolset.tool("user_set_password", external=True, idempotent=True, admin=True)
def set_password(external: ExternalContext, name: Name, password: Password) -> Json:
    """Set the password of a user. Pages that the user opened before are signed out."""
    hashed = users.hash_password(password)  # slow on purpose (tens of ms), so not while the store is locked
    return {"user": format_user(external.write(lambda uow: users.set_password(uow, name, hashed)))}


@toolset.tool("user_remove", destructive=True, admin=True)
def remove_user(uow: UnitOfWork, name: Name) -> Json:
    """Remove a user, who is signed out everywhere. The user's list is kept for 30 days."""
    users.remove_user(uow, name)
    return {"user": format_user(uow.users.get(name))}


def format_user(user: User) -> Json:
    """Return a user as the desk shows it."""
    return {
        "id": user.name,
        "role": format_desk_role(user.desk),
        "createdAt": format_iso(user.created_at),
        "removedAt": format_iso_or_none(user.removed_at),
    }
