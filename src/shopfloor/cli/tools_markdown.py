"""Render tools as Markdown: docs/tools.md, and `shopfloor tools --markdown`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shopfloor.domain.principals import Kind, Principal

if TYPE_CHECKING:
    from shopfloor.toolkit import Tool, Toolset

_TYPE_NAMES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
}


def render_tools(toolsets: Iterable[Toolset], roles: Sequence[str]) -> str:
    """Render every tool with its arguments, and the agent types that may call it."""
    lines: list[str] = []
    for toolset in toolsets:
        lines += [f"## {toolset.name}", ""]
        for tool in toolset.tools.values():
            may_call = []
            if toolset.principal_kind is Kind.AGENT:
                may_call = [role for role in roles if toolset.allows(Principal(Kind.AGENT, role.lower(), role), tool)]
            lines += _describe_tool(tool, may_call)
    return "\n".join(lines).rstrip() + "\n"


def _describe_tool(tool: Tool, roles: list[str]) -> Iterator[str]:
    yield from (f"### `{tool.name}`", "", tool.description, "")
    notes = [
        *(["Read-only."] if tool.read_only else []),
        *(["Destructive."] if tool.destructive else []),
        *([f"For {', '.join(roles)}."] if roles else []),
    ]
    if notes:
        yield from (" ".join(notes), "")
    if tool.schema["properties"]:
        yield from ("| argument | type | required | description |", "|---|---|---|---|")
        for name, schema in tool.schema["properties"].items():
            required = "yes" if name in tool.schema.get("required", ()) else "no"
            yield f"| `{name}` | {_describe_type(schema)} | {required} | {schema.get('description', '')} |"
        yield ""


def _describe_type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_describe_type(schema.get('items', {}))}"
    return _TYPE_NAMES.get(schema.get("type", ""), "anything")
