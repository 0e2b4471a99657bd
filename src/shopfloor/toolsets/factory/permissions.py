"""Who may call what in the factory: patterns per role; deny comes before allow, and the default is to deny."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypedDict

from shopfloor.domain.principals import ORCHESTRATOR, REVIEWER, SUPERVISOR, WORKER, Kind, Principal


class Rights(TypedDict):
    """Patterns of tool names, such as `mcp__mail__*`."""

    allow: Sequence[str]
    deny: Sequence[str]


# The table of the seed. Where its prose and this table disagree, the table wins.
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

# The reviewer of a crew, which no person creates. It reads, writes mail, and decides on the task of its review.
REVIEWER_RIGHTS: Rights = {
    "allow": [
        "mcp__mail__*",
        "mcp__agent__get_status",
        "mcp__system__log_decision",
        "mcp__task__list",
        "mcp__task__get",
        "mcp__task__update_status",
        "mcp__task__add_comment",
    ],
    "deny": [],
}

# The tools that the agent of a run may call: it has no epic, but it has mail.
RUN_TOOLS = "mcp__mail__*"

# Tools that it may call but is not shown, to keep its list short: mail comes with its prompts, and a stuck note asks a
# person.
UNLISTED_FOR_RUNS = frozenset({"mcp__mail__wait", "mcp__mail__ask", "mcp__mail__acknowledge"})

# Tools beyond the contract's own, and the roles that may call them.
ADDITIONS: Mapping[str, Sequence[str]] = {WORKER: ["mcp__task__claim"]}


class Permissions:
    """Decides who may call what, by the patterns of each role."""

    def __init__(self, roles: Mapping[str, Rights] = CONTRACT) -> None:
        self._roles = roles
        self._decisions: dict[tuple[Kind, str, str], bool] = {}

    def allows(self, caller: Principal, tool: str) -> bool:
        """Return whether the caller may use the tool: an agent by its role, the agent of a run for mail only."""
        # Cached: comparing patterns takes 2 % of a call, and there are only as many decisions as tools times roles.
        question = (caller.kind, caller.role, tool)
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decisions[question] = self._decide(*question)
        return decision

    def _decide(self, kind: Kind, role: str, tool: str) -> bool:
        if kind is Kind.RUN:
            return fnmatchcase(tool, RUN_TOOLS)
        rights = self._roles.get(role) if kind is Kind.AGENT else None
        if kind is Kind.AGENT and role == REVIEWER:
            rights = REVIEWER_RIGHTS
        # An unknown role may call nothing, and deny takes precedence over allow.
        if rights is None or any(fnmatchcase(tool, pattern) for pattern in rights["deny"]):
            return False
        allowed = (*rights["allow"], *ADDITIONS.get(role, ()))
        return any(fnmatchcase(tool, pattern) for pattern in allowed)


def extend_roles(further: Mapping[str, Mapping[Any, Sequence[str]]]) -> dict[str, Rights]:
    """Return the contract's roles with the patterns of the settings added."""
    roles: dict[str, Rights] = {**CONTRACT}
    for role, rights in further.items():
        known = roles.get(role, {"allow": [], "deny": []})
        roles[role] = {
            "allow": [*known["allow"], *rights.get("allow", [])],
            "deny": [*known["deny"], *rights.get("deny", [])],
        }
    return roles
