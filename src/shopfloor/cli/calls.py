"""shopfloor call, shopfloor tools."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from shopfloor.cli.options import AsJson, command, opened, show, table
from shopfloor.cli.pages import tools_page
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

Arguments = Annotated[str, typer.Argument(help="The arguments, as a JSON object.")]
As = Annotated[str | None, typer.Option("--as", help="The agent or user to act as; by default local.")]


def register(app: typer.Typer) -> None:
    """Add the commands that call."""

    @command(app, "call")
    def call(
        settings: Settings,
        toolset: str,
        tool: str,
        arguments: Arguments = "{}",
        caller: As = None,
        as_json: AsJson = False,
    ) -> None:
        """Call one TOOL of a TOOLSET with ARGUMENTS as JSON, and print its answer. A refusal exits with 1."""
        try:
            given = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"The arguments are not JSON: {error}", hint='Quote them: \'{"title": "…"}\'') from None
        with opened(settings) as shopfloor:
            answer = shopfloor.answer(toolset, tool, given, caller, door="cli")
        show(answer.body, as_json, answer.text)
        if answer.error is not None:
            raise typer.Exit(1)

    @command(app, "tools")
    def tools(
        settings: Settings,
        toolset: Annotated[str | None, typer.Argument(help="Only this toolset.")] = None,
        markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/tools.md.")] = False,
        as_json: AsJson = False,
    ) -> None:
        """List the tools, of one TOOLSET or of all."""
        with opened(settings) as shopfloor:
            names = [toolset] if toolset else list(shopfloor.floor.toolsets)
            rows = [{"toolset": name, **schema} for name in names for schema in shopfloor.schemas(name)]
            if markdown:
                print(tools_page([shopfloor.floor.toolsets[name] for name in names], shopfloor.floor.rights), end="")
                return
        lines = [
            {"toolset": r["toolset"], "tool": r["name"], "description": r["description"].splitlines()[0]} for r in rows
        ]
        show(rows, as_json, table(lines, "There are no tools."))
