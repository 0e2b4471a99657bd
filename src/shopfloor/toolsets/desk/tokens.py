"""Tools for the tokens of agents and users."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.pagination import fetch_size, parse_cursor, to_page
from shopfloor.domain.principals import Token
from shopfloor.domain.times import SECOND, format_iso, format_iso_or_none
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import credentials

MAX_LIFETIME_SECONDS = 3650 * 24 * 60 * 60

TokenId = Annotated[str, Field(description="Id of the token, as token_list shows it", min_length=1, max_length=255)]
ForAgent = Annotated[str | None, Field(description="Issue it for this agent", max_length=64)]
ForUser = Annotated[str | None, Field(description="Issue it for this user", max_length=255)]
LifetimeSeconds = Annotated[
    int | None,
    Field(
        description=f"1-{MAX_LIFETIME_SECONDS}; by default agent tokens do not expire, and user tokens expire after user_token_days",
        ge=1,
        le=MAX_LIFETIME_SECONDS,
    ),
]


@toolset.tool("token_issue", secret=True, admin=True)
def issue_token(
    uow: UnitOfWork, agent: ForAgent = None, user: ForUser = None, lifetime_seconds: LifetimeSeconds = None
) -> Json:
    """Issue a token for an agent or a user. The response is the only place that shows it."""
    expires_at = None if lifetime_seconds is None else uow.now + lifetime_seconds * SECOND
    if agent is not None and user is None:
        token, text = credentials.issue_for_agent(uow, agent, expires_at)
    elif user is not None and agent is None:
        token, text = credentials.issue_for_user(uow, user, expires_at)
    else:
        raise InvalidInput("Name either an agent or a user", field="agent")
    return {"issued": format_token(token, uow.now), "token": text}


@toolset.tool("token_issue_operator", secret=True, admin=True, listed=False)
def issue_operator_token(uow: UnitOfWork) -> Json:
    """Issue the operator's own token, for the file that a server keeps in its data folder."""
    return {"token": credentials.issue_for_operator(uow)}


@toolset.tool("token_rotate_operator", secret=True, admin=True, destructive=True, listed=False)
def rotate_operator_token(uow: UnitOfWork) -> Json:
    """Revoke every token of the operator and issue a new one."""
    revoked, text = credentials.rotate_operator_token(uow)
    return {"revoked": revoked, "token": text}


@toolset.tool("signing_key_rotate", admin=True, destructive=True, listed=False)
def rotate_signing_key(uow: UnitOfWork) -> Json:
    """Replace the key that signs the tokens of users. All of them stop working; issue new ones."""
    return {"revoked": credentials.rotate_signing_key(uow)}


@toolset.tool("token_list", read_only=True)
def list_tokens(uow: UnitOfWork, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the tokens of agents, users and the operator by id, without their secrets."""
    rows = uow.tokens.list_page(fetch_size(limit), parse_cursor("tokens", cursor) or "")
    return to_page("tokens", rows, limit, lambda token: format_token(token, uow.now), lambda token: token.id)


@toolset.tool("token_revoke", destructive=True, idempotent=True, admin=True)
def revoke_token(uow: UnitOfWork, id: TokenId) -> Json:
    """Revoke a token. It stops working immediately."""
    return {"revoked": format_token(credentials.revoke_token(uow, id), uow.now)}


def format_token(token: Token, now: int) -> Json:
    """Return a token as the desk shows it, without its secret."""
    return {
        "id": token.id,
        "kind": token.kind.value,
        "owner": token.owner,
        "state": "valid" if token.is_valid(now) else "revoked" if token.revoked_at else "expired",
        "createdAt": format_iso(token.created_at),
        "expiresAt": format_iso_or_none(token.expires_at),
        "revokedAt": format_iso_or_none(token.revoked_at),
    }
