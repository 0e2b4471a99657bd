"""The overview page."""

from __future__ import annotations

import asyncio

from shopfloor.toolkit import Json
from shopfloor.web.views.inbox import ANSWERS, find_further_text, parse_permission, summarize_mail, summarize_request
from shopfloor.web.views.view import LOCAL, Given, thing_path, to_bars
from shopfloor.web.visitor import Visitor, format_badge

MAX_NEEDS = 5
# How much of the inbox is read to find the questions in it.
MAX_INBOX = 50
MAX_EPICS = 8
MAX_RUNS = 6


async def load_home(visitor: Visitor, _: Given) -> Json:
    """Load what needs a person, epics with their progress, agents, runs, problems and recent activity."""
    seen, inbox, epics = await asyncio.gather(
        visitor.ask("floor_overview"),
        visitor.ask("inbox_list", limit=MAX_INBOX),
        visitor.ask("board_epics", limit=MAX_EPICS),
    )
    # The first tasks often belong to no epic. Later, the epics say what matters.
    first: list[Json] = []
    tasks: list[Json] = []
    if not epics["epics"]:
        pages = await asyncio.gather(
            visitor.ask("task_list", limit=MAX_EPICS), visitor.ask("task_list", limit=MAX_EPICS, includeClosed=True)
        )
        tasks, first = (page["tasks"] for page in pages)
    minutes = seen["callsPerMinute"]
    for sentence in seen["activity"]:
        # The page of a decision is that of the call that logged it.
        id = sentence["reference"] if sentence["kind"] == "call" else sentence["id"]
        sentence["href"] = thing_path(sentence["kind"], id) if id else None
    needs = [_to_request(each) for each in inbox["requests"]] + [_to_mail(each) for each in inbox["mails"]]
    # Items that hold up an agent come before those that only need to be seen.
    needs.sort(key=lambda need: need["tool"] is None)
    agents = [agent for agent in seen["agents"] if agent["id"] != LOCAL]
    return {
        "seen": seen,
        "needs": needs[:MAX_NEEDS],
        "more_needs": max(0, seen["waiting"] - MAX_NEEDS),
        "answers": ANSWERS,
        "epics": epics["epics"],
        "tasks": tasks,
        "runs": select_runs(seen["runs"]),
        "steps": None if epics["epics"] or seen["runs"] or seen["crews"] else list_first_steps(seen, agents, first),
        "servers": sum(process["kind"] == "serve" for process in seen["processes"]),
        # A chart without data is just a line.
        "minutes": to_bars(minutes) if any(minute["calls"] for minute in minutes) else None,
        "now": minutes[-1]["calls"] + minutes[-2]["calls"],
        "badge": format_badge(seen),
    }


def list_first_steps(seen: Json, agents: list[Json], tasks: list[Json]) -> dict[str, bool] | None:
    """Return the first steps of a new workspace and whether each is done, or None once an agent works."""
    names = {agent["id"] for agent in agents}
    # An agent that has only joined is not at work yet: that sentence names no other thing.
    is_at_work = any(each["who"] in names and each["kind"] is not None for each in seen["activity"])
    if is_at_work or any(task["state"] != "PENDING" for task in tasks if names):
        return None
    return {"connect": bool(names), "job": bool(tasks), "watch": False}


def select_runs(runs: list[Json]) -> list[Json]:
    """Return the unfinished runs, then the latest of the others."""
    return sorted(runs, key=lambda run: run["status"] == "completed")[:MAX_RUNS]


def _to_request(request: Json) -> Json:
    """Return a run's request with the data for its form. A permission cannot be answered in free text."""
    permission = parse_permission(request)
    return {
        **summarize_request(request),
        "permission": permission,
        "excerpt": "" if permission else request["question"].partition("\n")[2],
        "tool": "inbox_decide",
        "values": {"request": request["request"]},
        "options": request["options"],
        "words": not request["options"],
    }


def _to_mail(mail: Json) -> Json:
    question = mail.get("question", {"state": "NONE"})
    is_open = question["state"] == "OPEN"
    return {
        **summarize_mail(mail),
        "permission": None,
        "excerpt": find_further_text(mail["subject"], mail["body"]),
        "tool": "inbox_answer" if is_open else None,
        "values": {"mailId": mail["id"]},
        "options": question["options"] if is_open else [],
        "words": is_open,
    }
