"""shopfloor call, shopfloor tools."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from shopfloor.cli.hints import suggest_tools
from shopfloor.cli.options import AsJson, command, create_app, open_shopfloor
from shopfloor.cli.output import format_table, format_words, is_terminal, print_result, read_data
from shopfloor.cli.tools_markdown import render_tools
from shopfloor.domain.text import format_json
from shopfloor.errors import InvalidInput, ToolNotFound
from shopfloor.settings import Settings

Arguments = Annotated[str, typer.Argument(help="Arguments of the tool, as a JSON object.")]
As = Annotated[str | None, typer.Option("--as", help="Agent or user to act as; by default local.")]


app = create_app()


@command(app, "call")
def call_tool(
    settings: Settings,
    toolset: Annotated[str, typer.Argument(help="Toolset, such as factory, todo or context.")],
    tool: Annotated[str, typer.Argument(help="Name of the tool; shopfloor tools lists them.")],
    arguments: Arguments = "{}",
    caller: As = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool and print its response. An error exits with 1.

    On a terminal the response is formatted as text, elsewhere as JSON.
    """
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"Arguments must be JSON: {error}", hint='Quote them: \'{"title": "…"}\'') from None
    with open_shopfloor(settings) as shopfloor:
        answer = shopfloor.answer(toolset, tool, given, caller, transport="cli")
        names = [each["name"] for each in shopfloor.schemas(toolset)]
    near = suggest_tools(tool, names) if isinstance(answer.error, ToolNotFound) else []
    hint = f"Did you mean {' or '.join(near)}?" if near else None
    if is_terminal() and not as_json:
        if answer.error is not None:
            answer.error.hint = hint or answer.error.hint
            raise answer.error
        print("\n".join(format_words(read_data(answer.body))))
        return
    text = answer.body if isinstance(answer.body, str) else format_json(answer.body, indent=1)
    print_result(answer.body, as_json, text)
    if isinstance(answer.error, ToolNotFound):
        print(f"  {hint or f'List the tools: shopfloor tools {toolset}'}", file=sys.stderr)
    if answer.error is not None:
        raise typer.Exit(1)


@command(app, "tools", read_only=True)
def list_tools(
    settings: Settings,
    toolset: Annotated[str | None, typer.Argument(help="Name of a toolset; by default all.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, as in docs/tools.md.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the tools of one toolset or of all. With --json, include their schemas."""
    with open_shopfloor(settings) as shopfloor:
        names = [toolset] if toolset else list(shopfloor.engine.toolsets)
        rows = [{"toolset": name, **schema} for name in names for schema in shopfloor.schemas(name)]
        if markdown:
            print(
                render_tools(
                    [shopfloor.engine.toolsets[name] for name in names],
                    shopfloor.engine.database.limits.agent_types,
                ),
                end="",
            )
            return
    lines = [
        {"toolset": r["toolset"], "tool": r["name"], "description": r["description"].splitlines()[0]} for r in rows
    ]
    print_result(rows, as_json, format_table(lines, "No tools."))
