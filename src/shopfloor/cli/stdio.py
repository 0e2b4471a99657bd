"""shopfloor stdio"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shopfloor.cli.options import command, create_app
from shopfloor.errors import BadSettings
from shopfloor.gateways import logs
from shopfloor.serving import Shopfloor
from shopfloor.settings import CONFIG_FILE, Settings
from shopfloor.transports import stdio

As = Annotated[str | None, typer.Option("--as", help="Agent or user to act as; by default local.")]
Toolsets = Annotated[
    str | None,
    typer.Option("--toolset", help="Toolsets to serve, separated by commas; by default the setting profile."),
]

app = create_app()


@command(app, "stdio", "log", "log_level")
def serve_stdio(settings: Settings, toolset: Toolsets = None, caller: As = None) -> None:
    """Serve MCP over standard input and output, for clients that start their servers themselves."""
    # Desktop clients start their servers in such folders. The whole home folder would become a project, and be indexed.
    is_set_up = settings.data.exists() or (settings.project / CONFIG_FILE).exists()
    if settings.project in (Path.home(), Path("/")) and not is_set_up:
        raise BadSettings(
            f"project: {settings.project} is not a project",
            hint="Name the project in the client's config: shopfloor stdio --project FOLDER",
        )
    if toolset:
        settings = Settings(**settings.model_dump(exclude_unset=True) | {"profile": toolset})
    with Shopfloor(settings, kind="stdio") as shopfloor:
        credential = shopfloor.get_credential(caller)
        logs.configure_logging(settings.log, settings.log_level)
        stdio.serve(shopfloor.engine, shopfloor.engine.profile, credential)
