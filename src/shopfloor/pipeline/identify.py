"""identify: who calls. It only authenticates; what the caller claims to be is judged behind the log."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TypeVar

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

T = TypeVar("T")


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

    Cryptography is done once per token. Whether a token still counts is asked of the store at every call,
    or, where asking costs a round trip, at most `fresh_for` seconds ago.
    """

    def __init__(
        self,
        works: Works,
        user_tokens: UserTokens,
        *,
        always_closed: bool,
        fresh_for: float,
        only: Principal | None = None,
    ) -> None:
        self._works = works
        self._user_tokens = user_tokens
        self._closed = always_closed
        self._fresh_for = fresh_for
        self._only = only
        self._lock = threading.Lock()
        self._read: OrderedDict[str, Presented] = OrderedDict()
        self._recognised: OrderedDict[str, tuple[float, Principal]] = OrderedDict()
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
        if credential.trusted is not None:
            return True
        if self._fresh_for:
            return token is not None and self._remembered(token) is not None
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
            presented, forgotten = self._presented(token), self._forgotten
            principal = self._works.read(lambda work: identity.recognise(work, presented), OPERATOR)
            if self._fresh_for and forgotten == self._forgotten:  # what was read before must not outlive the forgetting
                _keep(self._lock, self._recognised, token, (time.monotonic(), principal))
        return principal

    def _remembered(self, token: str) -> Principal | None:
        with self._lock:
            at, principal = self._recognised.get(token, (float("-inf"), None))
        return principal if time.monotonic() - at < self._fresh_for else None

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
