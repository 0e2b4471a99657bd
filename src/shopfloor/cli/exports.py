"""shopfloor export markdown|beads|jsonl"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, call_desk, command, create_app, list_desk, open_shopfloor
from shopfloor.cli.output import format_bytes, format_count, is_terminal, print_result, to_printable_lines
from shopfloor.errors import InvalidInput
from shopfloor.interchange.beads import write_beads
from shopfloor.interchange.markdown import write_markdown
from shopfloor.settings import Settings

app = create_app("Write epics and tasks in the format of another tool, or everything as JSON lines.")

Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write; standard output by default.")]


@command(app, "markdown", read_only=True)
def export_markdown(settings: Settings, output: Output = None) -> None:
    """Write epics and tasks as a Markdown document with checklists."""
    _export(settings, output, lambda epics, tasks: write_markdown(settings.project.resolve().name, epics, tasks))


@command(app, "beads", read_only=True)
def export_beads(settings: Settings, output: Output = None) -> None:
    """Write epics and tasks as Beads issues, for `bd import`."""
    _export(settings, output, write_beads)


@command(app, "jsonl", existing=True)
def export_jsonl(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="New file; a name that ends with .gz compresses it.")],
    as_json: AsJson = False,
) -> None:
    """Write the whole store as JSON lines, all workspaces in one snapshot, while it is in use.

    `shopfloor import jsonl` reads it into SQLite or PostgreSQL without loss. The file contains secrets: keep it safe.
    """
    with open_shopfloor(settings) as shopfloor:
        done = call_desk(shopfloor, "export_create", target=str(file.absolute()))
    rows = format_count(sum(done["rows"].values()), "row")
    print_result(done, as_json, f"Exported {rows}, {format_bytes(done['bytes'])}, to {file}")


def _export(settings: Settings, output: Path | None, render: Callable[[Any, Any], Iterable[str]]) -> None:
    with open_shopfloor(settings) as shopfloor:
        epics = sorted(list_desk(shopfloor, "epic_export", "epics"), key=lambda epic: int(epic["number"]))
        lines = render(epics, list_desk(shopfloor, "task_export", "tasks"))
        if output is None:
            shown = map(to_printable_lines, lines) if is_terminal() else lines
            sys.stdout.writelines(f"{line}\n" for line in shown)
            return
        text = "".join(f"{line}\n" for line in lines)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{output} cannot be written: {error.strerror or error}", field="output") from None
