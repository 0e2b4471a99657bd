"""Epics, boards and tasks."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from shopfloor.errors import NotFound
from shopfloor.toolkit import Json
from shopfloor.web.views.view import LOCAL, Given, list_active_agents, parse_number, task_path
from shopfloor.web.visitor import OPERATOR, Visitor

# The states of a user's list: the filter for the list's own tools, and the state that a task can move to.
LIST_STATES = {"PENDING": ("active", "COMPLETED"), "COMPLETED": ("completed", "PENDING")}

MOVE_ACTION = "/act/task_move"
# The effect of a tool on a task: in the past tense, and as the infinitive for a failure. Comments have their own
# entries.
STEPS = {
    "create": ("created it", "create it"),
    "claim": ("claimed it", "claim it"),
    "move": ("moved it", "move it"),
    "update_status": ("moved it", "move it"),
    "assign": ("assigned it", "assign it"),
    "edit": ("edited it", "edit it"),
    "update": ("edited it", "edit it"),
    "complete": ("completed it", "complete it"),
    "tasks_change": ("changed it", "change it"),
    "delete": ("deleted it", "delete it"),
    "restore": ("restored it", "restore it"),
    "set_acceptance": ("set its acceptance command", "set its acceptance command"),
}
PRIORITIES = ("critical", "high", "normal", "low", "backlog")
VIEW_NAMES = ("board", "list", "graph")
# The order of groups in a list of all tasks: states in which a person can act come first.
GROUP_STATES = ("REVIEW", "BLOCKED", "FAILED", "IN_PROGRESS", "ASSIGNED", "PENDING")


async def load_epics(visitor: Visitor, given: Given) -> Json:
    """Load the epics, or with `view=all` the open tasks of all of them."""
    view = "all" if given.get("view") == "all" else "epics"
    epics = await visitor.ask("board_epics", cursor=given.get("epics"))
    # The operator sees every user's list; a user sees only their own.
    users: list[Json] = [] if visitor.rights == OPERATOR else [{"id": visitor.name, "removedAt": None}]
    tasks: Json = {"groups": {}}
    if view == "all":
        tasks = await visitor.ask("task_list", limit=200, cursor=given.get("cursor"))
        words = given.get("text", "").lower().split()
        # The same text as `data-words` of a card, which tasks.js filters while the visitor types.
        shown = [
            task
            for task in tasks["tasks"]
            if all(word in f"{task['id']} {task['title']} {task['assignee'] or ''}".lower() for word in words)
        ]
        tasks = {**tasks, "groups": group_tasks(shown)}
    elif visitor.rights == OPERATOR:
        users = (await visitor.ask("user_list"))["users"]
    return {
        "view": view,
        "epics": epics,
        "users": users,
        # A user sees the own list only, by name; the operator's is that of the built-in user.
        "own_list": LOCAL if visitor.rights == OPERATOR else None,
        "tasks": tasks,
        "loose": bool((await visitor.ask("task_list", limit=1))["tasks"]),
        "text": given.get("text", ""),
        **await _load_choices(visitor, epics["epics"]),
    }


def group_tasks(tasks: list[Json]) -> dict[str, list[Json]]:
    """Return the tasks by state, most urgent first."""
    ordered = sorted(tasks, key=lambda task: (task["priority"], task["number"]))
    groups = {state: [task for task in ordered if task["state"] == state] for state in GROUP_STATES}
    return {state: group for state, group in groups.items() if group}


async def load_board(visitor: Visitor, given: Given) -> Json:
    """Load the board of an epic: its tasks by state, as columns, as a list, or as a graph."""
    name = "" if given["board"] == "none" else given["board"]
    view = given.get("view", "board")
    view = view if view in VIEW_NAMES else "board"
    seen, epics = await asyncio.gather(
        visitor.ask(
            "board_show",
            kind="epic",
            board=name,
            state=given.get("state"),
            text=given.get("text"),
            cursor=given.get("cursor"),
        ),
        visitor.ask("board_epics"),
    )
    graph = await visitor.ask("board_graph", kind="epic", board=name) if view == "graph" else {"tasks": []}
    for task in graph["tasks"]:
        task["href"] = task_path(task)
    progress = await visitor.ask("epic_progress", number=int(name)) if name and view != "graph" else {"points": []}
    return {
        "seen": seen,
        "view": view,
        "graph": graph,
        # A line needs two points.
        "progress": progress["points"] if len(progress["points"]) > 1 else [],
        "open_epics": _list_open(epics["epics"]),
        "text": given.get("text", ""),
        "state": given.get("state", ""),
        "move_action": MOVE_ACTION,
    }


async def _load_choices(visitor: Visitor, epics: list[Json]) -> Json:
    """Load the choices of the form for a new task."""
    return {"open_epics": _list_open(epics), "assignees": await list_active_agents(visitor)}


def _list_open(epics: list[Json]) -> list[Json]:
    return [epic for epic in epics if epic["state"] not in ("COMPLETED", "CANCELLED")]


async def load_list(visitor: Visitor, given: Given) -> Json:
    """Load a user's list as a board. Only its owner and the operator see it; the log names both."""
    owner = check_list_owner(visitor, given["user"])
    states = [given["state"]] if given.get("state") in LIST_STATES else list(LIST_STATES)
    columns = []
    for state in states:
        name, move = LIST_STATES[state]
        cursor = given.get("cursor")
        page = await visitor.ask("show_list", toolset="personal", claim=owner, filter=name, limit=50, cursor=cursor)
        # The template for boards shows it, so it has the fields of a column, and its tasks look like those of
        # `board_show`.
        unused = {
            "kind": "list", "assignee": None, "waitsFor": 0, "attempts": 0, "moves": [move], "canComplete": False,
            "canAssign": False, "commentCount": 0, "branchName": None, "prUrl": None, "heldSince": None, "state": state,
        }  # fmt: skip
        column: Json = {
            "state": state,
            "count": page["count"],
            "counted": True,
            "searched": None,
            "tasks": [{**task, **unused, "number": task["id"], "id": f"#{task['id']}"} for task in page["tasks"]],
        }
        if "nextCursor" in page:
            column["nextCursor"] = page["nextCursor"]
        columns.append(column)
    return {
        "seen": {
            "kind": "list",
            "board": owner,
            "title": "Your list" if owner == visitor.name else f"List of {owner}",
            "epic": None,
            "columns": columns,
            "deleted": [],
            "assignees": [],
        },
        "view": "board",
        "graph": {"tasks": []},
        "progress": [],
        "open_epics": [],
        "text": "",
        "state": given.get("state", ""),
        "move_action": f"/lists/{quote(owner)}/move",
    }


