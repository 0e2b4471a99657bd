"""shopfloor task add|list|show|assign|done"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shopfloor.cli.ids import TaskId, parse_id
from shopfloor.cli.options import AsJson, call_desk, command, create_app, open_shopfloor
from shopfloor.cli.output import (
    format_age,
    format_count,
    format_table,
    paint,
    paint_state,
    print_result,
    shorten_line,
    to_printable,
    to_printable_lines,
)
from shopfloor.settings import Settings

_TITLE_WIDTH = 30
"""Columns of a title that are worth more than further columns on a narrow terminal."""

app = create_app("Add, list, show, assign and complete tasks.")

Epic = Annotated[str | None, typer.Option("--epic", "-e", help="Epic, such as epic-1.")]
Assignee = Annotated[str | None, typer.Option("--assignee", "-a", help="Show only tasks of this agent.")]
Agent = Annotated[str, typer.Argument(help="Name of the agent.")]
Priority = Annotated[
    int | None,
    typer.Option("--priority", "-p", help="Priority, from 0 (critical) to 4 (backlog); 2 by default."),
]


@command(app, "add")
def add_task(
    settings: Settings,
    title: Annotated[str, typer.Argument(help="Title of the task.")],
    description: Annotated[str, typer.Option("--description", "-d", help="Description, in Markdown.")] = "",
    epic: Epic = None,
    priority: Priority = None,
    blocked_by: Annotated[list[str] | None, typer.Option("--blocked-by", help="Task that must be done first.")] = None,
    assign: Annotated[
        str | None, typer.Option("--assign", "-a", help="Agent that gets the task, and mail about it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a task. The next free agent claims it, unless it is assigned."""
    given: dict[str, Any] = {
        "title": title,
        "description": description,
        "epic": None if epic is None else parse_id("epic", epic),
        "priority": priority,
        "dependsOn": [parse_id("task", each) for each in blocked_by] if blocked_by else None,
        "assignee": assign,
    }
    with open_shopfloor(settings) as shopfloor:
        task = call_desk(shopfloor, "task_create", **given)
    print_result(task, as_json, _format_change(task, "added" if assign is None else f"added and assigned to {assign}"))


@command(app, "list", read_only=True)
def list_tasks(
    settings: Settings,
    epic: Epic = None,
    state: Annotated[str | None, typer.Option("--state", "-s", help="Show only tasks in this state.")] = None,
    assignee: Assignee = None,
    everything: Annotated[bool, typer.Option("--all", help="Include completed and cancelled tasks.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of tasks.", min=1, max=200)] = 50,
    as_json: AsJson = False,
) -> None:
    """List the open tasks, by number."""
    given: dict[str, Any] = {
        "epic": None if epic is None else parse_id("epic", epic),
        "state": None if state is None else state.strip().upper().replace("-", "_").replace(" ", "_"),
        "assignee": assignee,
        "includeClosed": everything,
        "limit": limit,
    }
    with open_shopfloor(settings) as shopfloor:
        page = call_desk(shopfloor, "task_list", **given)
    more = f"\nThere are more: shopfloor task list --limit {min(limit * 2, 200)}" if "nextCursor" in page else ""
    narrowed = epic or state or assignee
    empty = "No matching tasks." if narrowed else "There are no open tasks: shopfloor task add TITLE"
    print_result(page["tasks"], as_json, format_tasks(page["tasks"], empty) + more)


@command(app, "show", read_only=True)
def show_task(settings: Settings, task: TaskId, as_json: AsJson = False) -> None:
    """Show a task with its dependencies and comments."""
    with open_shopfloor(settings) as shopfloor:
        found = call_desk(shopfloor, "task_show", number=parse_id("task", task))
    print_result(found, as_json, format_task(found))


@command(app, "assign")
def assign_task(settings: Settings, task: TaskId, agent: Agent, as_json: AsJson = False) -> None:
    """Assign a task to an agent, which gets mail. The previous assignee loses it."""
    with open_shopfloor(settings) as shopfloor:
        assigned = call_desk(shopfloor, "task_assign", number=parse_id("task", task), agentId=agent)
    print_result(assigned, as_json, _format_change(assigned, f"assigned to {agent}"))


@command(app, "done")
def complete_task(
    settings: Settings,
    task: TaskId,
    comment: Annotated[str | None, typer.Option("--comment", "-c", help="Comment on the task.")] = None,
    as_json: AsJson = False,
) -> None:
    """Complete a task, from any open state."""
    with open_shopfloor(settings) as shopfloor:
        completed = call_desk(shopfloor, "task_complete", number=parse_id("task", task), comment=comment)
    print_result(completed, as_json, _format_change(completed, "completed"))


def format_tasks(tasks: list[dict[str, Any]], empty: str) -> str:
    """Format tasks as a table."""
    rows = [
        {
            "id": task["id"],
            "state": format_state(task["state"]),
            "priority": task["priority"],
            "title": task["title"],
            "assignee": task["assignee"],
            "epic": f"epic-{task['board']}" if task["board"] else None,
            "blocked by": format_count(task["waitsFor"], "task") if task["waitsFor"] else None,
            "updated": format_age(task["updatedAt"]),
        }
        for task in tasks
    ]
    optional = ("assignee", "updated", "priority", "epic", "blocked by")
    return format_table(rows, empty, optional=optional, readable=_TITLE_WIDTH)


def format_task(task: dict[str, Any]) -> str:
    """Format one task with its description, dependencies and comments."""
    facts = [paint_state(format_state(task["state"])), f"priority {task['priority']}", f"version {task['version']}"]
    facts += [f"assigned to {task['assignee']}"] if task["assignee"] else []
    facts += [f"epic-{task['board']}"] if task["board"] and task["kind"] == "epic" else []
    lines = [f"{paint(task['id'], 'bold')}  {paint(to_printable(task['title']), 'bold')}", " · ".join(facts)]
    if task["description"]:
        lines += ["", to_printable_lines(task["description"])]
    for what, others in (("blocked by", task["blockers"]), ("blocks", task["dependents"])):
        if others:
            lines.append("")
        for other in others:
            title = to_printable(other["title"])
            lines.append(shorten_line(f"{what} {other['id']} ({format_state(other['state'])}) {title}"))
    for comment in task["comments"]:
        lines += ["", paint(f"{comment['author']}, {format_age(comment['createdAt'])}:", "dim")]
        lines += [f"  {line}" for line in to_printable_lines(comment["body"]).split("\n")]
    return "\n".join(lines)


def format_state(state: str) -> str:
    """Return a state of a task or an epic in words."""
    return state.lower().replace("_", " ")


def _format_change(task: dict[str, Any], what: str) -> str:
    return f"{paint(task['id'], 'bold')} {what}: {to_printable(task['title'])}"
