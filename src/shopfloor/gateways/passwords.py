"""Hash and verify passwords with argon2. An unknown user costs as much as a wrong password."""

from __future__ import annotations

import threading
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from shopfloor.errors import InvalidInput

MIN_CHARACTERS, MAX_CHARACTERS = 10, 1000
_SLOTS = threading.BoundedSemaphore(2)
"""Limits concurrent hashes: each takes 64 MiB, and many sign-ins at once must not exhaust the memory."""

_hasher = PasswordHasher()


def hash_password(password: str) -> str:
    """Hash a password for the store."""
    if not MIN_CHARACTERS <= len(password) <= MAX_CHARACTERS:
        raise InvalidInput(f"A password has {MIN_CHARACTERS} to {MAX_CHARACTERS} characters", field="password")
    with _SLOTS:
        return _hasher.hash(password)


def verify_password(password: str, stored: str | None) -> bool:
    """Return whether the password matches. Without a stored hash, do the same work and return False."""
    # Argon2's own cost dominates, so a caller cannot measure whether the user exists. The password is truncated,
    # because hashing a long one would cost too much.
    with _SLOTS:
        try:
            _hasher.verify(stored or _dummy_hash(), password[: MAX_CHARACTERS + 1])
        except (Argon2Error, InvalidHashError, UnicodeEncodeError):
            return False
    return stored is not None


# Created on first use: hashing is slow, and most processes check no password.
@cache
def _dummy_hash() -> str:
    return _hasher.hash("no one has this password")
