"""shopfloor run"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from shopfloor.cli.options import command, create_app
from shopfloor.runner import main
from shopfloor.runner.options import RunOptions
from shopfloor.settings import Settings

app = create_app()


def run(
    settings: Settings,
    spec: Annotated[Path | None, typer.Option("--spec", help="File with the specification.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the run; by default the file's name.")] = None,
    resume: Annotated[str | None, typer.Option("--resume", help="Continue this run.")] = None,
    headless: Annotated[
        bool, typer.Option("--headless", "--json", help="Print JSON lines instead of a live view.")
    ] = False,
    **options: Any,
) -> None:
    """Drive an agent until its work is verified, a budget is used up, or there is no progress.

    Exit codes: 0 done and verified, 1 could not start, 2 invalid command line, 3 a budget is used up, 4 no progress,
    5 the agent keeps failing, 6 stopped by a person, 7 no task was planned, 8 tasks are blocked, 9 a question was not
    answered, 129 terminal closed, 130 interrupted, 143 terminated.
    """
    # `value not in ([], False)` would drop 0, which equals False: a budget of 0 must be rejected.
    given = {key: value for key, value in options.items() if value is not None and value != []}
    raise typer.Exit(main.run(settings, given, name=name, spec=spec, resume=resume, headless=headless))


def _add_run_options(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with an option for each field of RunOptions in place of **options."""
    signature = inspect.signature(run, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    # Commands and durations are written as text ('opencode acp', 30m), which RunOptions parses. Other types are listed
    # here.
    kinds: dict[str, Any] = {
        "verify": list[str],
        "sandbox": bool,
        "sandbox_write": list[str],
        "sandbox_hide": list[str],
        "commit": bool,
        "approve_plan": bool,
        "iterations": int,
        "review_rounds": int,
        "tokens": int,
        "no_progress": int,
    }
    options = []
    for name, field in RunOptions.model_fields.items():
        kind = kinds.get(name, float if name == "cost" else str)
        flag = name.replace("_", "-")
        declaration = f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}"
        option = typer.Option(declaration, help=field.description, show_default=False)
        options.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[kind | None, option],
            )
        )
    run.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return run


command(app, "run")(_add_run_options(run))
