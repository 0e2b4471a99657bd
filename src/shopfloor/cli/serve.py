"""shopfloor serve, shopfloor stdio"""

from __future__ import annotations

from typing import Annotated

import typer

from shopfloor.cli.options import command, doors, streams
from shopfloor.settings import Settings

As = Annotated[str | None, typer.Option("--as", help="The agent or user to act as; by default local.")]
Toolsets = Annotated[str | None, typer.Option("--toolset", help="Only these toolsets, separated by commas.")]


def register(app: typer.Typer) -> None:
    """Add the commands that serve."""

    @command(app, "serve", "host", "port", "profile", "log", "log_level")
    def serve(settings: Settings) -> None:
        """Serve this project's floor over HTTP until a signal."""
        doors().serve(settings)

    @command(app, "stdio", "log", "log_level")
    def stdio(settings: Settings, toolset: Toolsets = None, caller: As = None) -> None:
        """Serve MCP over standard input and output, for a client that starts this command itself."""
        if toolset:
            settings = Settings(**settings.model_dump(exclude_unset=True) | {"profile": toolset})
        streams().serve(settings, caller)
