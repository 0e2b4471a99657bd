"""Run one turn of the assistant and print every address that the process connected to."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from shopfloor.chat.assistant import Assistant
from shopfloor.domain.principals import Kind, Principal
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Credential

hosts: set[str] = set()


def record_connection(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        hosts.add(f"{arguments[1][0]}:{arguments[1][1]}")
    if event == "socket.getaddrinfo" and arguments[0] not in ("127.0.0.1", None):
        hosts.add(str(arguments[0]))


async def run_turn(shopfloor: Shopfloor) -> Any:
    assistant = Assistant(shopfloor.engine)
    customer = Credential(trusted=Principal(Kind.USER, "customer"))
    return await assistant.start_turn(await assistant.begin_turn(customer, "Add a task to buy milk"))


if __name__ == "__main__":
    sys.addaudithook(record_connection)
    with Shopfloor(Settings(project=sys.argv[2], chat_base_url=f"{sys.argv[1]}/v1")) as shopfloor:
        answer = asyncio.run(run_turn(shopfloor))
    print(json.dumps({"response": answer["response"], "hosts": sorted(hosts)}))
