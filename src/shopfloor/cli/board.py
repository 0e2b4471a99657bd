"""shopfloor board: what there is to do, by state; and a task or an epic changed by hand."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, Follow, again, ask, command, opened, printable, show, table
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

Name = Annotated[
    str | None, typer.Argument(help="epic-1, none (tasks of no epic), a loop's name, or task-3; without one, all.")
]
Title = Annotated[str | None, typer.Option("--title", help="Other words for the task.")]
Description = Annotated[str | None, typer.Option("--description", help="What the task is about; empty for nothing.")]
Priority = Annotated[int | None, typer.Option("--priority", help="0 critical to 4 backlog.")]
After = Annotated[list[str] | None, typer.Option("--after", help="The task waits for this one too; may be repeated.")]
NotAfter = Annotated[list[str] | None, typer.Option("--not-after", help="The task waits for this one no more.")]
Version = Annotated[int | None, typer.Option("--version", help="Refuse if the task has changed since this version.")]
State = Annotated[str | None, typer.Option("--state", help="Move the task, or the epic, to this state.")]
Text = Annotated[str | None, typer.Option("--text", help="Only tasks with this in number, title or assignee.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "board")(board)


def board(
    settings: Settings,
    name: Name = None,
    title: Title = None,
    description: Description = None,
    priority: Priority = None,
    after: After = None,
    not_after: NotAfter = None,
    version: Version = None,
    state: State = None,
    text: Text = None,
    as_json: AsJson = False,
    follow: Follow = False,
) -> None:
    """Show the boards, one board, or one task; with options, change the task or the epic first."""
    words = {"title": title, "description": description, "priority": priority, "version": version}
    edits = {**words, "addDependsOn": _numbers(after), "removeDependsOn": _numbers(not_after)}
    changes = {field: value for field, value in edits.items() if value is not None}
    with opened(settings) as shopfloor:
        _change(shopfloor, name or "", changes, state)
        for seen in again(follow, lambda: _looked_at(shopfloor, name, text)):
            show(seen, as_json, _task(seen) if "blockers" in seen else _board(seen) if name else _boards(seen))


def _change(shopfloor: Any, name: str, changes: dict[str, Any], state: str | None) -> None:
    """Do what the options want, all of it or nothing of what is refused."""
    wanted = None if state is None else state.upper().replace("-", "_")
    if name.startswith("task-"):
        number = _number(name)
        if changes:
            ask(shopfloor, "task_edit", number=number, **changes)
        if wanted is not None:
            ask(shopfloor, "task_move", number=number, state=wanted)
    elif changes:
        raise InvalidInput("Only a task has words, a priority and dependencies to change", hint="Name it: task-3")
    elif wanted is not None and name.startswith("epic-"):
        ask(shopfloor, "epic_move", number=_number(name), state=wanted)
    elif wanted is not None:
        raise InvalidInput("Only a task or an epic is moved", hint="Name it: task-3 or epic-1")


def _looked_at(shopfloor: Any, name: str | None, text: str | None) -> dict[str, Any]:
    """One task, one board, or all of them."""
    if name is None:
        return {**ask(shopfloor, "board_epics"), "runs": ask(shopfloor, "run_list")["runs"]}
    if name.startswith("task-"):
        return ask(shopfloor, "task_show", number=_number(name))
    if name == "none" or name.startswith("epic-"):
        board = "" if name == "none" else str(_number(name))
        return ask(shopfloor, "board_show", kind="epic", board=board, text=text)
    return ask(shopfloor, "board_show", kind="loop", board=name, text=text)


def _numbers(names: list[str] | None) -> list[int] | None:
    return [_number(name) for name in names] if names else None


def _number(name: str) -> int:
    digits = name.removeprefix("task-").removeprefix("epic-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19 and int(digits)):
        raise InvalidInput(f"'{name}' is no number; write task-3, or epic-1")
    return int(digits)


def _boards(seen: dict[str, Any]) -> str:
    rows = [
        {"board": epic["id"], "title": printable(epic["title"])[:50], "state": epic["state"].lower(),
         "done": f"{epic['tasks'].get('COMPLETED', 0)} of {sum(epic['tasks'].values())}"}
        for epic in seen["epics"]
    ]  # fmt: skip
    rows += [
        {"board": run["run"], "title": "loop", "state": run["state"], "done": f"iteration {run['iteration']}"}
        for run in seen["runs"]
    ]
    return table(rows, "There is no board yet: an agent makes one with mcp__epic__create, a loop with shopfloor run.")


def _board(seen: dict[str, Any]) -> str:
    lines = [printable(seen["title"])]
    for column in seen["columns"]:
        if column["tasks"] or "nextCursor" in column:
            lines += ["", f"{column['state'].lower().replace('_', ' ')} ({column['count']})"]
            lines += [
                f"  {task['id']:<9} {printable(task['title'])[:60]:<60}  {task['assignee'] or ''}"
                for task in column["tasks"]
            ]
            if "nextCursor" in column:
                lines.append(
                    "  and perhaps more, further down" if column["searched"] else "  and more: narrow it with --text"
                )
    empty = "Nothing fits." if any(column["count"] for column in seen["columns"]) else "It has no tasks yet."
    return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}\n\n{empty}"


def _task(seen: dict[str, Any]) -> str:
    facts = [seen["state"].lower().replace("_", " "), f"priority {seen['priority']}", f"version {seen['version']}"]
    facts += [f"held by {seen['assignee']}"] if seen["assignee"] else []
    lines = [f"{seen['id']}  {printable(seen['title'])}", " · ".join(facts)]
    if seen["description"]:
        lines += ["", *(printable(line) for line in seen["description"].split("\n"))]
    for what, tasks in (("waits for", seen["blockers"]), ("waited for by", seen["dependents"])):
        lines += ["", *(f"{what} {_brief(task)}" for task in tasks)] if tasks else []
    for comment in seen["comments"]:
        lines += ["", f"{comment['author']}, {comment['createdAt']}:"]
        lines += [f"  {printable(line)}" for line in comment["body"].split("\n")]
    return "\n".join(lines)


def _brief(task: dict[str, Any]) -> str:
    return f"{task['id']} ({task['state'].lower().replace('_', ' ')}) {printable(task['title'])[:60]}"
