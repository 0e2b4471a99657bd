"""One-time links: the way to the pages for somebody who has proved elsewhere who they are."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from shopfloor.domain.actors import Kind, Principal, Token
from shopfloor.domain.times import MINUTE
from shopfloor.errors import NotFound, Unauthenticated
from shopfloor.gateways.tokens import new_id
from shopfloor.repositories.work import Work
from shopfloor.usecases import identity

LIFETIME = 10 * MINUTE
USED = "This link was used before, or is too old"


def make(work: Work, who: Principal) -> str:
    """The key of a new link for somebody; only its digest is kept."""
    id, secret = new_id(), secrets.token_urlsafe(32)
    work.tokens.add(Token(id, Kind.LINK, who.key, _digest(secret), work.now, work.now + LIFETIME, None))
    return f"{id}.{secret}"


def exchange(work: Work, key: str, lifetime: int) -> str:
    """The session of a page for whoever brings the key; there is no second one for it."""
    id, _, secret = key.partition(".")
    refusal = Unauthenticated(USED, hint="Make a new one on the machine of the floor: shopfloor link")
    try:
        token = work.tokens.get(id)
    except NotFound:
        raise refusal from None
    proven = token.kind is Kind.LINK and hmac.compare_digest(token.digest or b"", _digest(secret))
    if not proven or not work.tokens.use_up(id, work.now):
        raise refusal
    kind, _, name = token.owner.partition(":")
    return identity.issue_for_page(work, Principal(Kind(kind), name), work.now + lifetime)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
