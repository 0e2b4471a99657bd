"""shopfloor serve"""

from __future__ import annotations

from shopfloor.cli.options import command, create_app
from shopfloor.engine import Engine
from shopfloor.gateways import logs
from shopfloor.settings import Settings
from shopfloor.transports import server

app = create_app()


@command(app, "serve", "host", "port", "workers", "profile", "log", "log_level")
def serve(settings: Settings) -> None:
    """Start the server: MCP at /mcp and /mcp/<toolset>, plain calls at /mcp/execute, and the pages.

    It prints `shopfloor is ready at URL` once it is listening, and stops on SIGTERM or SIGINT.
    """

    def start_logging() -> None:
        logs.configure_logging(settings.log, settings.log_level)

    if settings.workers > 1:
        # It starts a thread, so each worker must do it itself.
        server.serve_workers(settings, start_logging, _announce)
        return
    start_logging()
    server.serve(settings, _announce)


def _announce(engine: Engine, url: str) -> None:
    callers = (
        "need a token"
        if engine.identity.needs_credential()
        else "on this machine need no token, until the first one is issued"
    )
    link = engine.call_desk("link_create", {}, "cli")
    reached_at = engine.settings.public_url or url
    print(
        f"shopfloor is ready at {url}\n"
        f"  project  {engine.settings.project}\n"
        f"  data     {engine.settings.data}\n"
        f"  pages    {reached_at}/enter?token={link['token']}\n"
        "           (single use, 10 min; a new link: shopfloor link)\n"
        f"  MCP      {reached_at}/mcp\n"
        "           (connect a client: shopfloor connect claude)\n"
        f"  callers  {callers}",
        flush=True,
    )
