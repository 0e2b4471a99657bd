"""Sessions of pages: signing in with a password, and out again.

Whoever does not exist, has no password or gives a wrong one gets the same answer after the same work, and the tries
are counted alike.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable

from shopfloor.domain.actors import OPERATOR, Kind, Principal
from shopfloor.domain.times import MINUTE, SECOND
from shopfloor.errors import RateLimited, Unauthenticated
from shopfloor.gateways import passwords
from shopfloor.gateways.tokens import read_opaque
from shopfloor.repositories.work import Work, Works
from shopfloor.usecases import identity

TRIES = 5
"""Per name and address: who guesses is stopped, and whoever bears the name elsewhere is not locked out by it."""

TRIES_PER_NAME = 50
TRIES_PER_ADDRESS = 30
_WINDOW = 5 * MINUTE
_KNOWN = 100_000

WRONG = "The name or the password is wrong"


class Sessions:
    """Opens and ends the sessions of pages."""

    def __init__(self, works: Works, clock: Callable[[], int], lifetime: int, secret: bytes) -> None:
        self._works = works
        self._clock = clock
        self._lifetime = lifetime
        self.secret = secret
        self._tries = Tries(_WINDOW)

    def sign_in(self, name: str, password: str, address: str) -> str:
        """A new session for the user, if it is the password."""
        now = self._clock()
        who, where = f"name {name[:300]}", f"address {address}"
        keys = {f"{who} at {where}": TRIES, who: TRIES_PER_NAME, where: TRIES_PER_ADDRESS}
        self._tries.count(keys, now)
        kept = self._works.read(lambda work: work.people.password_hash(name) if _storable(name) else None, OPERATOR)
        if not passwords.fits(password, kept):
            raise Unauthenticated(WRONG)
        self._tries.forgive(keys)
        return self.open(Principal(Kind.USER, name))

    @property
    def seconds(self) -> int:
        """How long a session lasts."""
        return self._lifetime // SECOND

    def open(self, who: Principal) -> str:
        """A session for somebody whose identity is proven."""
        return self._works.write(lambda work: identity.issue_for_page(work, who, work.now + self._lifetime), OPERATOR)

    def end(self, token: str) -> None:
        """The session opens nothing any more."""
        presented = read_opaque(token)
        if presented is not None and presented.kind is Kind.PAGE and presented.id is not None:
            id = presented.id
            self._works.write(lambda work: work.tokens.revoke(id, work.now), OPERATOR)


class Tries:
    """How often something was tried lately."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._lock = threading.Lock()
        self._known: dict[str, deque[int]] = {}

    def count(self, limits: dict[str, int], now: int) -> None:
        """Count one more try for each key, or refuse when one has had too many."""
        with self._lock:
            if len(self._known) > _KNOWN:
                self._known = {
                    key: tries for key, tries in self._known.items() if tries and tries[-1] > now - self._window
                }
            waits = [wait for key, limit in limits.items() if (wait := self._wait(key, limit, now))]
            if waits:
                raise RateLimited(f"Too many tries; try again in {max(waits)} s", seconds=max(waits))
            for key in limits:
                self._known.setdefault(key, deque()).append(now)

    def forgive(self, keys: dict[str, int]) -> None:
        """The last try was right and does not count."""
        with self._lock:
            for key in keys:
                if tries := self._known.get(key):
                    tries.pop()

    def _wait(self, key: str, limit: int, now: int) -> int:
        tries = self._known.get(key, deque())
        while tries and tries[0] <= now - self._window:
            tries.popleft()
        if not tries:
            self._known.pop(key, None)
        return 0 if len(tries) < limit else max(1, math.ceil((tries[0] + self._window - now) / SECOND))


def settle(work: Work, fresh_key: bytes) -> bytes:
    """The key that forms are signed with, the same for all replicas."""
    return work.workspaces.secret(work.workspace, "pages", fresh_key, work.now)


def _storable(name: str) -> bool:
    return len(name) <= 255 and "\x00" not in name and name.isprintable()
