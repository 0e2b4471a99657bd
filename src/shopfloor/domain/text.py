"""Rules about text that people and agents read."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

LINE_BREAKS = ("\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")

_INVISIBLE = frozenset({"Cc", "Cf", "Mn", "Me", "Zs", "Zl", "Zp"})
_INVISIBLE_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters by category, but blank in every font: Hangul fillers, and the empty Braille pattern."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""NUL and unpaired surrogates, which no store keeps."""


def make_storable(value: Any) -> Any:
    """Replace the characters that no store keeps in every text of a JSON value."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {make_storable(key): make_storable(each) for key, each in value.items()}
    return [make_storable(each) for each in value] if isinstance(value, list | tuple) else value


def has_visible_character(text: str) -> bool:
    """Return whether a reader sees anything: more than white space, zero-width and combining characters."""
    return any(char not in _INVISIBLE_LETTERS and unicodedata.category(char) not in _INVISIBLE for char in text)


def to_one_line(text: str) -> str:
    """Return the text without surrounding white space and line breaks; empty if nothing in it is visible."""
    if not has_visible_character(text):
        return ""
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def format_json(value: Any, indent: int | None = None) -> str:
    """Format a value as JSON that may be printed: what could control a terminal or turn its text around is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    # JSON itself escapes the control characters of ASCII alone. Terminals take U+009B for the start of a command too.
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def format_tool_name(name: str) -> str:
    """Return a tool's name as people read it: `mcp__mail__list_inbox` is `mail list inbox`."""
    return name.removeprefix("mcp__").replace("__", " ").replace("_", " ")
