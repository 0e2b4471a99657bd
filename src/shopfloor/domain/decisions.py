"""The decision log: calls, their results, and the decisions of agents."""

from __future__ import annotations

import hashlib
import itertools
import re
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NotRequired, TypedDict

from pydantic_core import from_json, to_json

from shopfloor.domain.redaction import cut_texts, may_contain_secret, redact_json, to_json_text

# For a longer context, an entry keeps the head, the size and the hash.
MAX_CONTEXT_BYTES = 16 * 1024
MAX_SCANNED_CHARACTERS = 64 * 1024
"""For a longer context, only this much is scanned for secrets, and the head is part of it."""

# For a longer result of a read-only tool, an entry keeps size, digest and the lengths of its lists.
MAX_READ_RESULT_BYTES = 1024

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
        """ok, decision, open, or the code of the error."""
        return self.code or {"result": "ok", "manual": "decision", "invocation": "open"}.get(self.kind, self.kind)


class NewEntry(TypedDict):
    """The values of a new row of the log."""

    reference: int
    kind: str
    subject: str
    actor: str
    toolset: str
    tool: str
    decision: str
    reasoning: str
    context: str
    created_at: int
    code: NotRequired[str | None]
    stack: NotRequired[str | None]
    task: NotRequired[int | None]
    duration: NotRequired[int | None]
    process: NotRequired[int | None]
    retries: NotRequired[int]


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A search in the log; None matches everything."""

    subject: str | None = None
    tool: str | None = None
    tool_part: str | None = None
    task: int | None = None
    outcome: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    desk: bool = False

    @property
    def includes_drivers(self) -> bool:
        """Whether calls by runners, which drive runs and crews, match: if the desk's do, or if the search names a
        caller or a tool."""
        return self.desk or any((self.subject, self.tool, self.tool_part))


_REFERENCE = re.compile(r"(?:ref-)?([0-9a-z]{1,13})")
# Used until the process has a number.
_UNNUMBERED = secrets.randbits(10)
_COUNT = itertools.count(secrets.randbits(11))


def new_reference(now: int, process: int | None = None) -> int:
    """Return a number for one call that grows with time and fits into 63 bits.

    It is unique in its process, and across processes whose numbers differ by less than 1,024.
    """
    owner = _UNNUMBERED if process is None else process
    return ((now // 1000) << 21) | ((owner & 0x3FF) << 11) | (next(_COUNT) & 0x7FF)


def first_reference(at: int) -> int:
    """Return a number below that of every call started at that moment or later."""
    return (at // 1000) << 21


@lru_cache(maxsize=1024)
def format_reference(reference: int) -> str:
    """Format a reference for people, for example ref-1x9."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while reference:
        reference, digit = divmod(reference, 36)
        text = digits[digit] + text
    return "ref-" + (text or "0")


def parse_reference(text: str) -> int:
    """Parse a formatted reference; 0, which no call has, if it is invalid."""
    match = _REFERENCE.fullmatch(text.strip().lower())
    number = int(match[1], 36) if match else 0
    return number if number < 2**63 else 0


def format_context(value: Any) -> str:
    """Format a value for the log: JSON, secrets redacted, at most MAX_CONTEXT_BYTES."""
    return format_sized_context(value)[0]


def parse_context(text: str) -> Any:
    """Parse the context of an entry; return it as text if it is not JSON."""
    try:
        return from_json(text)
    except ValueError:
        return text


def measure_json(value: Any) -> int:
    """Return the size of a value as JSON, in bytes."""
    return len(to_json_text(value).encode())


def format_read_result(value: Any) -> tuple[str, int]:
    """Format the result of a read-only tool, and return its size too.

    For a long result, which is stored elsewhere, the log keeps size, digest and the lengths of its lists.
    """
    text = to_json_text(value)
    data = text.encode()
    if len(data) <= MAX_READ_RESULT_BYTES:
        return (redact_json(text) if may_contain_secret(text) else text), len(data)
    kept: dict[str, Any] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if isinstance(value, dict):
        kept |= {name: len(part) for name, part in value.items() if isinstance(part, list)}
    return to_json(kept).decode(), len(data)


def format_sized_context(value: Any) -> tuple[str, int]:
    """Format a value for the log as `format_context` does, and return the size of the whole JSON too."""
    text = to_json_text(value)
    data = text.encode()
    # Redacted before it is cut: half a token no longer looks like one.
    if may_contain_secret(text):
        is_long = len(text) > MAX_SCANNED_CHARACTERS
        # For a long text only the head is kept. Scanning a megabyte took 0.5 s, during which the server did nothing
        # else.
        text = redact_json(cut_texts(text, MAX_SCANNED_CHARACTERS) if is_long else text)
        data = data if is_long else text.encode()
    if len(data) <= MAX_CONTEXT_BYTES:
        return text, len(data)
    cut = {"truncated": True, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    head = text[: MAX_CONTEXT_BYTES // 2]
    # The limit is in bytes, but the head is cut in characters: with emoji it would be four times as large.
    while len(kept := to_json({**cut, "head": head})) > MAX_CONTEXT_BYTES:
        head = head[: len(head) * 3 // 4]
    return kept.decode(), len(data)
