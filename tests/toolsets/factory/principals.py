"""The members of a team, each a process with its own credential and the official MCP client.

`python -m tests.toolsets.factory.principals ROLE URL TOKEN` does its part until the epic is done, and prints what it does.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from tests.toolsets.factory.transports import connect_client

TASKS = 30
WORKERS = ("worker-1", "worker-2", "worker-3", "worker-4")
PLANNER = "planner"


class Refusal(Exception):
    """The tool returned an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.code = error["code"]
        super().__init__(error)


Call = Callable[..., Awaitable[Any]]


def report(what: str, value: Any = None) -> None:
    print(json.dumps({"what": what, "value": value}), flush=True)


async def supervise(call: Call) -> None:
    """Create the team, approve tasks in review (some after one requested change), and complete the epic."""
    for name, type in [(PLANNER, "ORCHESTRATOR"), *((name, "WORKER") for name in WORKERS)]:
        created = await call("mcp__supervisor__create_agent", agentId=name, type=type)
        report("created", [name, created["token"]])
    returned: set[str] = set()
    epic = None
    while True:
        for mail in (await call("mcp__mail__wait", timeoutSeconds=1))["mails"]:
            read = await call("mcp__mail__read", mailId=mail["id"])
            if read["fromAgentId"] == PLANNER:
                epic = read["body"]
        if epic is None:
            continue
        for task in (await call("mcp__task__list", epicId=epic, state="REVIEW"))["tasks"]:
            if int(task["id"].removeprefix("task-")) % 10 == 0 and task["id"] not in returned:
                returned.add(task["id"])
                await call("mcp__task__update_status", taskId=task["id"], state="IN_PROGRESS", comment="Once more")
            else:
                await call("mcp__task__update_status", taskId=task["id"], state="COMPLETED", comment="Good")
        if (await call("mcp__task__list", epicId=epic, state="COMPLETED", limit=200))["count"] == TASKS:
            await call("mcp__epic__update_status", epicId=epic, state="COMPLETED")
            await call("mcp__mail__send", to="role:WORKER", subject="Done", body="Go home")
            report("done", epic)
            return


async def plan(call: Call) -> None:
    """Create an epic with tasks that depend on each other, and assign every worker to it."""
    epic = (await call("mcp__epic__create", title="Everything"))["id"]
    ids: list[str] = []
    for number in range(TASKS):
        depends_on = sorted({ids[number // 2], ids[number - 3]}) if number >= 6 else []
        task = await call(
            "mcp__task__create", title=f"Part {number}", epicId=epic, dependsOn=depends_on, priority=number % 5
        )
        ids.append(task["id"])
    for name in WORKERS:
        await call("mcp__epic__assign", epicId=epic, agentId=name)
    await call("mcp__mail__send", toAgentId="boss", subject="Planned", body=epic)
    report("planned", epic)


async def work(call: Call) -> None:
    """Claim, work and report until the supervisor announces the end."""
    while True:
        task = await _claim_or_resume_task(call)
        if task is None:
            mails = (await call("mcp__mail__wait", timeoutSeconds=1))["mails"]
            for mail in mails:
                await call("mcp__mail__read", mailId=mail["id"])
            if any(mail["subject"] == "Done" for mail in mails):
                return
            continue
        report("claimed", task["id"])
        await asyncio.sleep(random.uniform(0.05, 0.3))
        try:
            await call("mcp__task__add_comment", taskId=task["id"], body="Working on it")
            await call("mcp__task__update_status", taskId=task["id"], state="REVIEW", fence=task["fence"])
        except Refusal as refusal:
            report("lost", [task["id"], refusal.code])
            continue
        await call("mcp__mail__send", toAgentId="boss", subject=f"Ready: {task['id']}", body="Please look")


async def _claim_or_resume_task(call: Call) -> dict[str, Any] | None:
    """Return the current task, also one that came back from review, or claim a new one."""
    try:
        claim = await call("mcp__task__claim")
    except Refusal:
        held = await call("mcp__agent__get_task")
        claim = await call("mcp__task__claim", taskId=held["id"])
    return None if claim["task"] is None else {**claim["task"], "fence": claim["fence"]}


async def main(role: str, url: str, token: str) -> None:
    async with connect_client(f"{url}/mcp", token) as client:

        async def call(tool: str, **input: Any) -> Any:
            answer = (await client.call_tool(tool, input)).structured_content
            if not answer["success"]:
                raise Refusal(answer["error"])
            return answer["data"]

        await {"supervise": supervise, "plan": plan, "work": work}[role](call)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
