"""Parse an agent's notifications about its session. Parsing is lenient, and unknown notifications are ignored."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AgentText:
    """A piece of the agent's words or thoughts."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallUpdate:
    """A tool call of the agent. An update has only changed fields; the others are None."""

    id: str | None
    title: str | None
    kind: str | None
    status: str | None
    raw_input: Any
    raw_output: Any
    content: Any


@dataclass(frozen=True, slots=True)
class Plan:
    """The agent's plan: each step with its status (pending, in_progress, completed). A plan replaces the previous
    one."""

    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The tokens in the agent's context, and the cost of the session so far."""

    used: Any
    cost: Any


SessionUpdate = AgentText | ToolCallUpdate | Plan | UsageReport

_TEXT_KINDS = {"agent_message_chunk": "message", "agent_thought_chunk": "thought"}


def read_update(update: dict[str, Any]) -> SessionUpdate | None:
    """Return the update as a specific type, or None if it is irrelevant."""
    match update.get("sessionUpdate"):
        case "agent_message_chunk" | "agent_thought_chunk" as kind:
            content = update.get("content")
            text = _as_text(content.get("text")) if isinstance(content, dict) else None
            return AgentText(_TEXT_KINDS[kind], text) if text else None
        case "tool_call" | "tool_call_update":
            id, title, kind, status = (_as_text(update.get(key)) for key in ("toolCallId", "title", "kind", "status"))
            raw_input, raw_output, content = (update.get(key) for key in ("rawInput", "rawOutput", "content"))
            return ToolCallUpdate(id, title, kind, status, raw_input, raw_output, content)
        case "plan":
            listed = update.get("entries")
            entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
            steps = [(_as_text(entry.get("content")), _as_text(entry.get("status"))) for entry in entries]
            return Plan(tuple((content, status or "pending") for content, status in steps if content))
        case "usage_update":
            cost = update.get("cost")
            return UsageReport(update.get("used"), cost.get("amount") if isinstance(cost, dict) else None)
    return None


def format_raw_input(value: Any) -> str:
    """Format the raw input of a tool call; show input that is only a command as that command."""
    if not value:
        return ""
    if isinstance(value, dict) and list(value) == ["command"] and isinstance(value["command"], str):
        return str(value["command"])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def format_diff(path: str, old: str, new: str) -> str:
    """Format a file change as a unified diff."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm="")
    return "\n".join(lines)


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
