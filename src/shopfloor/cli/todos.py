"""shopfloor todo list|add|change|done|reopen|delete|deleted|restore"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, command, create_app, open_shopfloor
from shopfloor.cli.output import format_age, format_table, print_result, to_printable
from shopfloor.settings import Settings

app = create_app("Manage the todo list of a user.")

As = Annotated[str | None, typer.Option("--as", help="User whose list it is; by default local.")]
Number = Annotated[int, typer.Argument(help="Id of the task.")]
Description = Annotated[str | None, typer.Option("--description", help="Description.")]
Priority = Annotated[
    int | None, typer.Option("--priority", help="Priority, from 0 (critical) to 4 (backlog); 2 for a new task.")
]
Due = Annotated[str | None, typer.Option("--due", help="Due date, such as 2026-03-01T09:00, with an offset or --zone.")]
Zone = Annotated[str | None, typer.Option("--zone", help="Time zone of --due, such as Europe/Berlin.")]
Filter = Annotated[str, typer.Option("--filter", help="Show all, active or completed tasks.")]


@command(app, "list", read_only=True)
def list_tasks(settings: Settings, filter: Filter = "all", caller: As = None, as_json: AsJson = False) -> None:
    """List the tasks, newest first."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        answer = _call_list_tool(settings, "show_list", caller, filter=filter, cursor=cursor)
        rows += answer["tasks"]
        cursor = answer.get("nextCursor")
        if cursor is None:
            break
    lines = [
        {
            "id": row["id"],
            "state": "done" if row["completed"] else "open",
            "priority": row["priority"],
            "due": None if row["dueAt"] is None else format_age(row["dueAt"]),
            "title": row["title"],
        }
        for row in rows
    ]
    empty = f"Nothing here yet: shopfloor todo add TITLE{_format_as(caller)}"
    print_result(rows, as_json, format_table(lines, empty, optional=("due", "priority")))


@command(app, "add")
def add_task(
    settings: Settings,
    title: Annotated[str, typer.Argument(help="Title.")],
    description: Description = None,
    priority: Priority = None,
    due: Due = None,
    zone: Zone = None,
    caller: As = None,
    as_json: AsJson = False,
) -> None:
    """Add a task."""
    given = {"title": title, "description": description, "priority": priority, "dueAt": due, "dueZone": zone}
    _print_task(_call_list_tool(settings, "add", caller, **given), as_json, "added")


@command(app, "change")
def change_task(
    settings: Settings,
    number: Number,
    title: Annotated[str | None, typer.Option("--title", help="New title.")] = None,
    description: Description = None,
    priority: Priority = None,
    due: Due = None,
    zone: Zone = None,
    caller: As = None,
    as_json: AsJson = False,
) -> None:
    """Change a task. An empty --due removes the due date."""
    given = {"title": title, "description": description, "priority": priority, "dueAt": due, "dueZone": zone}
    _print_task(_call_list_tool(settings, "change", caller, taskId=number, **given), as_json, "changed")


@command(app, "done")
def complete_task(settings: Settings, number: Number, caller: As = None, as_json: AsJson = False) -> None:
    """Complete a task."""
    _print_task(_call_list_tool(settings, "complete", caller, taskId=number), as_json, "completed")


@command(app, "reopen")
def reopen_task(settings: Settings, number: Number, caller: As = None, as_json: AsJson = False) -> None:
    """Reopen a completed task."""
    _print_task(_call_list_tool(settings, "reopen", caller, taskId=number), as_json, "reopened")


@command(app, "delete")
def delete_task(settings: Settings, number: Number, caller: As = None, as_json: AsJson = False) -> None:
    """Delete a task. It can be restored for 30 days."""
    undo = f"Undo: shopfloor todo restore {number}{_format_as(caller)}"
    _print_task(_call_list_tool(settings, "delete", caller, taskId=number), as_json, "deleted", undo)


@command(app, "deleted", read_only=True)
def list_deleted(settings: Settings, caller: As = None, as_json: AsJson = False) -> None:
    """List the deleted tasks that can be restored."""
    rows = _call_list_tool(settings, "show_deleted", caller)["tasks"]
    lines = [{"id": row["id"], "title": row["title"], "until": format_age(row["gone"])} for row in rows]
    print_result(rows, as_json, format_table(lines, "Nothing was deleted in the last 30 days."))


@command(app, "restore")
def restore_task(settings: Settings, number: Number, caller: As = None, as_json: AsJson = False) -> None:
    """Restore a deleted task."""
    _print_task(_call_list_tool(settings, "restore", caller, taskId=number), as_json, "restored")


def _format_as(caller: str | None) -> str:
    """Return the option that a command on the same list needs, or an empty text."""
    return "" if caller is None else f" --as {caller}"


def _call_list_tool(settings: Settings, tool: str, caller: str | None, **given: Any) -> dict[str, Any]:
    with open_shopfloor(settings) as shopfloor:
        answer = shopfloor.answer(
            "personal", tool, {k: v for k, v in given.items() if v is not None}, caller, transport="cli"
        )
    if answer.error is not None:
        raise answer.error
    body: dict[str, Any] = answer.body
    return body


def _print_task(answer: dict[str, Any], as_json: bool, what: str, hint: str | None = None) -> None:
    task = answer["task"]
    text = f"{task['id']} {what}: {to_printable(task['title'])}"
    print_result(task, as_json, text if hint is None else f"{text}\n  {hint}")
