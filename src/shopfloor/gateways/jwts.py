"""The tokens of users: JWTs signed with the server's own key, or by a configured issuer."""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import suppress
from typing import Any

import jwt

from shopfloor.domain.principals import Kind
from shopfloor.errors import Unauthenticated, Unavailable
from shopfloor.gateways.http_client import RequestFailed, send_request
from shopfloor.gateways.tokens import Issuer, ParsedToken

_FETCH_SECONDS = 5
_REFETCH_SECONDS = 30
_RETRY_SECONDS = 5
_MAX_KEYS_BYTES = 1_000_000
REFRESH_SECONDS = 300
"""How old the keys of an issuer may get before they are fetched again in the background."""
MAX_KEY_AGE_SECONDS = 3600
"""How long keys are trusted without a successful fetch. A withdrawn key works for at most this long."""
_OWN_ISSUER = "shopfloor"
_UNREACHABLE = "The issuer's keys cannot be fetched; try again in a moment"
_REQUIRED_CLAIMS = ["exp", "iss", "aud", "sub"]
_ACCESS_TOKEN_TYPES = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
"""Values of the header `typ`. An issuer signs other kinds with the same key, such as `logout+jwt` (RFC 8725, 3.11)."""
_ALGORITHMS_BY_KEY_TYPE = {
    "RSA": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
    "EC": ["ES256", "ES384", "ES512"],
}


_log = logging.getLogger("shopfloor.tokens")


