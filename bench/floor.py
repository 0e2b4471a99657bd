"""A floor with its doors, as `shopfloor serve` opens it: log lines, tokens and all.

`python -m bench.floor DATA DATABASE FURTHER` serves it with as many FURTHER tools registered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.tools import AGENTS
from shopfloor import Settings, Shopfloor
from shopfloor.app import Floor
from shopfloor.gateways import logs
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets import factory
from shopfloor.transports import server


def crew(settings: Settings) -> dict[str, str]:
    """The token of each agent that will call."""
    shopfloor = Shopfloor(settings)
    try:
        return {name: str(shopfloor.hire(name, "WORKER", with_token=True)[1]) for name in AGENTS}
    finally:
        shopfloor.close()


def register_further(count: int) -> None:
    """As many tools more, each with a schema of its own."""
    for number in range(count):

        @factory.toolset.tool(f"mcp__bench__tool_{number}")
        def further(work: Work, title: str, place: int = number) -> Json:
            """One tool more."""
            return {"title": title, "place": place, "at": work.now}


def main(data: Path, database: str, further: int) -> None:
    settings = Settings(project=data, data=data, database=database, port=0, log="json")
    logs.set_up(settings.log, settings.log_level)
    register_further(further)
    tokens = crew(settings)

    def ready(floor: Floor, url: str) -> None:
        facts = {"port": int(url.rpartition(":")[2]), "tokens": tokens, "tools": list(floor.profile[0].tools)}
        print(json.dumps(facts), flush=True)

    server.serve(settings, ready)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
