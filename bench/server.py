"""A server as `shopfloor serve` starts it, with log lines and tokens.

`python -m bench.server DATA DATABASE EXTRA` serves it with EXTRA more tools registered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.tools import AGENTS
from shopfloor import Settings, Shopfloor
from shopfloor.engine import Engine
from shopfloor.gateways import logs
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets import factory
from shopfloor.transports import server


def create_agents(settings: Settings) -> dict[str, str]:
    """Create the agents that will call, unless another replica has, and return their tokens."""
    shopfloor = Shopfloor(settings)
    try:
        known = {agent["id"] for agent in shopfloor.list_agents()}
        issue = {True: lambda name: shopfloor.issue_token(agent=name), False: shopfloor.create_agent}
        return {name: str(issue[name in known](name)["token"]) for name in AGENTS}
    finally:
        shopfloor.close()


def register_extra_tools(count: int) -> None:
    """Register a number of tools, each with its own schema."""
    for number in range(count):

        @factory.toolset.tool(f"mcp__bench__tool_{number}")
        def extra_tool(uow: UnitOfWork, title: str, place: int = number) -> Json:
            """Return the arguments."""
            return {"title": title, "place": place, "at": uow.now}


def main(data: Path, database: str, extra_tools: int) -> None:
    settings = Settings(project=data, data=data, database=database, port=0, log="json")
    logs.configure_logging(settings.log, settings.log_level)
    register_extra_tools(extra_tools)
    tokens = create_agents(settings)

    def announce(engine: Engine, url: str) -> None:
        facts = {"port": int(url.rpartition(":")[2]), "tokens": tokens, "tools": list(engine.profile[0].tools)}
        print(json.dumps(facts), flush=True)

    server.serve(settings, announce)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
