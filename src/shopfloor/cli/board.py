"""shopfloor board"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shopfloor.cli.epics import format_progress
from shopfloor.cli.ids import parse_id
from shopfloor.cli.options import AsJson, Follow, call_desk, command, create_app, open_shopfloor, poll_changes
from shopfloor.cli.output import (
    format_iterations,
    format_table,
    paint,
    paint_state,
    print_result,
    shorten_line,
    to_printable,
)
from shopfloor.cli.tasks import format_state, format_task
from shopfloor.errors import InvalidInput, NotFound
from shopfloor.settings import Settings

Name = Annotated[
    str | None,
    typer.Argument(
        help="An epic (epic-1), none (tasks without an epic), the name of a run, or a task (task-3); by default all boards."
    ),
]
Title = Annotated[str | None, typer.Option("--title", help="New title of the task.")]
Description = Annotated[
    str | None, typer.Option("--description", help="New description of the task; an empty text removes it.")
]
Priority = Annotated[int | None, typer.Option("--priority", help="New priority, from 0 (critical) to 4 (backlog).")]
Blockers = Annotated[list[str] | None, typer.Option("--blocked-by", "--after", help="Add a blocker of the task.")]
FormerBlockers = Annotated[
    list[str] | None, typer.Option("--remove-blocker", "--not-after", help="Remove a blocker of the task.")
]
Version = Annotated[
    int | None, typer.Option("--version", help="Reject the change if the task is no longer at this version.")
]
State = Annotated[str | None, typer.Option("--state", help="Move the task or the epic to this state.")]
Text = Annotated[
    str | None, typer.Option("--text", help="Show only tasks with this text in number, title or assignee.")
]


app = create_app()


@command(app, "board", read_only=True)
def show_board(
    settings: Settings,
    name: Name = None,
    title: Title = None,
    description: Description = None,
    priority: Priority = None,
    blocked_by: Blockers = None,
    remove_blocker: FormerBlockers = None,
    version: Version = None,
    state: State = None,
    text: Text = None,
    as_json: AsJson = False,
    follow: Follow = False,
) -> None:
    """Show all boards, one board or one task. With options, change the task or the epic first."""
    words = {"title": title, "description": description, "priority": priority, "version": version}
    edits = {**words, "addDependsOn": _parse_numbers(blocked_by), "removeDependsOn": _parse_numbers(remove_blocker)}
    changes = {field: value for field, value in edits.items() if value is not None}
    with open_shopfloor(settings) as shopfloor:
        _apply_changes(shopfloor, name or "", changes, state)
        for seen in poll_changes(follow, lambda: _read_board(shopfloor, name, text)):
            print_result(
                seen,
                as_json,
                format_task(seen) if "blockers" in seen else _format_board(seen) if name else _format_boards(seen),
            )


def _apply_changes(shopfloor: Any, name: str, changes: dict[str, Any], state: str | None) -> None:
    """Apply the changes given by the options to the task or the epic."""
    wanted = None if state is None else state.upper().replace("-", "_")
    if name.startswith("task-"):
        number = parse_id("task", name)
        if changes:
            call_desk(shopfloor, "task_edit", number=number, **changes)
        if wanted is not None:
            call_desk(shopfloor, "task_move", number=number, state=wanted)
    elif changes:
        raise InvalidInput(
            "Only tasks have a title, a description, a priority and dependencies", hint="Name a task, such as task-3"
        )
    elif wanted is not None and name.startswith("epic-"):
        call_desk(shopfloor, "epic_move", number=parse_id("epic", name), state=wanted)
    elif wanted is not None:
        raise InvalidInput("Only tasks and epics can be moved", hint="Name one, such as task-3 or epic-1")


def _read_board(shopfloor: Any, name: str | None, text: str | None) -> dict[str, Any]:
    """Read one task, one board, or all boards."""
    if name is None:
        return {**call_desk(shopfloor, "board_epics"), "runs": call_desk(shopfloor, "run_list")["runs"]}
    if name.startswith("task-"):
        return call_desk(shopfloor, "task_show", number=parse_id("task", name))
    if name == "none" or name.startswith("epic-"):
        board = "" if name == "none" else str(parse_id("epic", name))
        return call_desk(shopfloor, "board_show", kind="epic", board=board, text=text)
    try:
        return call_desk(shopfloor, "board_show", kind="loop", board=name, text=text)
    except NotFound:
        raise InvalidInput(f"Board '{name}' not found", hint="List the boards: shopfloor board") from None


def _parse_numbers(names: list[str] | None) -> list[int] | None:
    return [parse_id("task", name) for name in names] if names else None


def _format_boards(seen: dict[str, Any]) -> str:
    rows = [
        {"board": epic["id"], "title": epic["title"], "state": format_state(epic["state"]),
         "done": format_progress(epic["tasks"])}
        for epic in seen["epics"]
    ]  # fmt: skip
    rows += [
        {"board": run["run"], "title": "run", "state": run["status"], "done": f"{format_iterations(run)} iterations"}
        for run in seen["runs"]
    ]
    return format_table(rows, "There is no board yet: shopfloor epic add TITLE")


def _format_board(seen: dict[str, Any]) -> str:
    lines = [paint(to_printable(seen["title"]), "bold")]
    for column in seen["columns"]:
        if column["tasks"] or "nextCursor" in column:
            lines += ["", f"{paint_state(format_state(column['state']))} ({column['count']})"]
            lines += [shorten_line(_format_card(task)) for task in column["tasks"]]
            if "nextCursor" in column:
                lines.append("  and perhaps more" if column["searched"] else "  and more: narrow it with --text")
    empty = "No matching tasks." if any(column["count"] for column in seen["columns"]) else "No tasks yet."
    return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}\n\n{empty}"


def _format_card(task: dict[str, Any]) -> str:
    holder = f"  ({task['assignee']})" if task["assignee"] else ""
    return f"  {task['id']:<9} {to_printable(task['title'])}{holder}"
