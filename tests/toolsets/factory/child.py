"""Another process on the same store: `python -m tests.toolsets.factory.child COMMAND FOLDER DATABASE NAME…`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings


def main(command: str, folder: str, database: str, *names: str) -> None:
    """Print "ready", wait for a line, run the command and print its result."""
    with Shopfloor(Settings(project=Path(folder), database=database), kind="embedded") as shop:
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps({"send": send, "claim": claim}[command](shop, names)), flush=True)
        sys.stdin.readline()


def send(shop: Shopfloor, names: tuple[str, ...]) -> Any:
    """Send a mail and return the time at which it was durable."""
    sender, recipient = names
    shop.call("factory", "mcp__mail__send", {"toAgentId": recipient, "subject": "Wake", "body": "up"}, sender)
    return time.monotonic()


def claim(shop: Shopfloor, names: tuple[str, ...]) -> Any:
    """Claim tasks for these agents in turn until none is left, and return their ids."""
    won: list[str] = []
    while True:
        for name in names:
            answer = shop.call("factory", "mcp__task__claim", {}, name)["data"]
            if answer["task"] is None:
                return won
            won.append(answer["task"]["id"])
            shop.call("factory", "mcp__task__update_status", {"state": "REVIEW", "fence": answer["fence"]}, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
