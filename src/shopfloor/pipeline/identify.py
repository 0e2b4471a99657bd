"""identify: who calls. It only authenticates; what the caller claims to be is judged behind the log."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import NamedTuple, TypeVar

from shopfloor.domain.actors import LOCAL, OPERATOR, Kind, Principal
from shopfloor.errors import Unauthenticated
from shopfloor.gateways.tokens import Presented, UserTokens, read_opaque
from shopfloor.pipeline import Next, Step
from shopfloor.repositories.work import Works
from shopfloor.toolkit import Answer, Call, Credential
from shopfloor.usecases import identity

AT_HOME = Principal(Kind.OPERATOR, LOCAL)
"""Whoever sits at the machine of a floor that has issued no credential yet."""

_NEEDED = "A credential is needed: Authorization: Bearer TOKEN"
_KNOWN_LIMIT = 10_000

FRESH = 0.5

T = TypeVar("T")


class _Recognised(NamedTuple):
    principal: Principal
    fresh_until: float
    valid_until: int | None
    epoch: int | None


def identify(identity: Identity) -> Step:
    """The step that puts a name to the call."""

    def step(call: Call, next: Next) -> Answer:
        shown = call.credential
        if call.waited is not None and shown.token is not None:  # it may have been revoked meanwhile
            shown = Credential(token=shown.token)
        call.actor = identity.authenticate(shown)
        return next(call)  # type: ignore[no-any-return]

    return step


class Identity:
    """Turns credentials into principals.

    Cryptography is done once per token. Whom a token stands for is remembered for a moment, and no longer than it is
    valid: until credentials change, as far as the store can tell at once, and until `FRESH` seconds are over.
    """

    def __init__(
        self,
        works: Works,
        user_tokens: UserTokens,
        *,
        always_closed: bool,
        only: Principal | None = None,
    ) -> None:
        self._works = works
        self._user_tokens = user_tokens
        self._closed = always_closed
        self._only = only
        self._lock = threading.Lock()
        self._read: OrderedDict[str, Presented] = OrderedDict()
        self._recognised: OrderedDict[str, _Recognised] = OrderedDict()
        self._forgotten = 0

    def authenticate(self, credential: Credential) -> Principal:
        """The principal behind a credential, or Unauthenticated."""
        if credential.trusted is not None:
            return credential.trusted
        if credential.token is not None:
            principal = self._by_token(credential.token)
            if self._only is not None and principal != self._only:
                raise Unauthenticated(f"Only {self._only.key} is served here")
            return principal
        if self.needs_credential():
            raise Unauthenticated(_NEEDED, hint="Ask the operator for a token: shopfloor token issue")
        return AT_HOME

    def at_hand(self, credential: Credential) -> bool:
        """Whether authenticating now waits for nothing but memory and a file of this machine."""
        token = credential.token
        if credential.trusted is not None or (token is not None and self._remembered(token) is not None):
            return True
        if self._works.store.engine != "sqlite":
            return False
        return token is None or token in self._read or not self._user_tokens.asks_outside

    def needs_credential(self) -> bool:
        """Whether the floor is closed; once it is, it stays so."""
        if not self._closed:
            self._closed = not self._works.read(identity.is_open, OPERATOR)
        return self._closed

    def forget(self) -> None:
        """Ask the store again about everybody."""
        with self._lock:
            self._forgotten += 1
            self._recognised.clear()

    def _by_token(self, token: str) -> Principal:
        principal = self._remembered(token)
        if principal is None:
            presented, forgotten, epoch = self._presented(token), self._forgotten, self._works.store.epoch()
            at = time.monotonic()
            principal, until = self._works.read(lambda work: identity.recognise(work, presented), OPERATOR)
            if forgotten == self._forgotten:  # what was read before must not outlive the forgetting
                _keep(self._lock, self._recognised, token, _Recognised(principal, at + FRESH, until, epoch))
        return principal

    def _remembered(self, token: str) -> Principal | None:
        with self._lock:
            known = self._recognised.get(token)
        if known is None or known.epoch != self._works.store.epoch() or time.monotonic() >= known.fresh_until:
            return None
        return known.principal if known.valid_until is None or self._works.clock() < known.valid_until else None

    def _presented(self, token: str) -> Presented:
        with self._lock:
            presented = self._read.get(token)
        if presented is None:
            presented = read_opaque(token) or self._user_tokens.read(token)
            _keep(self._lock, self._read, token, presented)
        return presented


def _keep(lock: threading.Lock, kept: OrderedDict[str, T], key: str, value: T) -> None:
    with lock:
        kept[key] = value
        while len(kept) > _KNOWN_LIMIT:
            kept.popitem(last=False)
