"""The command that serves the standard streams; a client waits for its first answer, so it loads nothing else."""

from __future__ import annotations

import asyncio

from shopfloor.gateways import logs
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.transports import stdio


def serve(settings: Settings, caller: str | None) -> None:
    """Serve the standard streams until they end."""
    logs.set_up(settings.log, settings.log_level)
    with Shopfloor(settings, kind="stdio") as shopfloor:
        floor = shopfloor.floor
        asyncio.run(stdio.serve(floor, floor.profile, shopfloor.credential(caller)))
