"""Create and parse tokens: the cryptography only. The store decides whether a token is still valid."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from shopfloor.domain.principals import Kind

if TYPE_CHECKING:
    from shopfloor.gateways.jwts import Jwts

_PREFIXES = {Kind.AGENT: "sfa", Kind.OPERATOR: "sfo", Kind.RUN: "sfr", Kind.PAGE: "sfp", Kind.REVIEWER: "sfv"}
_KINDS = {prefix: kind for kind, prefix in _PREFIXES.items()}
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_OPAQUE = re.compile(rf"(?P<kind>{'|'.join(_KINDS)})_(?P<id>[a-z0-9]{{1,64}})_(?P<secret>[A-Za-z0-9_-]+)")


@dataclass(frozen=True, slots=True)
class ParsedToken:
    """The content of a token whose cryptography is checked. Only the store knows whether it was revoked."""

    kind: Kind
    id: str | None
    digest: bytes | None = None
    owner: str | None = None
    expires_at: int | None = None
    key_version: int = 0


def generate_id() -> str:
    """Generate a public id: 12 letters and digits, without those that look alike."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(12))


def mint_token(kind: Kind) -> tuple[str, str, bytes]:
    """Create an opaque token and return it with its public id and the digest of its secret."""
    id, secret = generate_id(), secrets.token_urlsafe(32)
    # The prefix names the kind without a lookup. The id is public: the log and the list of tokens show it.
    return f"{_PREFIXES[kind]}_{id}_{secret}", id, _digest(secret)


def parse_opaque_token(token: str) -> ParsedToken | None:
    """Parse an opaque token, or return None when it is not one of this server."""
    match = _OPAQUE.fullmatch(token)
    return None if match is None else ParsedToken(_KINDS[match["kind"]], match["id"], _digest(match["secret"]))


def _digest(secret: str) -> bytes:
    # No slow hash as for passwords: the secret has 256 random bits and is checked on every call.
    return hashlib.sha256(secret.encode()).digest()


@dataclass(frozen=True, slots=True)
class Issuer:
    """An OAuth issuer that signs tokens for users."""

    issuer: str
    jwks_url: str


class UserTokens:
    """The tokens of users: signed JWTs, verified without the store."""

    def __init__(self, key: bytes, audience: str, issuer: Issuer | None = None) -> None:
        self._jwt_arguments = (key, audience, issuer)

    @property
    def has_issuer(self) -> bool:
        """Whether verifying a token may have to fetch the keys of an issuer."""
        return self._jwt_arguments[2] is not None

    def use_key(self, key: bytes) -> None:
        """Replace the key that signs and verifies."""
        if key != self._jwt_arguments[0]:
            self._jwt_arguments = (key, *self._jwt_arguments[1:])
            self.__dict__.pop("_jwts", None)

    def may_fetch(self, token: str) -> bool:
        """Return whether verifying the token may wait for the issuer."""
        return self.has_issuer and self._jwts.may_fetch(token)

    def is_current(self, parsed: ParsedToken) -> bool:
        """Return whether an earlier verification of a token still holds."""
        # Only a token of an issuer has no id: its key may have been withdrawn.
        return parsed.id is not None or 0 <= parsed.key_version == self._jwts.check_key_version()

    def sign_token(self, user: str, id: str, now: int, expires_at: int) -> str:
        """Sign a token for the user."""
        return self._jwts.sign_token(user, id, now, expires_at)

    def verify_token(self, token: str) -> ParsedToken:
        """Verify a signed token, or raise Unauthenticated."""
        return self._jwts.verify_token(token)

    @cached_property
    def _jwts(self) -> Jwts:
        from shopfloor.gateways.jwts import Jwts  # noqa: PLC0415 - cryptography that most commands do not need

        return Jwts(*self._jwt_arguments)
