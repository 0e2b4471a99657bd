"""Options that every command has, taken from the settings, and how a command finds its floor."""

from __future__ import annotations

import functools
import inspect
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shopfloor.errors import BadSettings
from shopfloor.settings import Settings

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor

WHERE = ("project", "data", "database", "workspace")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what is new, until Ctrl-C.")]
EVERY = 0.5
"""Seconds between two looks of whoever follows."""


def command(
    app: typer.Typer, name: str, *flags: str, **facts: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a command whose first parameter is the settings: made from flags, environment and config file."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        app.command(name, **facts)(with_settings(run, *flags))
        return run

    return register


def default(app: typer.Typer) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what a group of commands does when none of them is named."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        alone = with_settings(run)

        def unless_named(context: typer.Context, **given: Any) -> Any:
            return None if context.invoked_subcommand else alone(**given)

        parameters = list(inspect.signature(alone).parameters.values())
        here = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        unless_named.__signature__ = inspect.Signature([here, *parameters])  # type: ignore[attr-defined]
        unless_named.__annotations__ = {p.name: p.annotation for p in [here, *parameters]}
        unless_named.__doc__ = run.__doc__
        app.callback()(unless_named)
        return run

    return register


def with_settings(run: Callable[..., Any], *flags: str) -> Callable[..., Any]:
    """The function with options in the place of its first parameter, the settings."""
    wanted = (*WHERE, *flags)

    @functools.wraps(run)
    def called(**given: Any) -> Any:
        flags = {flag: given.pop(flag) for flag in wanted}
        settings = Settings(**{flag: value for flag, value in flags.items() if value is not None})
        if not settings.project.is_dir():
            raise BadSettings(
                f"project: there is no folder {settings.project}; name the one that agents work on, or make it first"
            )
        return run(settings, **given)

    signature = inspect.signature(run, eval_str=True)
    own = list(signature.parameters.values())[1:]
    called.__signature__ = signature.replace(parameters=[*own, *map(_option, wanted)])  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in [*own, *map(_option, wanted)]}
    return called


def _option(name: str) -> inspect.Parameter:
    field = Settings.model_fields[name]
    kind = int if field.annotation is int else str
    option = typer.Option(f"--{name.replace('_', '-')}", help=field.description, show_default=False)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def opened(settings: Settings) -> AbstractContextManager[Shopfloor]:
    """The floor, opened in this process; a server may run beside it."""
    floor: AbstractContextManager[Shopfloor] = whole().opened(settings)
    return floor


def ask(shopfloor: Shopfloor, tool: str, /, **given: Any) -> dict[str, Any]:
    """The answer of a tool of the desk; a refusal is raised."""
    answer = shopfloor.answer(
        "desk", tool, {name: value for name, value in given.items() if value is not None}, door="cli"
    )
    if answer.error is not None:
        raise answer.error
    body: dict[str, Any] = answer.body
    return body


def again(follow: bool, look: Callable[[], Any]) -> Iterator[Any]:
    """What there is to see; when following, again whenever it is different."""
    last = None
    while True:
        seen = look()
        told = json.dumps(seen, sort_keys=True)
        if told != last:
            if last is not None:
                print()
            yield seen
        last = told
        if not follow:
            return
        try:
            time.sleep(EVERY)
        except KeyboardInterrupt:
            return


def whole() -> ModuleType:
    """Everything that takes a floor; loaded when a command runs."""
    from shopfloor.cli import floor  # noqa: PLC0415 - too much to load for --help

    return floor


def streams() -> ModuleType:
    """What serves the standard streams."""
    from shopfloor.cli import streams  # noqa: PLC0415 - too much to load for any other command

    return streams


def doors() -> ModuleType:
    """The commands that serve."""
    from shopfloor.cli import doors  # noqa: PLC0415 - too much to load for any other command

    return doors


def show(value: Any, as_json: bool, text: str) -> None:
    """Print a value as JSON, or as text for people."""
    print(json.dumps(value, ensure_ascii=False) if as_json else text)


def table(rows: list[dict[str, Any]], empty: str) -> str:
    """Rows in columns, or a sentence that says what to do first."""
    if not rows:
        return empty
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def printable(text: str) -> str:
    """Text that somebody else wrote, without anything that could steer the terminal."""
    return "".join(char if char.isprintable() or char == "\t" else "�" for char in text)


def _cell(value: Any) -> str:
    return printable("-" if value is None else str(value))
