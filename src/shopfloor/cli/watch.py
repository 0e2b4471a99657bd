"""shopfloor watch"""

from __future__ import annotations

from shopfloor.cli import tui
from shopfloor.cli.options import call_desk, command, create_app, open_shopfloor
from shopfloor.settings import Settings

app = create_app()


@command(app, "watch")
def watch(settings: Settings) -> None:
    """Show inbox, tasks, agents, runs and crews full-screen. Press `?` for the keys, which are those of the pages."""
    with open_shopfloor(settings) as shopfloor:
        tui.Watch(lambda tool, given: call_desk(shopfloor, tool, **given)).run()
