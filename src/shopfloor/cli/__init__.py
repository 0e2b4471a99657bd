"""The command line: one file per group of commands, each another door to the same floor."""

from __future__ import annotations

import io
import sys

import typer

from shopfloor.cli import agents, board, calls, context, demo, desk, inbox, run, serve, todos, tokens, users
from shopfloor.errors import ShopfloorError

app = typer.Typer(
    name="shopfloor",
    help="The workplace of AI agents: mail, tasks, decisions, memory and a loop, all as MCP tools.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
serve.register(app)
calls.register(app)
desk.register(app)
board.register(app)
demo.register(app)
run.register(app)
context.register(app)
app.add_typer(agents.app, name="agent")
app.add_typer(users.app, name="user")
app.add_typer(todos.app, name="todo")
app.add_typer(tokens.app, name="token")
app.add_typer(inbox.app, name="inbox")


def main() -> None:
    """Run a command; a refusal is one line on the standard error and exit code 1."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # not every terminal can show every character
    try:
        app()
    except ShopfloorError as error:
        print(f"shopfloor: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        sys.exit(1)
