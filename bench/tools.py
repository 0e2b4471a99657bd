"""The two calls that are measured, and the agents that make them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

AGENTS = tuple(f"bench-{number}" for number in range(1, 9))

TITLE = "Use one writer thread with group commit"
BODY = "One commit for all waiting writes costs one fsync; measured at eleven times the throughput at 64 callers."


@dataclass(frozen=True, slots=True)
class Measured:
    """A tool of the factory with its input."""

    name: str
    input: Mapping[str, Any]


READ = Measured("mcp__agent__get_status", {})
SEND = Measured("mcp__mail__send", {"toAgentId": AGENTS[0], "subject": TITLE, "body": BODY})
LOG = Measured("mcp__system__log_decision", {"title": TITLE, "body": BODY})


def choose_tools(known: Container[str]) -> dict[str, Measured]:
    """Return a durable write and a read: mail, or a decision where there is no mail."""
    return {"write": SEND if SEND.name in known else LOG, "read": READ}
