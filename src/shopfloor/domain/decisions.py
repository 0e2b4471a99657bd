"""The decision log: what was called, what came of it, and what agents decided."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

CONTEXT_LIMIT = 16 * 1024
"""Characters of context that one entry keeps; beyond, its size and hash."""

AUTOMATIC = {
    "invocation": ("Invoked tool: {}", "Automatic tool invocation log"),
    "result": ("Tool result: {}", "Automatic tool result log"),
    "error": ("Tool error: {}", "Automatic tool error log"),
}

_SECRET_KEY = re.compile(
    r'("[^"\\]*(?:password|passwd|secret|token|api[_-]?key|authorization|cookie|credential|private[_-]?key)[^"\\]*"'
    r'\s*:\s*)"(?:[^"\\]|\\.)*"',
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\bsf[aopr]_[a-z0-9]{8,}_[A-Za-z0-9_-]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bxox[abpros]-[A-Za-z0-9-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"
    r"|(?i:\bBearer\s+)[A-Za-z0-9._~+/=-]{12,}"
    r"|(?<=://)[^/\s:@\"]+:[^/\s@\"]+(?=@)",
    re.DOTALL,
)
_HINTS = re.compile(
    r"pass|secret|token|key|auth|cookie|credential|sf[aopr]_|eyJ|[spr]k-|gh[pousr]_|github_pat|xox|AKIA|AIza|BEGIN|Bearer|://",
    re.IGNORECASE,
)


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


def new_reference(now: int) -> int:
    """A number for one call that grows with time and fits into 63 bits."""
    return ((now // 1000) << 21) | secrets.randbits(21)


def spell_reference(reference: int) -> str:
    """The reference as people read it out."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while reference:
        reference, digit = divmod(reference, 36)
        text = digits[digit] + text
    return "ref-" + (text or "0")


def read_reference(text: str) -> int:
    """The number behind a spelled reference."""
    return int(text.removeprefix("ref-"), 36)


def mask(text: str) -> str:
    """The text without anything that looks like a secret."""
    if not _HINTS.search(text):
        return text
    return _SECRET_VALUE.sub("***", _SECRET_KEY.sub(r'\1"***"', text))


def context_of(value: Any) -> str:
    """A value as the log keeps it: JSON, secrets masked, at most 16 KiB."""
    return sized_context(value)[0]


def sized_context(value: Any) -> tuple[str, int]:
    """The same, and how long the JSON is without any cut."""
    text = mask(_json(value))
    if len(text) <= CONTEXT_LIMIT:
        return text, len(text)
    cut = {"truncated": True, "size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    head = text[: CONTEXT_LIMIT // 2]
    while len(kept := to_json({**cut, "head": head}).decode()) > CONTEXT_LIMIT:
        head = head[: len(head) * 3 // 4]
    return kept, len(text)


def _json(value: Any) -> str:
    try:
        return to_json(value, fallback=str, inf_nan_mode="null").decode()
    except (ValueError, UnicodeError):  # half a character: kept as its escape
        return json.dumps(value, default=str)
