"""Page sessions: sign in with a password, and out again.

An unknown user, a user without a password and a wrong password get the same answer after the same work, and all count
as failed attempts.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.times import MINUTE, SECOND
from shopfloor.errors import RateLimited, WrongPassword
from shopfloor.gateways import passwords
from shopfloor.gateways.tokens import parse_opaque_token
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import credentials
from shopfloor.usecases.external import ExternalContext

SIGNING_KEY = "pages"
"""The name of the secret that signs forms, the same for all replicas."""

MAX_ATTEMPTS = 5
"""Per name and address, so that guessing is stopped without locking the user out elsewhere."""

MAX_ATTEMPTS_PER_NAME = 50
MAX_ATTEMPTS_PER_ADDRESS = 30
_ATTEMPT_WINDOW = 5 * MINUTE
_MAX_KEYS = 100_000


def open_session(external: ExternalContext, name: str, password: str) -> str:
    """Open a page session for the user if the password is right, and return its token."""
    stored = external.read(lambda uow: uow.users.find_password_hash(name))
    # Also without a stored hash: verifying against a dummy takes the same time, so that the time of an answer does
    # not reveal which names exist.
    if not passwords.verify_password(password, stored):
        raise WrongPassword
    return external.write(lambda uow: issue_session(uow, Principal(Kind.USER, name)))


def issue_session(uow: UnitOfWork, who: Principal) -> str:
    """Open a page session for a principal whose identity is proven, and return its token."""
    return credentials.issue_for_page(uow, who, uow.now + uow.limits.page_session_lifetime)


def end_session(uow: UnitOfWork, token: str) -> bool:
    """End a page session; it stops working immediately. Return whether the token was a page session."""
    presented = parse_opaque_token(token)
    if presented is None or presented.kind is not Kind.PAGE or presented.id is None:
        return False
    uow.tokens.revoke(presented.id, uow.now)
    return True


class Sessions:
    """This process's state of page sessions: their lifetime, the secret of forms, and failed attempts."""

    def __init__(self, clock: Callable[[], int], lifetime: int, secret: bytes) -> None:
        self._clock = clock
        self.seconds = lifetime // SECOND
        self.secret = secret
        self._attempts = Attempts(_ATTEMPT_WINDOW)

    @contextmanager
    def limit_attempts(self, name: str, address: str) -> Iterator[None]:
        """Count a sign-in attempt, and uncount it if the body succeeds; raise RateLimited after too many."""
        who, where = f"name {name[:300]}", f"address {address}"
        keys = {f"{who} at {where}": MAX_ATTEMPTS, who: MAX_ATTEMPTS_PER_NAME, where: MAX_ATTEMPTS_PER_ADDRESS}
        self._attempts.count(keys, self._clock())
        yield
        self._attempts.forgive(keys)


class Attempts:
    """Counts failed attempts per key in a sliding window."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._lock = threading.Lock()
        self._known: dict[str, deque[int]] = {}

    def count(self, limits: dict[str, int], now: int) -> None:
        """Count an attempt for each key, or raise RateLimited if one has had too many."""
        with self._lock:
            # An attacker chooses the names, so the table must stay bounded. Keys that still count are kept.
            if len(self._known) > _MAX_KEYS:
                self._known = {
                    key: attempts
                    for key, attempts in self._known.items()
                    if attempts and attempts[-1] > now - self._window
                }
            seconds = 0
            for key, limit in limits.items():
                attempts = self._known.get(key, deque())
                while attempts and attempts[0] <= now - self._window:
                    attempts.popleft()
                if not attempts:
                    self._known.pop(key, None)
                elif len(attempts) >= limit:
                    seconds = max(seconds, 1, math.ceil((attempts[0] + self._window - now) / SECOND))
            if seconds:
                raise RateLimited(f"Too many attempts; try again in {seconds} s", seconds=seconds)
            # Counted before the password is checked, so that concurrent attempts cannot all stay below the limit. A
            # correct password uncounts its attempt.
            for key in limits:
                self._known.setdefault(key, deque()).append(now)

    def forgive(self, keys: dict[str, int]) -> None:
        """Uncount the last attempt, which succeeded."""
        with self._lock:
            for key in keys:
                if attempts := self._known.get(key):
                    attempts.pop()
