"""Edit TOML as text: add, replace or remove one table, and leave everything else unchanged."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"^\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")


def parse(text: str) -> Any:
    """Return the value of a TOML document."""
    return tomllib.loads(text)


def set_member(text: str, path: Sequence[str], value: dict[str, Any]) -> str:
    """Return the text with the table at the path set, in place of the old one or at the end."""
    lines = text.splitlines(keepends=True)
    block = _render_table(path, value)
    found = _find_table(lines, path)
    if found is None:
        before = text if not text or text.endswith("\n") else f"{text}\n"
        return before + ("\n" if before.strip() else "") + block
    start, end = found
    return "".join(lines[:start]) + block + "".join(lines[end:])


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the table."""
    lines = text.splitlines(keepends=True)
    found = _find_table(lines, path)
    if found is None:
        return text
    start, end = found
    # The blank line before the table was added with it.
    if start and not lines[start - 1].strip():
        start -= 1
    return "".join(lines[:start] + lines[end:])


def _find_table(lines: Sequence[str], path: Sequence[str]) -> tuple[int, int] | None:
    """Return the lines of the table with its subtables, up to the comments of the next table."""
    start = end = None
    for number, line in enumerate(lines):
        header = _HEADER.match(line)
        if header is None:
            continue
        is_ours = _split_key(header[1])[: len(path)] == list(path)
        if is_ours and start is None:
            start = number
        elif not is_ours and start is not None:
            end = number
            break
    if start is None:
        return None
    end = len(lines) if end is None else end
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return start, end


def _split_key(text: str) -> list[str]:
    return [double or single or bare for double, single, bare in _KEY_PART.findall(text)]


def _render_table(path: Sequence[str], value: dict[str, Any]) -> str:
    lines = [f"[{'.'.join(map(_render_key, path))}]"]
    lines += [f"{_render_key(key)} = {_render_value(item)}" for key, item in value.items()]
    return "\n".join(lines) + "\n"


def _render_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key)


def _render_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_render_key(key)} = {_render_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_render_value, value))}]"
    # A JSON string, number or boolean is the same in TOML, except for DEL, which TOML does not permit unescaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
