"""The decision log: what was called, what came of it, and what agents decided."""

from __future__ import annotations

import hashlib
import itertools
import re
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from shopfloor.domain.masks import as_json, masked_json, may_tell

CONTEXT_LIMIT = 16 * 1024
"""Bytes of context that one entry keeps; beyond, their number and their hash."""

AUTOMATIC = {
    "invocation": ("Invoked tool: {}", "Automatic tool invocation log"),
    "result": ("Tool result: {}", "Automatic tool result log"),
    "error": ("Tool error: {}", "Automatic tool error log"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the log."""

    id: int
    reference: int
    kind: str
    subject: str
    actor: str
    toolset: str
    tool: str
    decision: str
    reasoning: str
    context: str
    code: str | None
    task: int | None
    duration: int | None
    count: int
    created_at: int
    retries: int = 0

    @property
    def outcome(self) -> str:
        """ok, decision, open, or the code of what went wrong."""
        return self.code or {"result": "ok", "manual": "decision", "invocation": "open"}.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class Sought:
    """What somebody looks for in the log; what is not said does not matter."""

    subject: str | None = None
    tool: str | None = None
    task: int | None = None
    outcome: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    desk: bool = False


_REFERENCE = re.compile(r"(?:ref-)?([0-9a-z]{1,13})")
_COUNT = itertools.count(secrets.randbits(21))


def new_reference(now: int) -> int:
    """A number for one call that grows with time and fits into 63 bits; no other call of this process has it."""
    return ((now // 1000) << 21) | (next(_COUNT) & 0x1FFFFF)


def first_reference(at: int) -> int:
    """A number below that of every call begun at that moment or later."""
    return (at // 1000) << 21


@lru_cache(maxsize=1024)
def spell_reference(reference: int) -> str:
    """The reference as people read it out."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while reference:
        reference, digit = divmod(reference, 36)
        text = digits[digit] + text
    return "ref-" + (text or "0")


def read_reference(text: str) -> int:
    """The number behind a spelled reference; 0, which is no call's, when it is none."""
    match = _REFERENCE.fullmatch(text.strip().lower())
    number = int(match[1], 36) if match else 0
    return number if number < 2**63 else 0


def context_of(value: Any) -> str:
    """A value as the log keeps it: JSON, secrets masked, at most 16 KiB."""
    return sized_context(value)[0]


def read_context(text: str) -> Any:
    """What an entry keeps, as a value; as text where it is none that could be passed on."""
    try:
        return from_json(text)
    except ValueError:
        return text


def size_of(value: Any) -> int:
    """How long a value is as JSON."""
    return len(as_json(value).encode())


def sized_context(value: Any) -> tuple[str, int]:
    """The same, and how long the JSON is without any cut."""
    text = as_json(value)
    if may_tell(text):
        text = masked_json(text)
    data = text.encode()
    if len(data) <= CONTEXT_LIMIT:
        return text, len(data)
    cut = {"truncated": True, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    head = text[: CONTEXT_LIMIT // 2]
    while len(kept := to_json({**cut, "head": head})) > CONTEXT_LIMIT:
        head = head[: len(head) * 3 // 4]
    return kept.decode(), len(data)
