"""Who may call what in the factory: data, deny before allow, and whatever is not allowed is denied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypedDict

from shopfloor.domain.actors import ORCHESTRATOR, SUPERVISOR, WORKER


class Rights(TypedDict):
    """Patterns of tool names; `*` stands for anything."""

    allow: Sequence[str]
    deny: Sequence[str]


CONTRACT: Mapping[str, Rights] = {
    SUPERVISOR: {"allow": ["*"], "deny": []},
    ORCHESTRATOR: {
        "allow": ["mcp__mail__*", "mcp__agent__*", "mcp__system__*", "mcp__task__*", "mcp__epic__*"],
        "deny": ["mcp__supervisor__*"],
    },
    WORKER: {
        "allow": [
            "mcp__mail__*",
            "mcp__agent__get_status",
            "mcp__agent__get_task",
            "mcp__agent__get_epic",
            "mcp__system__log_decision",
            "mcp__task__update_status",
            "mcp__task__add_comment",
        ],
        "deny": [
            "mcp__supervisor__*",
            "mcp__orchestrator__*",
            "mcp__epic__*",
            "mcp__task__create",
            "mcp__task__assign",
        ],
    },
}

FOR_RUNS = "mcp__mail__"
"""What the agent of a run may call begins so: it works in nobody's epic, but it has mail."""

ADDITIONS: Mapping[str, Sequence[str]] = {WORKER: ["mcp__task__claim"]}
"""What the contract does not know of and we allow beyond it."""


def compiled(names: Sequence[str], extra: Mapping[str, Rights] | None = None) -> dict[str, frozenset[str]]:
    """The tools that each role may call."""
    table: dict[str, Rights] = {**CONTRACT}
    for role, rights in (extra or {}).items():
        known = table.get(role, {"allow": [], "deny": []})
        table[role] = {
            "allow": [*known["allow"], *rights.get("allow", [])],
            "deny": [*known["deny"], *rights.get("deny", [])],
        }
    return {role: frozenset(name for name in names if _allowed(role, rights, name)) for role, rights in table.items()}


def _allowed(role: str, rights: Rights, name: str) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in rights["deny"]):
        return False
    return any(fnmatchcase(name, pattern) for pattern in [*rights["allow"], *ADDITIONS.get(role, [])])
