"""Single-use sign-in links: access to the pages for a principal that has proved its identity elsewhere."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from shopfloor.domain.principals import Kind, Principal, Token
from shopfloor.domain.times import MINUTE
from shopfloor.errors import NotFound, Unauthenticated
from shopfloor.gateways.tokens import generate_id
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import page_sessions

LINK_LIFETIME = 10 * MINUTE
USED = "This link has been used or has expired"


def create_link(uow: UnitOfWork, who: Principal) -> str:
    """Create a link for a principal and return its key; only a digest is stored."""
    id, secret = generate_id(), secrets.token_urlsafe(32)
    uow.tokens.add(Token(id, Kind.LINK, who.key, _digest(secret), uow.now, uow.now + LINK_LIFETIME, None))
    return f"{id}.{secret}"


def redeem_link(uow: UnitOfWork, key: str) -> str:
    """Exchange the key of a link for a page session. A link works once."""
    id, _, secret = key.partition(".")
    # One error for unknown, wrong and used links, so that an attacker learns nothing.
    error = Unauthenticated(USED, rule="link_used")
    try:
        token = uow.tokens.get(id)
    except NotFound:
        raise error from None
    proven = token.kind is Kind.LINK and hmac.compare_digest(token.digest or b"", _digest(secret))
    if not proven or not uow.tokens.redeem(id, uow.now):
        raise error
    kind, _, name = token.owner.partition(":")
    return page_sessions.issue_session(uow, Principal(Kind(kind), name))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
