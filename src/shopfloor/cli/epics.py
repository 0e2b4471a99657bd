"""shopfloor epic add|list|show|done"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shopfloor.cli.ids import EpicId, parse_id
from shopfloor.cli.options import AsJson, call_desk, command, create_app, list_desk, open_shopfloor
from shopfloor.cli.output import (
    format_age,
    format_count,
    format_table,
    paint,
    paint_state,
    print_result,
    to_printable,
    to_printable_lines,
)
from shopfloor.cli.tasks import format_state, format_tasks
from shopfloor.settings import Settings

app = create_app("Add, list, show and complete epics.")


@command(app, "add")
def add_epic(
    settings: Settings,
    title: Annotated[str, typer.Argument(help="Title of the epic.")],
    description: Annotated[str, typer.Option("--description", "-d", help="Description, in Markdown.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add an epic: a board for the tasks of one goal."""
    with open_shopfloor(settings) as shopfloor:
        epic = call_desk(shopfloor, "epic_create", title=title, description=description)
    text = f"{paint(epic['id'], 'bold')} added: {to_printable(epic['title'])}"
    print_result(epic, as_json, f"{text}\n  Add a task: shopfloor task add TITLE --epic {epic['id']}")


@command(app, "list", read_only=True)
def list_epics(
    settings: Settings,
    everything: Annotated[bool, typer.Option("--all", help="Include completed and cancelled epics.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the open epics, newest first."""
    with open_shopfloor(settings) as shopfloor:
        found = list(list_desk(shopfloor, "board_epics", "epics"))
    epics = [epic for epic in found if everything or epic["state"] not in ("COMPLETED", "CANCELLED")]
    rows = [
        {
            "id": epic["id"],
            "state": format_state(epic["state"]),
            "done": format_progress(epic["tasks"]),
            "title": epic["title"],
            "created": format_age(epic["createdAt"]),
        }
        for epic in epics
    ]
    empty = "There are no open epics: shopfloor epic add TITLE"
    print_result(epics, as_json, format_table(rows, empty, optional=("created", "done")))


@command(app, "show", read_only=True)
def show_epic(settings: Settings, epic: EpicId, as_json: AsJson = False) -> None:
    """Show an epic with its tasks."""
    number = parse_id("epic", epic)
    with open_shopfloor(settings) as shopfloor:
        found = call_desk(shopfloor, "board_show", kind="epic", board=str(number))["epic"]
        found["taskList"] = list(list_desk(shopfloor, "task_list", "tasks", epic=number, includeClosed=True))
    print_result(found, as_json, _format_epic(found))


@command(app, "done")
def complete_epic(settings: Settings, epic: EpicId, as_json: AsJson = False) -> None:
    """Complete an epic permanently. None of its tasks may be open."""
    with open_shopfloor(settings) as shopfloor:
        completed = call_desk(shopfloor, "epic_move", number=parse_id("epic", epic), state="COMPLETED")
    print_result(completed, as_json, f"{paint(completed['id'], 'bold')} completed: {to_printable(completed['title'])}")


def format_progress(counts: dict[str, int]) -> str:
    """Return how many of the counted tasks are completed, such as `2 of 5`."""
    total = sum(count for state, count in counts.items() if state != "CANCELLED")
    return f"{counts.get('COMPLETED', 0)} of {total}"


def _format_epic(epic: dict[str, Any]) -> str:
    tasks = epic["taskList"]
    facts = [paint_state(format_state(epic["state"])), format_count(len(tasks), "task")]
    facts += [f"{format_progress(epic['tasks'])} done"] if tasks else []
    lines = [f"{paint(epic['id'], 'bold')}  {paint(to_printable(epic['title']), 'bold')}", " · ".join(facts)]
    if epic["description"]:
        lines += ["", to_printable_lines(epic["description"])]
    rows = [{**task, "board": ""} for task in tasks]
    return "\n".join([*lines, "", format_tasks(rows, f"No tasks yet: shopfloor task add TITLE --epic {epic['id']}")])
