"""What each page of the desk shows: a few calls, and their answers put where the template finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from shopfloor.errors import NotFound
from shopfloor.toolkit import Json
from shopfloor.web.frame import OPERATOR, Visitor

Given = Mapping[str, str]
Look = Callable[[Visitor, Given], Awaitable[Json]]

LOG_FILTERS = ("agent", "tool", "outcome", "task", "since", "until", "text", "desk")
LISTED = {"PENDING": ("active", "COMPLETED"), "COMPLETED": ("completed", "PENDING")}
"""The states of a user's list: how the list's own tools call them, and where a task can go from there."""

MOVE = "/act/task_move"
OUTCOMES = ("ok", "error", "decision", "open", "limited", "PERMISSION_DENIED", "INVALID_INPUT", "INTERNAL_ERROR")


@dataclass(frozen=True, slots=True)
class View:
    """A page: where it is, what it shows, and what makes it change."""

    path: str
    template: str
    look: Look
    topics: tuple[str, ...] = ()
    pause: float = 1.0
    own: bool = False
    """Whether it shows something that not everybody with the same rights may see."""


async def floor(visitor: Visitor, _: Given) -> Json:
    """Who works on what, problems first."""
    seen = await visitor.ask("floor_overview")
    minutes = seen["callsPerMinute"]
    return {
        "seen": seen,
        "minutes": [(each["at"][11:16], each["calls"], each["failed"]) for each in minutes],
        "now": minutes[-1]["calls"] + minutes[-2]["calls"],
        "badge": badge(seen),
    }


async def inbox(visitor: Visitor, given: Given) -> Json:
    """Everything that waits for a person."""
    done = given.get("show") == "all"
    seen = await visitor.ask("inbox_waiting", includeDone=done, cursor=given.get("cursor"))
    agents = (await visitor.ask("people_agents", limit=200))["agents"]
    return {
        "seen": seen,
        "show": "all" if done else "waiting",
        "agents": [agent["id"] for agent in agents if agent["retiredAt"] is None],
        "badge": badge(await visitor.ask("inbox_count")),
    }


async def letter(visitor: Visitor, given: Given) -> Json:
    """One mail with its thread; whoever may is taken to have read it."""
    if visitor.may("inbox_read"):
        await visitor.ask("inbox_read", mailId=given["mail"])
    agents = (await visitor.ask("people_agents", limit=200))["agents"]
    mail = await visitor.ask("inbox_show", mailId=given["mail"])
    return {"mail": mail, "agents": [agent["id"] for agent in agents if agent["retiredAt"] is None]}


async def boards(visitor: Visitor, given: Given) -> Json:
    """All boards: epics, loops, and whose lists there are."""
    epics, runs, users = await asyncio.gather(
        visitor.ask("board_epics", cursor=given.get("epics")),
        visitor.ask("run_list", cursor=given.get("runs")),
        visitor.ask("people_users", cursor=given.get("users")),
    )
    return {"epics": epics, "runs": runs, "users": users}


async def board(visitor: Visitor, given: Given) -> Json:
    """One board, its tasks by state."""
    number = "" if given["board"] == "none" else given["board"]
    seen = await visitor.ask(
        "board_show", kind=given["kind"], board=number, state=given.get("state"), text=given.get("text"),
        cursor=given.get("cursor"),
    )  # fmt: skip
    run = await visitor.ask("run_show", run=number) if given["kind"] == "loop" else None
    return {"seen": seen, "run": run, "text": given.get("text", ""), "state": given.get("state", ""), "act": MOVE}


async def own_list(visitor: Visitor, given: Given) -> Json:
    """Somebody's own list as a board: its owner's, or looked at by the operator, whom the log names beside the owner."""
    owner = list_of(visitor, given["user"])
    wanted = [given["state"]] if given.get("state") in LISTED else list(LISTED)
    columns = [await _list_column(visitor, owner, state, given.get("cursor")) for state in wanted]
    title = "Your list" if owner == visitor.name else f"List of {owner}"
    seen = {"kind": "list", "board": owner, "title": title, "epic": None, "columns": columns, "deleted": []}
    return {
        "seen": seen,
        "run": None,
        "text": "",
        "state": given.get("state", ""),
        "act": f"/lists/{quote(owner)}/move",
    }


async def _list_column(visitor: Visitor, owner: str, state: str, cursor: str | None) -> Json:
    name, move = LISTED[state]
    seen = await visitor.ask("show_list", toolset="personal", claim=owner, filter=name, limit=50, cursor=cursor)
    tasks = [
        {
            **task,
            "number": task["id"],
            "id": f"#{task['id']}",
            "kind": "list",
            "assignee": None,
            "waitsFor": 0,
            "attempts": 0,
        }
        for task in seen["tasks"]
    ]
    more = {"nextCursor": seen["nextCursor"]} if "nextCursor" in seen else {}
    return {
        "state": state,
        "count": seen["count"],
        "counted": True,
        "searched": None,
        "moves": [move],
        "tasks": tasks,
        **more,
    }


def list_of(visitor: Visitor, owner: str) -> str:
    """Whose list is meant, for those who may see it; for everybody else there is no such list."""
    if visitor.rights != OPERATOR and owner != visitor.name:
        raise NotFound("There is no such list", hint="A list is seen by its owner")
    return owner


async def task(visitor: Visitor, given: Given) -> Json:
    """One task with all around it."""
    kind, here = given.get("kind", "epic"), given.get("board", "")
    seen = await visitor.ask("task_show", number=_number(given["number"]), kind=kind, board=here)
    agents = (await visitor.ask("people_agents", limit=200))["agents"]
    for each in (seen, *seen["blockers"], *seen["dependents"]):
        each["href"] = task_path(each)
    return {"task": seen, "agents": [agent["id"] for agent in agents if agent["retiredAt"] is None]}


async def log(visitor: Visitor, given: Given) -> Json:
    """The log as a timeline."""
    filters = {name: given[name] for name in LOG_FILTERS if given.get(name)}
    seen = await visitor.ask("log_search", **log_input(given))
    return {"seen": seen, "filters": filters, "outcomes": OUTCOMES, "cursor": given.get("cursor")}


async def call(visitor: Visitor, given: Given) -> Json:
    """One call from its input to what followed."""
    return {"call": await visitor.ask("log_call", reference=given["reference"])}


async def figures(visitor: Visitor, given: Given) -> Json:
    """What calls cost, and how the store and the dispatcher are."""
    seen, dead = await asyncio.gather(visitor.ask("metrics"), visitor.ask("dead_letters", cursor=given.get("cursor")))
    tools = [tool for tool in seen["tools"] if tool["toolset"] != "desk" or given.get("desk")]
    return {
        "seen": seen,
        "tools": tools,
        "top": max((tool["p99Ms"] or 0 for tool in tools), default=1),
        "minutes": [(each["at"][11:16], each["calls"], each["failed"]) for each in seen["perMinute"]],
        "latency": [(_edge(step["toMs"], "ms"), step["calls"]) for step in seen["latency"] if step["calls"]],
        "batches": [(_edge(step["to"], ""), step["commits"]) for step in seen["batches"] if step["commits"]],
        "dead": dead,
    }


async def context(visitor: Visitor, given: Given) -> Json:
    """The project's memory: a search over everything, or how it is."""
    asked = given.get("q", "").strip()[:500]
    if not asked:
        return {"q": "", "found": None, "problem": None, "seen": await visitor.ask("memory_show")}
    answer = await visitor.answer("memory_search", {"query": asked})
    if answer.error is None:
        return {"q": asked, "found": answer.body, "problem": None, "seen": None, "still": True}
    return {"q": asked, "found": None, "problem": answer.body["error"], "seen": await visitor.ask("memory_show")}


