"""The agents, and one agent in detail."""

from __future__ import annotations

import asyncio

from shopfloor.toolkit import Json
from shopfloor.web.views.activity import fold_polling
from shopfloor.web.views.view import Given
from shopfloor.web.visitor import Visitor

LIVE_STATES = ("failed", "silent", "waiting", "working", "idle")


async def load_agents(visitor: Visitor, given: Given) -> Json:
    """Load the agents and their condition; with `show=retired`, the retired ones."""
    overview, listed = await asyncio.gather(
        visitor.ask("floor_overview"), visitor.ask("agent_list", cursor=given.get("agents"), limit=200)
    )
    status = {agent["id"]: agent for agent in overview["agents"]}
    present = [{**agent, **status.get(agent["id"], _describe_unseen(agent))} for agent in listed["agents"]]
    active = [agent for agent in present if agent["retiredAt"] is None and agent["id"] in status]
    return {
        "agents": sorted(active, key=lambda agent: (LIVE_STATES.index(agent["state"]), agent["id"])),
        "retired": [agent for agent in present if agent["retiredAt"] is not None],
        "counts": overview["counts"],
        "next_cursor": listed.get("nextCursor"),
        "supervisors": [agent["id"] for agent in active],
        "is_open": not visitor.needs_credential(),
    }


def _describe_unseen(agent: Json) -> Json:
    """Return the fields of an agent that the overview leaves out: a retired one, or the built-in one without work."""
    return {"state": agent["state"].lower(), "task": None, "lastCall": None, "leaseExpiresAt": None}


async def load_agent(visitor: Visitor, given: Given) -> Json:
    """Load one agent with its work, mail, calls, tokens and usage."""
    seen = await visitor.ask("agent_show", name=given["agent"])
    return {
        **{name: value for name, value in seen.items() if name != "status"},
        "calls": fold_polling(seen["calls"]),
        "current": seen["status"],
        "usage_bars": [
            (day["day"], day["tokens"], f"{day['tokens']:,} tokens, ${day['cost']:.2f}") for day in seen["usage"]
        ],
    }
