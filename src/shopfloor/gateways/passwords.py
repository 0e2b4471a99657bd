"""Passwords: argon2, and the same work for somebody who does not exist."""

from __future__ import annotations

import threading
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from shopfloor.errors import InvalidInput

SHORTEST, LONGEST = 10, 1000
_AT_ONCE = threading.BoundedSemaphore(2)
"""One check takes 64 MiB: a crowd at the door must not take all there is."""

_hasher = PasswordHasher()


def hashed(password: str) -> str:
    """What is kept of a password."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidInput(f"A password has {SHORTEST} to {LONGEST} characters", field="password")
    with _AT_ONCE:
        return _hasher.hash(password)


def fits(password: str, kept: str | None) -> bool:
    """Whether it is the password. Without anything kept the answer is no, and takes as long."""
    with _AT_ONCE:
        try:
            _hasher.verify(kept or _nobodys(), password[: LONGEST + 1])
        except (Argon2Error, InvalidHashError, UnicodeEncodeError):
            return False
    return kept is not None


@cache
def _nobodys() -> str:
    return _hasher.hash("the password of nobody")
