"""shopfloor agents known"""

from __future__ import annotations

import shlex

from shopfloor.cli.help import Command
from shopfloor.cli.options import AsJson, create_app
from shopfloor.cli.output import paint, paint_state, print_result
from shopfloor.runner.known_agents import KNOWN_AGENTS

app = create_app("Show the coding agents that shopfloor run can drive.")


@app.callback()
def _group() -> None:
    """Show the coding agents that shopfloor run can drive."""


@app.command("known", cls=Command)
def list_known_agents(as_json: AsJson = False) -> None:
    """List the coding agents known to work with shopfloor run, and how to install them."""
    rows = [
        {"command": agent.command, "agent": agent.name, "installed": agent.installed, "install": agent.install}
        for agent in KNOWN_AGENTS
    ]
    # Not a table: at 80 columns it would cut the commands, which must be copyable.
    blocks = [
        f"{paint(agent.name, 'bold')}\n"
        f"  --agent {shlex.quote(agent.command)}\n"
        f"  {paint_state('installed') if agent.installed else agent.install}"
        for agent in KNOWN_AGENTS
    ]
    print_result(rows, as_json, "\n".join(blocks))
