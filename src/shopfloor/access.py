"""Access: which principal may see and call which tool."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.principals import LOCAL, SUPERVISOR, Kind, Principal
from shopfloor.toolkit import Json, Prompt, Resource, Tool, Toolset


def allows(toolset: Toolset, caller: Principal, tool: Tool) -> bool:
    """Return whether the caller may use the tool. Administration tools are for the operator alone."""
    # The flag is checked before the toolset's own rule, so that no table of roles can grant administration.
    return (not tool.admin or caller.kind is Kind.OPERATOR) and toolset.allows(caller, tool)


def list_tools(actor: Principal, toolsets: Sequence[Toolset]) -> list[tuple[Toolset, Tool]]:
    """Return the tools that a principal sees in these toolsets, in a stable order."""
    return [
        (toolset, tool)
        for toolset in toolsets
        for tool in toolset.tools.values()
        if tool.listed and toolset.lists(actor, tool) and allows(toolset, default_caller(toolset, actor), tool)
    ]


def build_schema(toolset: Toolset, actor: Principal, tool: Tool) -> Json:
    """Return the schema of a tool's arguments, with the values that the principal may use."""
    narrowed = toolset.narrow(default_caller(toolset, actor), tool)
    if not narrowed:
        return tool.schema
    properties = tool.schema["properties"]
    changed = {name: {**properties[name], "enum": list(values)} for name, values in narrowed.items()}
    return {**tool.schema, "properties": {**properties, **changed}}


def list_resources(actor: Principal, toolsets: Sequence[Toolset]) -> list[tuple[Toolset, Resource]]:
    """Return the resources whose tool the principal may call."""
    return [
        (toolset, resource)
        for toolset in toolsets
        for resource in toolset.resources
        if allows(toolset, default_caller(toolset, actor), toolset.tools[resource.tool])
    ]


def default_caller(toolset: Toolset, actor: Principal) -> Principal:
    """Return the principal that a caller acts as when it claims no name; the operator acts as `local`."""
    if actor.kind is Kind.OPERATOR:
        if toolset.principal_kind is Kind.AGENT:
            return Principal(Kind.AGENT, LOCAL, SUPERVISOR)
        if toolset.principal_kind is Kind.USER:
            return Principal(Kind.USER, LOCAL)
    return actor


def list_prompts(actor: Principal, toolsets: Sequence[Toolset]) -> list[Prompt]:
    """Return the prompts whose tools the principal may all call."""
    return [
        prompt
        for toolset in toolsets
        for prompt in toolset.prompts
        if all(allows(toolset, default_caller(toolset, actor), toolset.tools[tool]) for tool in prompt.tools)
    ]


def collect_instructions(actor: Principal, toolsets: Sequence[Toolset]) -> list[str]:
    """Return the instructions of every toolset with a tool that the principal may call; a run has its own."""
    texts = []
    for toolset in toolsets:
        caller = default_caller(toolset, actor)
        meant = caller.kind is not Kind.RUN or toolset.principal_kind in (None, Kind.RUN)
        if meant and any(allows(toolset, caller, tool) for tool in toolset.tools.values()):
            texts.append(toolset.instructions(caller))
    return [text for text in texts if text]
