"""The decision log: what was called, what came of it, and what agents decided."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

CONTEXT_LIMIT = 16 * 1024
"""Characters of context that one entry keeps; beyond, its size and hash."""

MASK = "***"

AUTOMATIC = {
    "invocation": ("Invoked tool: {}", "Automatic tool invocation log"),
    "result": ("Tool result: {}", "Automatic tool result log"),
    "error": ("Tool error: {}", "Automatic tool error log"),
}

_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|token|api[_-]?key|authorization|cookie|credential|private[_-]?key",
    re.IGNORECASE,
)
# Every part takes time in proportion to the text: what is logged is written by whoever calls.
_SECRET_VALUE = re.compile(
    r"sf[aopr]_[a-z0-9]{8,}_[A-Za-z0-9_-]{20,}"
    r"|(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]*eyJ)[A-Za-z0-9_-]{13,}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]*+"
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bxox[abpros]-[A-Za-z0-9-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?i:\bBearer\s+)[A-Za-z0-9._~+/=-]{12,}"
    r"|(?<=://)[^/\s:@\"]+:[^/\s@\"]+(?=@)",
    re.DOTALL,
)
# Whatever either of them matches has one of these in it. To look for plain text costs a tenth of a pattern.
_HINTS = (
    *("pass", "secret", "token", "key", "auth", "cookie", "credential", "begin", "bearer", "://"),
    *("sfa_", "sfo_", "sfp_", "sfr_", "eyj", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "xox"),
    *("akia", "aiza"),
)
_SHORT_HINT = re.compile(r"(?:\b|\\[bfnrt]|\\u[0-9a-f]{4})[spr]k-")  # in JSON, what stands before may be an escape


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


def mask(text: str) -> str:
    """The text without anything that looks like a secret."""
    if not _may_tell(text):
        return text
    if text[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):  # JSON inside of text has names too
            given = json.loads(text)
            if (masked := _masked(given)) != given:
                return _json(masked)
    return _SECRET_VALUE.sub(MASK, text)


def context_of(value: Any) -> str:
    """A value as the log keeps it: JSON, secrets masked, at most 16 KiB."""
    return sized_context(value)[0]


def size_of(value: Any) -> int:
    """How long a value is as JSON."""
    return len(_json(value))


def sized_context(value: Any) -> tuple[str, int]:
    """The same, and how long the JSON is without any cut."""
    text = _json(value)
    if _may_tell(text):
        text = _json(_masked(json.loads(text)))
    if len(text) <= CONTEXT_LIMIT:
        return text, len(text)
    cut = {"truncated": True, "size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    head = text[: CONTEXT_LIMIT // 2]
    while len(kept := to_json({**cut, "head": head}).decode()) > CONTEXT_LIMIT:
        head = head[: len(head) * 3 // 4]
    return kept, len(text)


def _json(value: Any) -> str:
    """The value as JSON, also where a caller sent what no store could keep."""
    try:
        return to_json(value, fallback=str, inf_nan_mode="null").decode()
    except PydanticSerializationError:
        pass
    try:
        return json.dumps(value, default=str, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        return json.dumps({"unreadable": type(error).__name__})


def _may_tell(text: str) -> bool:
    folded = text.casefold()
    return any(hint in folded for hint in _HINTS) or ("k-" in folded and _SHORT_HINT.search(folded) is not None)


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {mask(key): MASK if _tells(key, content) else _masked(content) for key, content in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return mask(value) if isinstance(value, str) else value


def _tells(name: str, content: Any) -> bool:
    return content is not None and not isinstance(content, bool) and _SECRET_NAME.search(name) is not None
