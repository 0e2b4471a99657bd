"""One turn of the assistant, and every address that this process connected to meanwhile."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from shopfloor.chat.assistant import Assistant
from shopfloor.domain.actors import Kind, Principal
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Credential

hosts: set[str] = set()


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        hosts.add(f"{arguments[1][0]}:{arguments[1][1]}")
    if event == "socket.getaddrinfo" and arguments[0] not in ("127.0.0.1", None):
        hosts.add(str(arguments[0]))


async def turn(floor: Shopfloor) -> Any:
    assistant = Assistant(floor.floor)
    customer = Credential(trusted=Principal(Kind.USER, "customer"))
    return await assistant.take(await assistant.begin(customer, "Add a task to buy milk"))


if __name__ == "__main__":
    sys.addaudithook(note)
    with Shopfloor(Settings(project=sys.argv[2], chat_base_url=f"{sys.argv[1]}/v1")) as floor:
        answer = asyncio.run(turn(floor))
    print(json.dumps({"response": answer["response"], "hosts": sorted(hosts)}))