async def people(visitor: Visitor, given: Given) -> Json:
    """Agents, users and their keys."""
    agents, users, tokens = await asyncio.gather(
        visitor.ask("people_agents", cursor=given.get("agents")),
        visitor.ask("people_users", cursor=given.get("users")),
        visitor.ask("people_tokens", cursor=given.get("tokens")),
    )
    return {"agents": agents, "users": users, "tokens": tokens}


def log_input(given: Given) -> dict[str, Any]:
    """The filters of a page as the tool takes them."""
    wanted: dict[str, Any] = {name: given.get(name) for name in (*LOG_FILTERS, "cursor") if given.get(name)}
    if "task" in wanted:
        digits = wanted["task"].removeprefix("task-")
        wanted["task"] = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 2**62
    if "desk" in wanted:
        wanted["desk"] = True
    return wanted


def badge(seen: Json) -> str:
    """How much waits, beside the word Inbox; nothing when nothing does."""
    return f"{seen['waiting']}{'+' if seen['moreWaiting'] else ''}" if seen["waiting"] else ""


def task_path(task: Json) -> str:
    """Where a task has its page."""
    return f"/boards/loop/{task['board']}/{task['number']}" if task["kind"] == "loop" else f"/tasks/{task['number']}"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise NotFound(f"Task {text[:40]} not found")
    return int(text)


def _edge(edge: float | None, unit: str) -> str:
    return "more" if edge is None else f"≤ {edge:g} {unit}".strip()


VIEWS = (
    View("/floor", "desk/floor.html", floor, ("agent", "task", "epic", "run", "escalation", "mail:human", "calls", "outbox:dead")),
    View("/inbox", "desk/inbox.html", inbox, ("mail:human", "question", "run", "escalation")),
    View("/inbox/{mail}", "desk/letter.html", letter),
    View("/boards", "desk/boards.html", boards, ("task", "epic", "run")),
    View("/boards/{kind:kind}/{board}", "desk/board.html", board, ("task", "epic", "run")),
    View("/boards/{kind:kind}/{board}/{number:int}", "desk/task.html", task, ("run", "task")),
    View("/lists/{user}", "desk/board.html", own_list, ("todo",), own=True),
    View("/tasks/{number:int}", "desk/task.html", task, ("task",)),
    View("/log", "desk/log.html", log, ("calls", "log")),
    View("/log/{reference}", "desk/call.html", call),
    View("/context", "desk/context.html", context, ("index", "discovery"), 3.0),
    View("/figures", "desk/figures.html", figures, ("calls", "outbox"), 5.0),
    View("/people", "desk/people.html", people, ("token", "agent")),
)  # fmt: skip
