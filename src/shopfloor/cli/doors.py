"""The command that serves HTTP. The door takes long to load, so no other command does."""

from __future__ import annotations

from shopfloor.app import Floor, one_time_link
from shopfloor.cli.floor import opened
from shopfloor.gateways import logs
from shopfloor.settings import Settings
from shopfloor.transports import server


def serve(settings: Settings) -> None:
    """Serve HTTP until a signal."""
    logs.set_up(settings.log, settings.log_level)
    server.serve(settings, _announce)


def link(settings: Settings, user: str | None = None) -> str:
    """The key of a one-time link, for the operator or a user."""
    with opened(settings) as shopfloor:
        if user is None:
            return one_time_link(shopfloor.floor)
        return one_time_link(shopfloor.floor, shopfloor.user(user))


def _announce(floor: Floor, url: str) -> None:
    closed = floor.identity.needs_credential()
    callers = (
        "need a token: shopfloor token issue --agent NAME"
        if closed
        else "of this machine need no token until the first one is issued: shopfloor agent add NAME"
    )
    print(
        f"shopfloor is ready at {url}\n"
        f"  project  {floor.settings.project}\n"
        f"  data     {floor.settings.data}\n"
        f"  desk     {url}/enter?key={one_time_link(floor)}    (good once, for 10 minutes; again: shopfloor link)\n"
        f"  MCP      {url}/mcp    (claude mcp add --transport http shopfloor {url}/mcp)\n"
        f"  callers  {callers}",
        flush=True,
    )
