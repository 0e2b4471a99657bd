"""Shared by the pages of the desk: how a page is declared, and values that several of them show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from shopfloor.toolkit import Json
from shopfloor.web.visitor import Visitor

LOCAL = "local"
"""The agent and the user that callers without a credential act as. The operator's todo list is that user's."""

Given = Mapping[str, str]
Load = Callable[[Visitor, Given], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class View:
    """A desk page: its path, its template, its data, and the topics that change it."""

    path: str
    template: str
    load: Load
    topics: tuple[str, ...] = ()
    # Minimum seconds between renderings for live updates.
    interval: float = 1.0
    # True if two visitors with the same rights may see different data, so that live updates are not shared.
    personal: bool = False


async def list_active_agents(visitor: Visitor) -> list[str]:
    """Return the names of agents that can get mail and tasks, at most 200."""
    return [agent["id"] for agent in (await visitor.ask("agent_list", limit=200, active=True))["agents"]]


def parse_number(text: str) -> int | None:
    """Parse a text as a number, or return None; 18 digits fit into 64 bits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def thing_path(kind: str | None, id: str) -> str | None:
    """Return the path of a thing's page, by its name in `find` and the activity, or None if it has none."""
    match kind:
        case "task":
            return f"/tasks/{id.removeprefix('task-')}"
        case "epic":
            return f"/boards/epic/{id.removeprefix('epic-')}"
        case "mail" | "request":
            return f"/inbox/{id}"
        case "run":
            return f"/boards/run/{quote(id)}"
        case "crew":
            return f"/crews/{quote(id)}"
        case "agent":
            return f"/agents/{quote(id)}"
        case "call" | "decision":
            return f"/activity/{id}"
    return None


def task_path(task: Json) -> str:
    """Return the path of a task's page."""
    return f"/boards/run/{task['board']}/{task['number']}" if task["kind"] == "loop" else f"/tasks/{task['number']}"


def to_bars(minutes: list[Json]) -> list[tuple[str, int, int]]:
    """Convert calls per minute to the arguments of `charts.draw_bars`."""
    return [(minute["at"][11:16], minute["calls"], minute["failed"]) for minute in minutes]
