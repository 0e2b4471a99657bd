"""Edit YAML as text: add, replace or remove one member of a block mapping, and leave everything else unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml


def parse(text: str) -> Any:
    """Return the value of a YAML document; an empty one is an empty mapping."""
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def set_member(text: str, path: Sequence[str], value: dict[str, Any]) -> str:
    """Return the text with the member set. The path has two keys: the mapping at the top, and its member."""
    table, name = path
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    start = _find_key(lines, table, "")
    if start is None:
        return "".join([*lines, f"{table}:\n", *_render_member(name, value, "  ")])
    end = _find_end(lines, start, "")
    # `extensions: {}` and `extensions: null` have no lines of their own.
    lines[start] = re.sub(r":\s*(?:\{\s*\}|null|~)", ":", lines[start])
    indent = _find_indent(lines[start + 1 : end])
    member = _find_key(lines[start + 1 : end], name, indent)
    if member is None:
        return "".join([*lines[:end], *_render_member(name, value, indent), *lines[end:]])
    first = start + 1 + member
    last = _find_end(lines[:end], first, indent)
    return "".join([*lines[:first], *_render_member(name, value, indent), *lines[last:]])


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member, and without its mapping if that is then empty."""
    table, name = path
    lines = text.splitlines(keepends=True)
    start = _find_key(lines, table, "")
    if start is None:
        return text
    end = _find_end(lines, start, "")
    indent = _find_indent(lines[start + 1 : end])
    member = _find_key(lines[start + 1 : end], name, indent)
    if member is None:
        return text
    first = start + 1 + member
    last = _find_end(lines[:end], first, indent)
    is_empty = not "".join(lines[start + 1 : first] + lines[last:end]).strip()
    return "".join(lines[:start] + lines[end:] if is_empty else lines[:first] + lines[last:])


def _find_key(lines: Sequence[str], key: str, indent: str) -> int | None:
    pattern = re.compile(rf"{indent}(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')\s*:(?:\s|$)")
    return next((number for number, line in enumerate(lines) if pattern.match(line)), None)


def _find_end(lines: Sequence[str], start: int, indent: str) -> int:
    """Return the line after the block that starts there, excluding trailing blank lines and comments."""
    end = start + 1
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if len(line) - len(line.lstrip(" ")) <= len(indent):
            break
        end = number + 1
    return end


def _find_indent(lines: Sequence[str]) -> str:
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            return line[: len(line) - len(line.lstrip(" "))]
    return "  "


def _render_member(name: str, value: dict[str, Any], indent: str) -> list[str]:
    lines = [f"{indent}{name}:\n"]
    for key, item in value.items():
        if isinstance(item, dict):
            lines += _render_member(key, item, f"{indent}  ")
        elif isinstance(item, list):
            lines.append(f"{indent}  {key}:\n")
            lines += [f"{indent}  - {_render_scalar(each)}\n" for each in item]
        else:
            lines.append(f"{indent}  {key}: {_render_scalar(item)}\n")
    return lines


def _render_scalar(value: Any) -> str:
    """Render a plain word unquoted, and everything else as JSON, which is valid YAML."""
    if (
        isinstance(value, str)
        and re.fullmatch(r"[A-Za-z_][A-Za-z_]*", value)
        and isinstance(yaml.safe_load(value), str)
    ):
        return value
    return json.dumps(value, ensure_ascii=False)
