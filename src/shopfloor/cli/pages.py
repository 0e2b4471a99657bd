"""Pages of the documentation that are written from the code itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shopfloor.toolkit import Tool, Toolset

_WORDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "object": "object"}


def tools_page(toolsets: Iterable[Toolset], rights: Mapping[str, Collection[str]]) -> str:
    """docs/tools.md: every tool with its arguments, and the agent types that may call it."""
    lines = ["# Tools", "", "Written by `make docs` from the tools themselves; a test fails when it is stale.", ""]
    for toolset in toolsets:
        lines += [f"## {toolset.name}", ""]
        for tool in toolset.tools.values():
            lines += _tool(tool, [role for role, names in rights.items() if tool.name in names])
    return "\n".join(lines).rstrip() + "\n"


def _tool(tool: Tool, roles: list[str]) -> list[str]:
    lines = [f"### `{tool.name}`", "", tool.description, ""]
    facts = [
        *(["Reads only."] if tool.read_only else []),
        *(["Destructive."] if tool.destructive else []),
        *([f"For {', '.join(roles)}."] if roles else []),
    ]
    if facts:
        lines += [" ".join(facts), ""]
    if tool.schema["properties"]:
        lines += ["| argument | type | needed | what |", "|---|---|---|---|"]
        lines += [_argument(tool, name, schema) for name, schema in tool.schema["properties"].items()]
        lines.append("")
    return lines


def _argument(tool: Tool, name: str, schema: Mapping[str, Any]) -> str:
    needed = "yes" if name in tool.schema.get("required", ()) else "no"
    return f"| `{name}` | {_type(schema)} | {needed} | {schema.get('description', '')} |"


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return _WORDS.get(schema.get("type", ""), "anything")
