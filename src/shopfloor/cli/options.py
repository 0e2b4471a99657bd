"""Options that every command has, taken from the settings, and how a command finds its floor."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shopfloor.settings import Settings

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor

WHERE = ("project", "data", "database", "workspace")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def command(app: typer.Typer, name: str, *flags: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a command whose first parameter is the settings: made from flags, environment and config file."""
    wanted = (*WHERE, *flags)

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def with_settings(**given: Any) -> Any:
            flags = {flag: given.pop(flag) for flag in wanted}
            return run(Settings(**{flag: value for flag, value in flags.items() if value is not None}), **given)

        signature = inspect.signature(run, eval_str=True)
        own = list(signature.parameters.values())[1:]
        with_settings.__signature__ = signature.replace(parameters=[*own, *map(_option, wanted)])  # type: ignore[attr-defined]
        with_settings.__annotations__ = {p.name: p.annotation for p in [*own, *map(_option, wanted)]}
        app.command(name)(with_settings)
        return run

    return register


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


def whole() -> ModuleType:
    """Everything that a command needs beyond --help, which is too much to load for --help."""
    from shopfloor.cli import floor  # noqa: PLC0415

    return floor


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
