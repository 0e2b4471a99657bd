"""authenticate: turn the credential into a principal."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from shopfloor.domain.decisions import new_reference
from shopfloor.domain.principals import LOCAL_OPERATOR, SERVER, Kind, Principal
from shopfloor.domain.times import MINUTE
from shopfloor.errors import Unauthenticated
from shopfloor.gateways.tokens import ParsedToken, UserTokens, parse_opaque_token
from shopfloor.repositories.uow import Database
from shopfloor.toolkit import AuthenticatedRequest, CallRecord, Credential, Request, Waiting
from shopfloor.usecases import credentials

_NEEDED = "A credential is needed: Authorization: Bearer TOKEN"
MAX_LOGGED_PER_MINUTE = 60
CACHE_SIZE = 10_000
CACHE_SECONDS = 0.5
"""How long a revocation can go unnoticed if its notification is lost; see store/credential_version.py."""

T = TypeVar("T")


class _CachedPrincipal(NamedTuple):
    principal: Principal
    token_kind: Kind
    cached_until: float
    expires_at: int | None
    credential_version: int


def authenticate(
    next: Callable[[AuthenticatedRequest], Any], identity: Identity
) -> Callable[[Request, CallRecord, Waiting | None], Any]:
    """Find the principal behind the credential. The authorize step checks the claimed name, inside `record`."""

    def step(request: Request, record: CallRecord, resumed: Waiting | None) -> Any:
        credential = request.credential
        if resumed is not None and credential.token is not None:
            credential = Credential(token=credential.token)  # may have been revoked while the call waited
        actor = record.actor = identity.authenticate(credential)
        return next(AuthenticatedRequest(request, record, actor, resumed))

    return step


class FailedAuthentications:
    """Counts rejected credentials by reason, and writes one log row per token or address and minute."""

    def __init__(self, database: Database, elapsed: Callable[[], int], count: Callable[[str], None]) -> None:
        self._database = database
        self._elapsed = elapsed
        self._count = count
        self._lock = threading.Lock()
        self._minute = -1
        self._subjects: set[str] = set()

    def record(self, credential: Credential, error: Unauthenticated) -> None:
        """Count a rejection. The secret of the token is neither logged nor kept."""
        reason = str(error.facts.get("rule", "missing" if credential.token is None else "not_accepted"))
        self._count(reason)
        # A page opened before sign-in has no credential, and is not an attempt.
        if credential.token is None:
            return
        parsed = parse_opaque_token(credential.token)
        subject = f"address:{credential.address}" if parsed is None or parsed.id is None else f"token:{parsed.id}"
        if self._is_first(subject):
            now = self._database.clock()
            reference = new_reference(now, self._database.registration.number)
            self._database.log_end_later(
                lambda uow: uow.decisions.add(
                    reference=reference,
                    kind="error",
                    subject=subject,
                    actor=subject,
                    toolset="desk",
                    tool="authenticate",
                    decision=f"Authentication failed: {reason}",
                    reasoning="Automatic log of a rejected credential",
                    context=json.dumps({"address": credential.address}),
                    code=Unauthenticated.code,
                    created_at=now,
                ),
                SERVER,
                reference,
            )

    def _is_first(self, subject: str) -> bool:
        """Return whether the subject is new in this minute. Attackers make up ids, so rows per minute are limited."""
        with self._lock:
            minute = self._elapsed() // MINUTE
            if minute != self._minute:
                self._minute, self._subjects = minute, set()
            is_new = subject not in self._subjects and len(self._subjects) < MAX_LOGGED_PER_MINUTE
            if is_new:
                self._subjects.add(subject)
            return is_new


class Identity:
    """Turns credentials into principals.

    Cryptography is done once per token. The principal of a token is cached while the store's credential version is
    unchanged, for at most CACHE_SECONDS, and not beyond the token's own expiry. A revocation changes the version before
    its caller is answered, so it takes effect at once in this process and in every process on the same SQLite file, and
    on other PostgreSQL replicas with the notification or after CACHE_SECONDS.
    """

    def __init__(
        self,
        database: Database,
        user_tokens: UserTokens,
        *,
        always_closed: bool,
        only: Principal | None = None,
        failures: FailedAuthentications,
    ) -> None:
        self._database = database
        self._user_tokens = user_tokens
        self._closed = always_closed
        self._only = only
        self.accepted_tokens = 0
        """Number of requests with a valid token. It shows the runner whether its agent has connected to its tools."""
        self._failures = failures
        self._lock = threading.Lock()
        self._key_version: int | None = None
        self._presented: OrderedDict[str, ParsedToken] = OrderedDict()
        self._principals: OrderedDict[str, _CachedPrincipal] = OrderedDict()

    def authenticate(self, credential: Credential) -> Principal:
        """Return the principal behind a credential, or raise Unauthenticated."""
        if credential.trusted is not None:
            return credential.trusted
        try:
            return self._find_principal(credential)
        except Unauthenticated as error:
            self._failures.record(credential, error)
            raise

    def _find_principal(self, credential: Credential) -> Principal:
        if credential.token is not None:
            found = self._find_cached(credential.token) or self._authenticate_token(credential.token)
            principal = found.principal
            # The server of a run accepts only the tokens of the run and its reviewer, although it shares the database.
            if self._only is not None and principal not in (self._only, Principal(Kind.REVIEWER, self._only.key)):
                raise Unauthenticated(f"Only {self._only.key} is served here")
            # Such a token is valid only at its driver's server, and ends with it. Elsewhere it would outlive a killed
            # driver.
            if self._only is None and found.token_kind in (Kind.RUN, Kind.REVIEWER):
                raise Unauthenticated("The token of a run is accepted only by the server of that run")
            self.accepted_tokens += 1
            return principal
        if credential.remote or self.needs_credential():
            raise Unauthenticated(_NEEDED, hint="Ask the operator for a token")
        return LOCAL_OPERATOR

    def resolves_locally(self, credential: Credential) -> bool:
        """Return whether authenticating needs only memory and a local file."""
        token = credential.token
        if credential.trusted is not None or (token is not None and self._find_cached(token) is not None):
            return True
        if self._database.store.engine != "sqlite":
            return False
        return not self.may_wait_for_issuer(credential)

    def may_wait_for_issuer(self, credential: Credential) -> bool:
        """Return whether authenticating may have to fetch the keys of an external issuer."""
        token = credential.token
        if token is None or not self._user_tokens.has_issuer or parse_opaque_token(token) is not None:
            return False
        with self._lock:
            presented = self._presented.get(token)
        if presented is not None and self._user_tokens.is_current(presented):
            return False
        return self._user_tokens.may_fetch(token)

    def needs_credential(self) -> bool:
        """Return whether every call needs a credential; once true, it stays true."""
        if not self._closed:
            self._closed = not self._database.read(credentials.is_open, SERVER)
        return self._closed

    def _authenticate_token(self, token: str) -> _CachedPrincipal:
        presented = self._read_token(token)
        # Taken before the read: a revocation during the read invalidates the entry before it is used.
        version, now = self._database.store.credential_version(), time.monotonic()
        principal, until = self._database.read(lambda uow: credentials.resolve_token(uow, presented), SERVER)
        cached = _CachedPrincipal(principal, presented.kind, now + CACHE_SECONDS, until, version)
        _put(self._lock, self._principals, token, cached)
        return cached

    def _find_cached(self, token: str) -> _CachedPrincipal | None:
        with self._lock:
            cached = self._principals.get(token)
        # A changed version invalidates every entry at once. Reading it is one load from a mapped file (SQLite) or one
        # attribute (PostgreSQL), so it is read on every call.
        if cached is None or cached.credential_version != self._database.store.credential_version():
            return None
        if time.monotonic() >= cached.cached_until:
            return None
        expired = cached.expires_at is not None and self._database.clock() >= cached.expires_at
        return None if expired else cached

    def _read_token(self, token: str) -> ParsedToken:
        with self._lock:
            presented = self._presented.get(token)
        if presented is None or not self._user_tokens.is_current(presented):
            presented = parse_opaque_token(token) or self._verify_signature(token)
            _put(self._lock, self._presented, token, presented)
        return presented

    def _verify_signature(self, token: str) -> ParsedToken:
        # The key may have been rotated, which changes the credential version of every process.
        version = self._database.store.credential_version()
        if version != self._key_version:
            self._user_tokens.use_key(self._database.read(credentials.load_signing_key, SERVER))
            self._key_version = version
        return self._user_tokens.verify_token(token)


def _put(lock: threading.Lock, cache: OrderedDict[str, T], key: str, value: T) -> None:
    with lock:
        cache[key] = value
        # Bounded: an attacker can present any number of tokens. The oldest entry is evicted first.
        while len(cache) > CACHE_SIZE:
            cache.popitem(last=False)
