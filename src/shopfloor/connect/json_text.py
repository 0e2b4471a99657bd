"""Edit JSON with comments as text, so that everything but one member stays unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")


@dataclass(slots=True)
class _Node:
    """A value with its position in the text; an object also has its members."""

    start: int
    end: int
    value: Any
    members: dict[str, _Member] = field(default_factory=dict)


@dataclass(slots=True)
class _Member:
    start: int
    node: _Node


def parse(text: str) -> Any:
    """Return the value of a text that may have `//` and `/* */` comments and trailing commas."""
    return _parse_document(text).value


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the member at the path set. Missing objects on the path are added."""
    if not text.strip():
        text = "{}\n"
    node = _parse_document(text)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise ValueError(f"{'.'.join(path[:depth]) or 'the document'} is not an object")
        if key not in node.members:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _insert(text, node, key, value)
        node = node.members[key].node
    if node.value == value:
        return text
    return text[: node.start] + _render(text, value, _indent_at(text, node.start)) + text[node.end :]


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member, and without the objects on the path that are then empty."""
    parents = [_parse_document(text)]
    for key in path:
        if key not in parents[-1].members:
            return text
        parents.append(parents[-1].members[key].node)
    depth = len(path) - 1
    while depth > 0 and len(parents[depth].members) == 1:
        depth -= 1
    return _cut(text, parents[depth], path[depth])


def _cut(text: str, parent: _Node, key: str) -> str:
    keys = list(parent.members)
    place = keys.index(key)
    member = parent.members[key]
    if place + 1 < len(keys):
        # Comments between this member and the next belong to the next.
        comma = text.index(",", _skip(text, member.node.end))
        rest = text[comma + 1 :]
        return text[: member.start] + rest.lstrip()
    tail = _skip(text, member.node.end)
    end = tail + 1 if text[tail] == "," else member.node.end
    if place == 0:
        inside = text[parent.start + 1 : member.start].rstrip() + text[end : parent.end - 1].rstrip()
        return text[: parent.start + 1] + (inside + "\n" if inside else "") + text[parent.end - 1 :]
    previous = parent.members[keys[place - 1]].node.end
    comma = text.index(",", _skip(text, previous))
    return text[:comma] + text[comma + 1 : member.start].rstrip() + text[end:]


def _insert(text: str, parent: _Node, key: str, value: Any) -> str:
    name = json.dumps(key, ensure_ascii=False)
    body = text[parent.start : parent.end]
    is_document_on_one_line = "\n" not in text.strip() and body != text.strip()
    if "\n" not in body and (parent.members or is_document_on_one_line):
        rendered = f"{name}: {json.dumps(value, ensure_ascii=False)}"
        last = list(parent.members.values())[-1].node.end if parent.members else parent.start + 1
        return text[:last] + (", " if parent.members else "") + rendered + text[last:]
    outer = _indent_at(text, parent.start)
    if parent.members:
        members = list(parent.members.values())
        inner = _indent_at(text, members[-1].start)
        last = members[-1].node.end
        tail = _skip(text, last)
        # The comma directly follows the last value; the new member comes after that value's comments.
        if text[tail] != ",":
            text, end = text[:last] + "," + text[last:], parent.end
        else:
            end = parent.end - 1
    else:
        inner, end = outer + _find_unit(text), parent.end - 1
    kept = text[:end].rstrip()
    return f"{kept}\n{inner}{name}: {_render(text, value, inner)}\n{outer}{text[end:]}"


def _render(text: str, value: Any, indent: str) -> str:
    """Render a value with the indentation of the text; in a one-line text, without line breaks."""
    if "\n" not in text.strip() and text.strip() != "{}":
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_find_unit(text)).splitlines()
    return f"\n{indent}".join(lines)


def _find_unit(text: str) -> str:
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else "  "


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]


def _parse_document(text: str) -> _Node:
    try:
        start = _skip(text, 1 if text.startswith("\ufeff") else 0)
        node = _parse_value(text, start)
    except (IndexError, RecursionError):
        raise ValueError("the text ends early or is nested too deeply") from None
    if _skip(text, node.end) != len(text):
        raise _error(text, _skip(text, node.end))
    return node


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _error(text: str, position: int) -> ValueError:
    line = text.count("\n", 0, position) + 1
    return ValueError(f"line {line}: unexpected {text[position : position + 10]!r}")


def _parse_value(text: str, start: int) -> _Node:
    if text[start] == "{":
        return _parse_object(text, start)
    if text[start] == "[":
        return _parse_list(text, start)
    found = _STRING.match(text, start) or _SCALAR.match(text, start)
    if found is None:
        raise _error(text, start)
    try:
        return _Node(start, found.end(), json.loads(found[0]))
    except ValueError:
        raise _error(text, start) from None


def _parse_object(text: str, start: int) -> _Node:
    members: dict[str, _Member] = {}
    position = _skip(text, start + 1)
    while text[position] != "}":
        key = _STRING.match(text, position)
        if key is None:
            raise _error(text, position)
        colon = _skip(text, key.end())
        if text[colon] != ":":
            raise _error(text, colon)
        node = _parse_value(text, _skip(text, colon + 1))
        name = json.loads(key[0])
        if name in members:
            raise ValueError(f"the key {key[0]} occurs twice")
        members[name] = _Member(position, node)
        position = _next_item(text, node.end, "}")
    value = {name: member.node.value for name, member in members.items()}
    return _Node(start, position + 1, value, members)


def _parse_list(text: str, start: int) -> _Node:
    items = []
    position = _skip(text, start + 1)
    while text[position] != "]":
        node = _parse_value(text, position)
        items.append(node.value)
        position = _next_item(text, node.end, "]")
    return _Node(start, position + 1, items)


def _next_item(text: str, end: int, closing: str) -> int:
    position = _skip(text, end)
    if text[position] == ",":
        return _skip(text, position + 1)
    if text[position] != closing:
        raise _error(text, position)
    return position
