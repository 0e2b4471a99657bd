"""The tokens of users: JWTs by the floor's own key, or by a configured issuer."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import jwt

from shopfloor.domain.actors import Kind
from shopfloor.errors import Unauthenticated, Unavailable
from shopfloor.gateways.tokens import Issuer, Presented

_OWN_ISSUER = "shopfloor"
_UNREACHABLE = "The issuer's keys cannot be fetched; try again in a moment"
_REQUIRED = ["exp", "iss", "aud", "sub"]
_BY_KEY_TYPE = {"RSA": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"], "EC": ["ES256", "ES384", "ES512"]}


class Jwts:
    """Signs and checks them."""

    def __init__(self, key: bytes, audience: str, issuer: Issuer | None = None) -> None:
        self._key = key
        self._audience = audience
        self._keys = Keys(issuer) if issuer else None

    def sign(self, user: str, id: str, now: int, expires_at: int) -> str:
        """A token for the user, in seconds of UTC as JWTs count."""
        claims = {
            "iss": _OWN_ISSUER,
            "aud": self._audience,
            "sub": user,
            "jti": id,
            "iat": now // 1_000_000,
            "exp": -(-expires_at // 1_000_000),
        }
        return jwt.encode(claims, self._key, algorithm="HS256")

    def read(self, token: str) -> Presented:
        """What a signed token proves; the key that is used fixes the algorithm."""
        try:
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
            if self._keys and issuer == self._keys.issuer.issuer:
                return self._foreign(token)
            return self._own(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise Unauthenticated("The token is not valid", hint="Ask the operator for a new token") from None

    def _own(self, token: str) -> Presented:
        claims = jwt.decode(
            token,
            self._key,
            algorithms=["HS256"],
            audience=self._audience,
            issuer=_OWN_ISSUER,
            options={"require": [*_REQUIRED, "jti"]},
        )
        return Presented(Kind.USER, claims["jti"], owner=claims["sub"], expires_at=claims["exp"] * 1_000_000)

    def _foreign(self, token: str) -> Presented:
        assert self._keys is not None
        key = self._keys.find(jwt.get_unverified_header(token).get("kid"))
        claims = jwt.decode(
            token,
            key.key,
            algorithms=_algorithms(key),
            audience=self._audience,
            issuer=self._keys.issuer.issuer,
            options={"require": _REQUIRED},
        )
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise ValueError("sub")
        return Presented(Kind.USER, None, owner=claims["sub"], expires_at=int(claims["exp"]) * 1_000_000)


class Keys:
    """The public keys of an issuer, fetched when a token names one that is not known, at most every 30 s."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self._lock = threading.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched = float("-inf")
        self._failed = False

    def find(self, id: str | None) -> jwt.PyJWK:
        """The key of that id, or the only key there is."""
        with self._lock:
            if self._known(id) is None and time.monotonic() - self._fetched > (5 if self._failed else 30):
                self._fetch()
            key = self._known(id)
        if key is None and self._failed:
            raise Unavailable(_UNREACHABLE)
        if key is None:
            raise Unauthenticated("The token is signed with a key that the issuer does not publish")
        return key

    def _known(self, id: str | None) -> jwt.PyJWK | None:
        if id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(id)

    def _fetch(self) -> None:
        self._fetched, self._failed = time.monotonic(), True
        try:
            with urllib.request.urlopen(self.issuer.jwks_url, timeout=5) as answer:  # nosec B310: set by the operator
                published = json.loads(answer.read(1_000_000))
            self._keys = {key.key_id: key for key in map(_public_key, published["keys"]) if key is not None}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(_UNREACHABLE) from error
        self._failed = False


def _public_key(published: dict[str, Any]) -> jwt.PyJWK | None:
    """A key that may sign; symmetric ones are never published by an honest issuer."""
    if published.get("kty") not in {"RSA", "EC", "OKP"} or published.get("use", "sig") != "sig":
        return None
    try:
        return jwt.PyJWK(published)
    except jwt.PyJWTError:
        return None


def _algorithms(key: jwt.PyJWK) -> list[str]:
    named = key.algorithm_name
    return [named] if named else _BY_KEY_TYPE.get(key.key_type or "", ["EdDSA"])