def check_list_owner(visitor: Visitor, owner: str) -> str:
    """Return the owner if the visitor may see that list; for everyone else, the list does not exist."""
    if visitor.rights != OPERATOR and owner != visitor.name:
        raise NotFound("List not found", hint="A list is visible to its owner")
    return owner


async def load_task(visitor: Visitor, given: Given) -> Json:
    """Load a task with its properties, dependencies, and one stream of comments and history."""
    kind, board = given.get("kind", "epic"), given.get("board", "")
    number = parse_number(given["number"])
    if not number:
        raise NotFound(f"Task {given['number'][:40]} not found")
    task = await visitor.ask("task_show", number=number, kind=kind, board=board)
    for each in (task, *task["blockers"], *task["dependents"]):
        each["href"] = task_path(each)
    states = [*task["moves"]]
    if task["canComplete"] and "COMPLETED" not in states:
        states.append("COMPLETED")
    states.sort(key=("FAILED", "CANCELLED").__contains__)
    has_work = kind == "epic" and (task["branchName"] or task["attempts"])
    changes = await visitor.ask("task_changes", number=number) if has_work else None
    return {"task": task, "states": states, "stream": merge_stream(task), "changes": changes}


def merge_stream(task: Json) -> list[Json]:
    """Merge comments and history of a task into one list, oldest first."""
    comments = [{"kind": "comment", "at": comment["createdAt"], **comment} for comment in task["comments"]]
    steps = [
        {"kind": "step", "at": entry["at"], "author": entry["agent"], "by": entry["by"], "text": text, **_link(entry)}
        for entry in task["history"]
        if (text := describe_step(entry)) is not None
    ]
    return sorted([*comments, *steps], key=lambda each: str(each["at"]))


def _link(entry: Json) -> Json:
    return {"reference": entry["reference"], "failed": entry["outcome"] not in ("ok", "recovery", "decision")}


def describe_step(entry: Json) -> str | None:
    """Describe what a logged call did to a task, as the rest of a sentence after its caller, or return None."""
    tool = entry["tool"].rpartition("__")[2].removeprefix("task_")
    if entry["kind"] == "recovery":
        return f"returned it to the queue: {entry['summary']}"
    if entry["kind"] == "manual":
        return f"decided: {entry['summary']}"
    if entry["outcome"] not in ("ok", "open"):
        return f"could not {STEPS[tool][1]}: {entry['summary']}" if tool in STEPS else None
    given = entry["input"] if isinstance(entry.get("input"), dict) else {}
    match tool:
        case "move" | "update_status" if "state" in given:
            return f"moved it to {str(given['state']).lower().replace('_', ' ')}"
        case "assign" if "agentId" in given:
            return f"assigned it to {given['agentId']}"
        case "edit" | "update":
            return describe_edit(given)
        case "tasks_change":
            changes = [
                f"{name} {str(given[name]).lower()}" for name in ("state", "assignee", "priority") if name in given
            ]
            return f"set {', '.join(changes)}" if changes else "changed it"
        case _ if tool in STEPS:
            return STEPS[tool][0]
    return None


def describe_edit(given: Json) -> str:
    """Describe what an edit changed."""
    if isinstance(given.get("priority"), int) and len(given) == 2:
        return f"set the priority to {PRIORITIES[given['priority']]}"
    for name, words in (("addDependsOn", "made it wait for"), ("removeDependsOn", "no longer lets it wait for")):
        if isinstance(given.get(name), list):
            return f"{words} {', '.join(f'task-{number}' for number in given[name])}"
    return "edited it"
