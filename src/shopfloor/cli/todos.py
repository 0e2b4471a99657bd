"""shopfloor todo list|add|change|done|reopen|delete|deleted|restore"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, command, opened, show, table
from shopfloor.settings import Settings

app = typer.Typer(help="Todo lists: one user's own list.", no_args_is_help=True)

As = Annotated[str | None, typer.Option("--as", help="Whose list; by default that of local.")]
Number = Annotated[int, typer.Argument(help="The task's id.")]
Description = Annotated[str | None, typer.Option("--description", help="More words on it.")]
Priority = Annotated[int | None, typer.Option("--priority", help="0 critical to 4 backlog; 2 unless said otherwise.")]
Due = Annotated[str | None, typer.Option("--due", help="When it is due: 2026-03-01T09:00, with an offset or --zone.")]
Zone = Annotated[str | None, typer.Option("--zone", help="The zone that --due is meant in, like Europe/Berlin.")]
Filter = Annotated[str, typer.Option("--filter", help="all, active or completed.")]


@command(app, "list")
def list_tasks(settings: Settings, filter: Filter = "all", caller: As = None, as_json: AsJson = False) -> None:
    """List the tasks, newest first."""
    rows: list[dict[str, Any]] = []
    more: dict[str, Any] = {}
    while not rows or "cursor" in more:
        answer = _call(settings, "show_list", caller, filter=filter, **more)
        rows += answer["tasks"]
        more = {"cursor": answer["nextCursor"]} if "nextCursor" in answer else {}
        if not more:
            break
    show(rows, as_json, table([_line(row) for row in rows], "Nothing here yet: shopfloor todo add TITLE"))


@command(app, "add")
def add(
    settings: Settings,
    title: Annotated[str, typer.Argument(help="What there is to do.")],
    description: Description = None,
    priority: Priority = None,
    due: Due = None,
    zone: Zone = None,
    caller: As = None,
    as_json: AsJson = False,
) -> None:
    """Put a task on the list."""
    given = {"title": title, "description": description, "priority": priority, "dueAt": due, "dueZone": zone}
    _tell(_call(settings, "add", caller, **given), as_json, "is on the list")


@command(app, "change")
def change(
    settings: Settings,
    number: Number,
    title: Annotated[str | None, typer.Option("--title", help="Other words for it.")] = None,
    description: Description = None,
    priority: Priority = None,
    due: Due = None,
    zone: Zone = None,
    caller: As = None,
    as_json: AsJson = False,
) -> None:
    """Change what is given; an empty --due takes the date away."""
    given = {"title": title, "description": description, "priority": priority, "dueAt": due, "dueZone": zone}
    _tell(_call(settings, "change", caller, taskId=number, **given), as_json, "is changed")


@command(app, "done")
def done(settings: Settings, number: Number, caller: As = None, as_json: AsJson = False) -> None:
    """Tick a task off."""
    _tell(_call(settings, "complete", caller, taskId=number), as_json, "is done")


@command(app, "reopen")
def reopen(settings: Settings, number: Number, caller: As = None, as_json: AsJson = False) -> None:
    """Take a finished task up again."""
    _tell(_call(settings, "reopen", caller, taskId=number), as_json, "is open again")


@command(app, "delete")
def delete(settings: Settings, number: Number, caller: As = None, as_json: AsJson = False) -> None:
    """Take a task off the list; it can be restored for 30 days."""
    _tell(
        _call(settings, "delete", caller, taskId=number), as_json, f"is deleted; undo: shopfloor todo restore {number}"
    )


@command(app, "deleted")
def deleted(settings: Settings, caller: As = None, as_json: AsJson = False) -> None:
    """List what can still be restored."""
    rows = _call(settings, "show_deleted", caller)["tasks"]
    lines = [{"id": row["id"], "title": row["title"], "until": row["gone"]} for row in rows]
    show(rows, as_json, table(lines, "Nothing was deleted in the last 30 days."))


@command(app, "restore")
def restore(settings: Settings, number: Number, caller: As = None, as_json: AsJson = False) -> None:
    """Put a deleted task back on the list."""
    _tell(_call(settings, "restore", caller, taskId=number), as_json, "is back on the list")


def _call(settings: Settings, tool: str, caller: str | None, **given: Any) -> dict[str, Any]:
    with opened(settings) as shopfloor:
        answer = shopfloor.answer(
            "personal", tool, {k: v for k, v in given.items() if v is not None}, caller, door="cli"
        )
    if answer.error is not None:
        raise answer.error
    body: dict[str, Any] = answer.body
    return body


def _tell(answer: dict[str, Any], as_json: bool, what: str) -> None:
    task = answer["task"]
    show(task, as_json, f"{task['id']}  {task['title']}  {what}")


def _line(row: dict[str, Any]) -> dict[str, Any]:
    mark = "done" if row["completed"] else "open"
    return {"id": row["id"], "state": mark, "priority": row["priority"], "due": row["dueAt"], "title": row["title"]}
