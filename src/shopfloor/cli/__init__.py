"""The command line: one file per group of commands, imported when a command of it is run."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

import shopfloor
from shopfloor.cli.hints import describe_usage_error, find_hint, format_problem
from shopfloor.cli.lazy_group import COMPLETION_VARIABLE, HELP_OPTIONS, LazyGroup
from shopfloor.errors import ShopfloorError

app = typer.Typer(
    name="shopfloor",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=HELP_OPTIONS,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"shopfloor {shopfloor.__version__}")
        raise typer.Exit


@app.callback()
def describe_program(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run a shared workplace for AI agents: mail, tasks, decisions, search and a work loop, as MCP tools."""


def _read_arguments() -> list[str]:
    """Return the arguments of the program. `shopfloor help task` is another way to say `shopfloor task --help`."""
    arguments = sys.argv[1:]
    return [*arguments[1:], "--help"] if arguments[:1] == ["help"] else arguments


def main() -> None:
    """Run a command. An error is one line on standard error, perhaps with the next step, and exit code 1 or 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Not every terminal can show every character, and printing one must not end the command.
        sys.stdout.reconfigure(errors="backslashreplace")
    if COMPLETION_VARIABLE in os.environ:
        # It takes 30 ms, which other starts do not need.
        from typer.completion import completion_init  # type: ignore[attr-defined] # noqa: PLC0415

        completion_init()
    try:
        code = app(_read_arguments(), standalone_mode=False)
    except ShopfloorError as error:
        # A command that helps is worth more here than the error's own, more general hint.
        print(format_problem(error.message, find_hint(error) or error.hint), file=sys.stderr)
        sys.exit(1)
    except typer.Abort:
        print("shopfloor: Cancelled", file=sys.stderr)
        sys.exit(1)
    except typer.TyperException as error:
        print(describe_usage_error(error), file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)
