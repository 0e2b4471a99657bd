"""shopfloor agent add|list|show|retire|crashed|known"""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer

from shopfloor.cli.connect import FIRST_CREDENTIAL_NOTICE, is_open, print_client_commands
from shopfloor.cli.help import Command
from shopfloor.cli.options import AsJson, call_desk, command, create_app, list_desk, open_shopfloor
from shopfloor.cli.output import format_age, format_table, paint, paint_state, print_result
from shopfloor.runner.known_agents import KNOWN_AGENTS
from shopfloor.settings import Settings

app = create_app("Add, list, show and retire agents.")

Name = Annotated[str, typer.Argument(help="Name of the agent, which is its id. It can never be used again.")]


@command(app, "add")
def add_agent(
    settings: Settings,
    name: Name,
    type: Annotated[
        str,
        typer.Option("--type", help="Agent type: SUPERVISOR, ORCHESTRATOR, WORKER, or a type of the setting roles."),
    ] = "WORKER",
    supervisor: Annotated[
        str | None, typer.Option("--supervisor", help="Agent that is notified of its failures.")
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Create the agent without a token.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add an agent and print its token, which is shown only once.

    Once the first token is issued, every call requires one. This cannot be undone.
    """
    with open_shopfloor(settings) as shopfloor:
        was_open = is_open(shopfloor)
        created = call_desk(
            shopfloor, "agent_create", name=name, type=type.upper(), supervisor=supervisor, issueToken=not no_token
        )
        agent, token = created["agent"], created["token"]
        text = f"{agent['id']} added ({agent['type']})" + (f"\n{token}" if token else "")
        print_result({"id": agent["id"], "type": agent["type"], "token": token}, as_json, text)
        if token and not as_json:
            if was_open:
                print(FIRST_CREDENTIAL_NOTICE, file=sys.stderr)
            print_client_commands(shopfloor, settings, token)


@command(app, "list", read_only=True)
def list_agents(settings: Settings, as_json: AsJson = False) -> None:
    """List the agents that are not retired."""
    with open_shopfloor(settings) as shopfloor:
        rows = [_row(agent) for agent in list_desk(shopfloor, "agent_list", "agents") if agent["retiredAt"] is None]
    lines = [
        {
            "id": row["id"],
            "type": row["type"],
            "state": row["state"].lower(),
            "supervisor": row["supervisor"],
            "last active": format_age(row["lastActiveAt"]),
        }
        for row in rows
    ]
    empty = "There are no agents yet: shopfloor agent add NAME --type WORKER"
    print_result(rows, as_json, format_table(lines, empty, optional=("last active", "supervisor")))


@command(app, "show", read_only=True)
def show_agent(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Show one agent, including a retired one."""
    with open_shopfloor(settings) as shopfloor:
        row = _row(call_desk(shopfloor, "agent_show", name=name)["agent"])
    lines = {
        "id": row["id"],
        "type": row["type"],
        "state": paint_state(row["state"].lower()),
        "supervisor": row["supervisor"] or "-",
        "last active": format_age(row["lastActiveAt"]),
    }
    if row["retiredAt"]:
        lines["retired"] = format_age(row["retiredAt"])
    print_result(row, as_json, "\n".join(f"{key:<12} {value}" for key, value in lines.items()))


@command(app, "retire")
def retire_agent(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Retire an agent: revoke its tokens and return its tasks to the queue. Its log is kept."""
    with open_shopfloor(settings) as shopfloor:
        row = _row(call_desk(shopfloor, "agent_retire", name=name)["agent"])
    print_result(row, as_json, f"{name} is retired")


@command(app, "crashed")
def report_crash(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Report that an agent's process crashed.

    After three crashes within a minute the agent is failed: its tasks return to the queue, its supervisor gets mail,
    and it gets no task for one minute, then twice as long each time.
    """
    with open_shopfloor(settings) as shopfloor:
        row = _row(call_desk(shopfloor, "agent_report_crash", name=name)["agent"])
    print_result(row, as_json, f"{name} is {row['state']}")


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


def _row(agent: dict[str, Any]) -> dict[str, Any]:
    return {key: agent[key] for key in ("id", "type", "state", "supervisor", "lastActiveAt", "retiredAt")}
