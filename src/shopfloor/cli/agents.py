"""shopfloor agent add|list|show|retire|crashed"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, command, opened, show, table
from shopfloor.domain.times import iso, iso_or_none
from shopfloor.settings import Settings

app = typer.Typer(help="Agents: add them, look at them, let them go.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The agent's name, which is its id.")]


@command(app, "add")
def add(
    settings: Settings,
    name: Name,
    type: Annotated[str, typer.Option("--type", help="SUPERVISOR, ORCHESTRATOR or WORKER.")] = "WORKER",
    supervisor: Annotated[str | None, typer.Option("--supervisor", help="Who hears of its failures.")] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Issue no token.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add an agent and print its token, which is shown only this once."""
    with opened(settings) as shopfloor:
        agent, token = shopfloor.hire(name, type.upper(), supervisor, with_token=not no_token)
    answer = {"id": agent.name, "type": agent.type, "token": token}
    text = f"{agent.name} ({agent.type})" + (f"\n{token}" if token else "")
    show(answer, as_json, text)


@command(app, "list")
def list_agents(settings: Settings, as_json: AsJson = False) -> None:
    """List the agents."""
    with opened(settings) as shopfloor:
        rows = [_row(shopfloor, agent) for agent in shopfloor.agents() if agent.retired_at is None]
    show(rows, as_json, table(rows, "There are no agents yet: shopfloor agent add NAME --type WORKER"))


@command(app, "show")
def show_agent(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Show one agent."""
    with opened(settings) as shopfloor:
        row = _row(shopfloor, shopfloor.agent(name))
    show(row, as_json, "\n".join(f"{key:<12} {value}" for key, value in row.items()))


@command(app, "retire")
def retire(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Let an agent go: its tokens are revoked at once, its log stays."""
    with opened(settings) as shopfloor:
        row = _row(shopfloor, shopfloor.retire(name))
    show(row, as_json, f"{name} has retired")


@command(app, "crashed")
def crashed(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Report that an agent's process ended by itself; three times within a minute mark the agent as failed."""
    with opened(settings) as shopfloor:
        row = _row(shopfloor, shopfloor.crashed(name))
    show(row, as_json, f"{name} is {row['state']}")


def _row(shopfloor: Any, agent: Any) -> dict[str, Any]:
    return {
        "id": agent.name,
        "type": agent.type,
        "state": agent.state(shopfloor.floor.works.clock()) if agent.retired_at is None else "RETIRED",
        "supervisor": agent.supervisor,
        "lastActiveAt": iso(agent.last_active_at),
        "retiredAt": iso_or_none(agent.retired_at),
    }
