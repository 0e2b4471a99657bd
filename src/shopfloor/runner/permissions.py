"""Permissions: what an agent may do when it asks. Options are chosen by their kind; ids and titles vary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from shopfloor.runner.acp import SERVER, PermissionAsked
from shopfloor.settings import PermissionRule

ALLOW, ALWAYS, DENY = "allow", "always", "deny"
ANSWERS = (ALLOW, ALWAYS, DENY)

_KINDS = {
    ALLOW: ("allow_once", "allow_always"),
    ALWAYS: ("allow_always", "allow_once"),
    DENY: ("reject_once", "reject_always"),
}
_NAME = r"(?:[a-z]+[-_][a-z]+|mcp__mail__[a-z_]+)"
_OWN_TOOL = re.compile(
    rf"(?:mcp__)?{SERVER}(?:__|_|:|/|\.| - ){_NAME}|{_NAME} \({SERVER} MCP Server\)"
    r"(?:: ?\{[^{}]*\})?",
    re.IGNORECASE,
)
_OWN_KINDS = frozenset({"other", "think", "read", "search", "fetch"})


def choose(asked: PermissionAsked, answer: str) -> str | None:
    """The id of the option that says this; none when the agent offers nothing of the kind."""
    for kind in _KINDS[answer]:
        for id, offered in asked.options:
            if offered == kind:
                return id
    return None


def is_own_tool(asked: PermissionAsked) -> bool:
    """Whether it is about a tool of this run, which its agent has anyway."""
    return asked.kind in _OWN_KINDS and _OWN_TOOL.fullmatch(asked.title.strip()) is not None


def by_rules(asked: PermissionAsked, rules: Sequence[PermissionRule], project: Path) -> str | None:
    """The answer of the first rule that fits, if one does."""
    for rule in rules:
        if rule.kind in ("*", asked.kind) and _fits(asked.paths, rule.path, project):
            return rule.answer
    return None


def _fits(paths: Sequence[str], pattern: str | None, project: Path) -> bool:
    """A rule with a path needs to know every path, and all of them in the project."""
    if pattern is None:
        return True
    if not paths:
        return False
    root = project.resolve()
    for path in paths:
        whole = (root / path).resolve()
        if not whole.is_relative_to(root) or not fnmatchcase(whole.relative_to(root).as_posix(), pattern):
            return False
    return True


def question(asked: PermissionAsked) -> str:
    """What a person is asked."""
    where = f" ({', '.join(asked.paths[:5])})" if asked.paths else ""
    return f"May the agent {asked.kind}: {asked.title or 'something without a title'}{where}?"[:2000]
