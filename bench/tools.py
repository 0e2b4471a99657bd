"""The two calls that are measured, and the crowd that makes them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

AGENTS = tuple(f"bench-{number}" for number in range(1, 9))

TITLE = "Use one writer thread with group commit"
BODY = "One commit for all waiting writes costs one fsync; measured at eleven times the throughput at 64 callers."


@dataclass(frozen=True, slots=True)
class Measured:
    """One tool of the factory, and what it is called with."""

    name: str
    input: Mapping[str, Any]


READ = Measured("mcp__agent__get_status", {})
SEND = Measured("mcp__mail__send", {"toAgentId": AGENTS[0], "subject": TITLE, "body": BODY})
LOG = Measured("mcp__system__log_decision", {"title": TITLE, "body": BODY})


def chosen(known: Container[str]) -> dict[str, Measured]:
    """A durable write and a read: the write is mail, once there is mail."""
    return {"write": SEND if SEND.name in known else LOG, "read": READ}
