"""shopfloor template export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shopfloor.cli.help import Command
from shopfloor.cli.options import AsJson, create_app
from shopfloor.cli.output import print_result
from shopfloor.errors import InvalidInput
from shopfloor.runner import crew_options, prompt, task_work

app = create_app("Export prompt templates and a crew.toml.")


@app.callback()
def _group() -> None:
    """Export prompt templates and a crew.toml."""


_TEMPLATES: dict[str, tuple[Path, str]] = {
    "run": (prompt.DEFAULT, "shopfloor run --template"),
    "crew": (crew_options.TEMPLATE, "shopfloor crew start --crew"),
    "worker": (task_work.WORKER_TEMPLATE, "template of [worker] in crew.toml:"),
    "planner": (task_work.PLANNER_TEMPLATE, "template of [planner] in crew.toml:"),
    "reviewer": (task_work.REVIEWER_TEMPLATE, "template of [reviewer] in crew.toml:"),
}


@app.command("export", cls=Command)
def export_template(
    what: Annotated[
        str, typer.Argument(help="run, worker, planner or reviewer for a prompt; crew for a crew.toml.")
    ] = "run",
    file: Annotated[Path | None, typer.Argument(help="File to write; by default standard output.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a built-in template, as a starting point for your own."""
    # `template export FILE` wrote the prompt of a run before there were other templates.
    if what not in _TEMPLATES and file is None:
        what, file = "run", Path(what)
    if what not in _TEMPLATES:
        raise InvalidInput(f"Unknown template '{what}'; expected one of {', '.join(_TEMPLATES)}")
    source, use = _TEMPLATES[what]
    text = source.read_text("utf-8")
    if file is None:
        print_result({"template": text}, as_json, text)
    elif file.exists():
        raise InvalidInput(f"File {file} already exists")
    else:
        file.write_text(text, "utf-8")
        print_result({"file": str(file)}, as_json, f"Written to {file}. Use it with {use} {file}")
