"""Tools for sign-in links and page sessions. The pages call those that are not listed, as the operator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.principals import OPERATOR, Kind, Principal
from shopfloor.domain.times import format_iso
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import page_sessions, processes, sign_in_links
from shopfloor.usecases.external import ExternalContext

ForUser = Annotated[str | None, Field(description="Sign in this user; default: the operator", max_length=255)]

Token = Annotated[str, Field(description="Text of the token", max_length=1000)]


@toolset.tool("link_create", secret=True, admin=True)
def create_link(uow: UnitOfWork, user: ForUser = None) -> Json:
    """Create a sign-in link to the pages: valid once, for 10 minutes. Open /enter?token=TOKEN at `serverUrl`."""
    principal = OPERATOR if user is None else Principal(Kind.USER, uow.users.get_active(user).name)
    servers = [process.url for process in processes.list_alive(uow) if process.kind == "serve" and process.url]
    return {
        "token": sign_in_links.create_link(uow, principal),
        "expiresAt": format_iso(uow.now + sign_in_links.LINK_LIFETIME),
        "serverUrl": servers[0] if servers else None,
    }


@toolset.tool("link_redeem", secret=True, admin=True, listed=False)
def redeem_link(uow: UnitOfWork, token: Token) -> Json:
    """Exchange the token of a sign-in link for a page session."""
    return {"token": sign_in_links.redeem_link(uow, token)}


@toolset.tool("session_open", external=True, secret=True, admin=True, listed=False)
def open_session(
    external: ExternalContext,
    name: Annotated[str, Field(description="Name of the user", max_length=255)],
    password: Annotated[str, Field(description="Password of the user", max_length=1000)],
) -> Json:
    """Open a page session for a user who gives the right password."""
    return {"token": page_sessions.open_session(external, name, password)}


@toolset.tool("session_end", idempotent=True, admin=True, listed=False)
def end_session(uow: UnitOfWork, token: Token) -> Json:
    """End a page session."""
    return {"ended": page_sessions.end_session(uow, token)}