class Jwts:
    """Signs and verifies JWTs."""

    def __init__(self, key: bytes, audience: str, issuer: Issuer | None = None) -> None:
        self._key = key
        self._audience = audience
        self._keys = IssuerKeys(issuer) if issuer else None

    def sign_token(self, user: str, id: str, now: int, expires_at: int) -> str:
        """Sign a token for the user. Times are microseconds; a JWT has seconds."""
        claims = {
            "iss": _OWN_ISSUER,
            "aud": self._audience,
            "sub": user,
            "jti": id,
            "iat": now // 1_000_000,
            "exp": -(-expires_at // 1_000_000),
        }
        return jwt.encode(claims, self._key, algorithm="HS256")

    def may_fetch(self, token: str) -> bool:
        """Return whether verifying the token may wait for the issuer."""
        try:
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
            if self._keys is None or issuer != self._keys.issuer.issuer:
                return False
            return self._keys.may_fetch(jwt.get_unverified_header(token).get("kid"))
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return False

    def check_key_version(self) -> int:
        """Return a number that changes when a key of the issuer is withdrawn."""
        return 0 if self._keys is None else self._keys.check_version()

    def verify_token(self, token: str) -> ParsedToken:
        """Verify a signed token. The key fixes the algorithm, never the token's own header."""
        try:
            # Read unverified, only to choose the key. Both branches verify the issuer again, with the signature.
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
            if self._keys and issuer == self._keys.issuer.issuer:
                return self._verify_foreign(token)
            claims = jwt.decode(
                token,
                self._key,
                algorithms=["HS256"],
                audience=self._audience,
                issuer=_OWN_ISSUER,
                options={"require": [*_REQUIRED_CLAIMS, "jti"]},
            )
            return ParsedToken(Kind.USER, claims["jti"], owner=claims["sub"], expires_at=claims["exp"] * 1_000_000)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise Unauthenticated(
                "The token is not valid", hint="Ask the operator for a new token", rule="bad_signature"
            ) from None

    def _verify_foreign(self, token: str) -> ParsedToken:
        assert self._keys is not None
        header = jwt.get_unverified_header(token)
        kind = header.get("typ")
        if (kind.lower() if isinstance(kind, str) else kind) not in _ACCESS_TOKEN_TYPES:
            raise ValueError("typ")
        # Before the key is looked up: a key withdrawn during the lookup then invalidates the result at once.
        version = self._keys.check_version()
        key = self._keys.get_key(header.get("kid"))
        # The key decides the algorithm. If the token did, an attacker would choose HS256 and sign with the public key.
        named = key.algorithm_name
        claims = jwt.decode(
            token,
            key.key,
            algorithms=[named] if named else _ALGORITHMS_BY_KEY_TYPE.get(key.key_type or "", ["EdDSA"]),
            audience=self._audience,
            issuer=self._keys.issuer.issuer,
            options={"require": _REQUIRED_CLAIMS},
        )
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise ValueError("sub")
        until = int(claims["exp"]) * 1_000_000
        return ParsedToken(Kind.USER, None, owner=claims["sub"], expires_at=until, key_version=version)


class IssuerKeys:
    """The public keys of an issuer, fetched when a token names an unknown key, and refreshed every few minutes.

    One fetch at a time, and never under the lock: with a slow issuer, 12 clients with made-up key ids once kept all
    others from signing in.
    """

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self._lock = threading.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._published: dict[str | None, Any] = {}
        self._version = 0
        self._fetching: threading.Event | None = None
        self._fetched_at = float("-inf")
        self._confirmed_at = float("-inf")
        self._failed = False

    def get_key(self, id: str | None) -> jwt.PyJWK:
        """Return the key with that id or, without an id, the only key."""
        key = self._find_cached(id)
        if key is None and self.may_fetch(id):
            self._fetch_once()
            key = self._find_cached(id)
        if key is None and self._failed:
            raise Unavailable(_UNREACHABLE)
        if key is None:
            raise Unauthenticated("The token is signed with a key that the issuer does not publish", rule="unknown_key")
        return key

    def may_fetch(self, id: str | None) -> bool:
        """Return whether finding a key may wait for the issuer."""
        if self._find_cached(id) is not None:
            return False
        # The interval keeps callers with made-up key ids from making this server flood the issuer.
        pause = _RETRY_SECONDS if self._failed else _REFETCH_SECONDS
        return self._fetching is not None or time.monotonic() - self._fetched_at > pause

    def check_version(self) -> int:
        """Return a number that changes when a key is withdrawn, or -1 if no key is trusted any more.

        Old keys are refreshed in the background.
        """
        now = time.monotonic()
        with self._lock:
            is_due = bool(self._keys) and self._fetching is None and now - self._fetched_at > REFRESH_SECONDS
            # Claimed under the lock, so that only one caller starts the fetch.
            if is_due:
                self._fetched_at = now
        if is_due:
            threading.Thread(target=self._fetch_once, name="shopfloor-issuer", daemon=True).start()
        # Keys that could not be confirmed for this long are not trusted without a fetch.
        return self._version if now - self._confirmed_at <= MAX_KEY_AGE_SECONDS else -1

    def _find_cached(self, id: str | None) -> jwt.PyJWK | None:
        keys = self._keys
        if time.monotonic() - self._confirmed_at > MAX_KEY_AGE_SECONDS:
            return None
        if id is None and len(keys) == 1:
            return next(iter(keys.values()))
        return keys.get(id)

    def _fetch_once(self) -> None:
        """Fetch the keys, or wait for a running fetch."""
        with self._lock:
            running = self._fetching
            if running is None:
                done = self._fetching = threading.Event()
        if running is not None:
            running.wait(_FETCH_SECONDS)
            return
        try:
            published = self._download_keys()
        except (RequestFailed, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("the keys of the issuer cannot be fetched: %s", error)
            self._failed = True
        else:
            self._use_keys(published)
        finally:
            self._fetched_at = time.monotonic()
            self._fetching = None
            done.set()

    def _download_keys(self) -> dict[str | None, Any]:
        response = send_request(
            "GET",
            self.issuer.jwks_url,
            timeout=_FETCH_SECONDS,
            total_seconds=_FETCH_SECONDS,
            max_bytes=_MAX_KEYS_BYTES,
        )
        if not response.is_success:
            raise RequestFailed(f"The issuer answered {response.status}")
        # A symmetric key is never accepted: a published one is not secret.
        return {
            key.get("kid"): key
            for key in json.loads(response.body)["keys"]
            if key.get("kty") in {"RSA", "EC", "OKP"} and key.get("use", "sig") == "sig"
        }

    def _use_keys(self, published: dict[str | None, Any]) -> None:
        keys: dict[str | None, jwt.PyJWK] = {}
        for id, key in published.items():
            # One key of an unknown kind must not hide the others.
            with suppress(jwt.PyJWTError):
                keys[id] = jwt.PyJWK(key)
        # A key was removed or changed: tokens verified with it are verified again.
        if any(published.get(id) != key for id, key in self._published.items()):
            self._version += 1
        self._keys, self._published = keys, published
        self._confirmed_at = time.monotonic()
        self._failed = False
