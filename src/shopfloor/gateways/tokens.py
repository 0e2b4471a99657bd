"""Tokens: how they are made and what they prove. No store in here, only cryptography."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from shopfloor.domain.actors import Kind

if TYPE_CHECKING:
    from shopfloor.gateways.jwts import Jwts

_PREFIXES = {Kind.AGENT: "sfa", Kind.OPERATOR: "sfo", Kind.RUN: "sfr"}
_KINDS = {prefix: kind for kind, prefix in _PREFIXES.items()}
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_OPAQUE = re.compile(rf"(?P<kind>{'|'.join(_KINDS)})_(?P<id>[a-z0-9]{{1,64}})_(?P<secret>[A-Za-z0-9_-]+)")


@dataclass(frozen=True, slots=True)
class Presented:
    """What a token says of itself, its cryptography checked. Whether it still counts is for the store to say."""

    kind: Kind
    id: str | None
    digest: bytes | None = None
    owner: str | None = None
    expires_at: int | None = None


def new_id() -> str:
    """A public id: 12 letters that cannot be misread."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(12))


def mint(kind: Kind) -> tuple[str, str, bytes]:
    """A new opaque token, its public id, and the digest of its secret."""
    id, secret = new_id(), secrets.token_urlsafe(32)
    return f"{_PREFIXES[kind]}_{id}_{secret}", id, _digest(secret)


def read_opaque(token: str) -> Presented | None:
    """What an opaque token says, or None when it is not one of ours."""
    match = _OPAQUE.fullmatch(token)
    return None if match is None else Presented(_KINDS[match["kind"]], match["id"], _digest(match["secret"]))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


@dataclass(frozen=True, slots=True)
class Issuer:
    """Somebody else who signs tokens for our users."""

    issuer: str
    jwks_url: str


class UserTokens:
    """The tokens of users: signed, and checked without asking the store."""

    def __init__(self, key: bytes, audience: str, issuer: Issuer | None = None) -> None:
        self._means = (key, audience, issuer)

    @property
    def asks_outside(self) -> bool:
        """Whether checking a token may have to fetch the keys of an issuer."""
        return self._means[2] is not None

    def sign(self, user: str, id: str, now: int, expires_at: int) -> str:
        """A token for the user."""
        return self._jwts.sign(user, id, now, expires_at)

    def read(self, token: str) -> Presented:
        """What a signed token proves, or Unauthenticated."""
        return self._jwts.read(token)

    @cached_property
    def _jwts(self) -> Jwts:
        from shopfloor.gateways.jwts import Jwts  # noqa: PLC0415 - cryptography that most commands do not need

        return Jwts(*self._means)
