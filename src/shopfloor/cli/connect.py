"""shopfloor connect, shopfloor hook"""

from __future__ import annotations

import functools
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shopfloor.cli.options import AsJson, call_desk, command, create_app, open_shopfloor, spare_data_folder
from shopfloor.cli.output import format_count, format_table, print_result, to_printable
from shopfloor.connect import config_files, connections
from shopfloor.connect.clients import CLIENTS, format_commands
from shopfloor.connect.connections import Choice, Connection, Server
from shopfloor.domain.text import format_json
from shopfloor.errors import InvalidInput, Unavailable
from shopfloor.settings import Settings

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor

MAX_MAILS_SHOWN = 3
MAX_SUBJECT_CHARACTERS = 80

ClientName = Annotated[str | None, typer.Argument(metavar="CLIENT", help=f"Name of the client: {', '.join(CLIENTS)}.")]
As = Annotated[str, typer.Option("--as", help="Agent whose mail is shown.")]

FIRST_CREDENTIAL_NOTICE = (
    "This is the first token. From now on every call over HTTP requires one.\nThis cannot be undone."
)

app = create_app()


@command(app, "connect", "host", "port")
def connect_client(
    settings: Settings,
    client: ClientName = None,
    scope: Annotated[
        str | None,
        typer.Option("--scope", help="Which config to write: project (shared), user, or for Claude Code also local."),
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option("--transport", help="http or stdio; by default http if a server is running, else stdio."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Agent that the client acts as; by default named like the client.")
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", help="Type of the agent if it is created; by default WORKER.")
    ] = None,
    print_only: Annotated[bool, typer.Option("--print", help="Only print what would be written.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the client's entry and revoke its token.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the connected clients.")] = False,
    as_json: AsJson = False,
) -> None:
    """Connect an MCP client: create an agent, write the client's config, and check that it gets its tools.

    Existing content of the config is kept, and a backup is written beside it as FILE.bak. Connecting again changes
    nothing, or renews what no longer works. --remove deletes the backup if the file is identical to it again.
    """
    only_reads = list_all or print_only
    with ExitStack() as stack:
        opened = stack.enter_context(spare_data_folder(settings)) if only_reads else settings
        shopfloor = stack.enter_context(open_shopfloor(opened))
        server = describe_server(settings, shopfloor)
        if list_all:
            _print_connections(server, as_json)
            return
        if client is None:
            raise InvalidInput(
                f"Name a client: {', '.join(CLIENTS)}", hint="List the connected ones: shopfloor connect --list"
            )
        found = connections.find_client(client)
        if remove:
            _remove_client(server, client, scope, as_json)
            return
        choice = connections.choose(server, found, scope, transport, name, type)
        if print_only:
            _print_plan(server, choice, as_json)
            return
        if not as_json:
            _announce(shopfloor, server, choice, transport)
        made = connections.connect(server, choice, type)
    # Check after this process has closed the store: a stdio server opens it again.
    _report(server, made, as_json)


@command(app, "hook", read_only=True)
def show_unread(
    settings: Settings,
    caller: As,
    event: Annotated[str, typer.Option("--event", help="Client event at which the hook runs.")] = "",
) -> None:
    """Print unread mail for a client's hook; with --event, as JSON that adds it to the prompt. Without mail, print
    nothing."""
    with open_shopfloor(settings) as shopfloor:
        box = shopfloor.answer("factory", "mcp__mail__list_inbox", {"limit": MAX_MAILS_SHOWN}, caller, transport="cli")
    if box.error is not None:
        raise box.error
    inbox = box.body["data"]
    count = inbox["unreadCount"]
    if not count:
        return
    lines = [f"Shopfloor: {format_count(count, 'unread mail')}. Read with mcp__mail__read."]
    lines += [_format_mail(mail) for mail in inbox["mails"]]
    text = "\n".join(lines)
    output = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
    print(format_json(output) if event else text)


def _format_mail(mail: dict[str, Any]) -> str:
    subject = to_printable(mail["subject"])[:MAX_SUBJECT_CHARACTERS]
    return f"- {mail['id']} from {mail['fromAgentId']}: {subject}"


# --- server ---


def describe_server(settings: Settings, shopfloor: Shopfloor) -> Server:
    options = []
    if settings.data != settings.project / ".shopfloor":
        options += ["--data", str(settings.data)]
    if settings.workspace != "default":
        options += ["--workspace", settings.workspace]
    return Server(
        project=settings.project,
        data=settings.data,
        url=find_server_url(shopfloor),
        default_url=f"http://{settings.host}:{settings.port}",
        program=_find_program(),
        options=tuple(options),
        call_desk=functools.partial(call_desk, shopfloor),
    )


def find_server_url(shopfloor: Shopfloor) -> str | None:
    """Return the URL of a running server of this project."""
    processes = call_desk(shopfloor, "floor_overview")["processes"]
    return next((each["url"] for each in processes if each["kind"] == "serve" and each["url"]), None)


def is_open(shopfloor: Shopfloor) -> bool:
    """Return whether callers on this machine need no token yet."""
    return not shopfloor.engine.identity.needs_credential()


def print_client_commands(shopfloor: Shopfloor, settings: Settings, token: str) -> None:
    """Print how to connect each client with the token, on standard error: scripts read the token from standard
    output."""
    url = find_server_url(shopfloor) or f"http://{settings.host}:{settings.port}"
    print(format_commands(f"{url}/mcp", token), file=sys.stderr)


def _find_program() -> tuple[str, ...]:
    """Return the command that starts this program, with absolute paths: clients run it in other environments."""
    installed = Path(sys.executable).with_name("shopfloor")
    return (str(installed),) if installed.is_file() else (sys.executable, "-m", "shopfloor")


# --- output ---


def _print_connections(server: Server, as_json: bool) -> None:
    rows = list(connections.list_connections(server))
    print_result(
        rows,
        as_json,
        format_table(rows, f"No client is connected: shopfloor connect NAME\n  {', '.join(CLIENTS)}"),
    )


def _remove_client(server: Server, client: str, scope: str | None, as_json: bool) -> None:
    removals = connections.disconnect(server, connections.find_client(client), scope)
    value = [
        {
            "scope": each.scope,
            "files": [*map(str, each.files)],
            "backups": [*map(str, each.backups)],
            "agent": each.agent,
            "revoked": each.revoked,
        }
        for each in removals
    ]
    lines = [f"{client} is not connected"] if not removals else []
    for each in removals:
        lines += [f"Removed the entry from {file}" for file in each.files]
        lines += [f"The earlier backup is kept: {file}" for file in each.backups]
        if each.revoked is not None:
            lines.append(f"Revoked the token {each.revoked}")
        if each.agent is None:
            lines.append("The entry was not for this server, or its token was already revoked.")
        else:
            lines.append(f"The agent {each.agent} is kept. To retire it: shopfloor agent retire {each.agent}")
    print_result(value, as_json, "\n".join(lines))


def _print_plan(server: Server, choice: Choice, as_json: bool) -> None:
    entry = connections.build_entry(server, choice, connections.TOKEN_PLACEHOLDER)
    text = config_files.set_member("", choice.client.format, choice.keys, entry)
    changes = connections.plan_changes(server, choice, connections.TOKEN_PLACEHOLDER)
    value: dict[str, Any] = {"client": choice.client.name, "file": str(choice.file), "entry": text, "hooks": None}
    lines = [f"# {choice.file}", text.rstrip()]
    if hooks := connections.build_hooks(server, choice):
        event = choice.client.hook.event if choice.client.hook else ""
        value["hooks"] = config_files.set_member("", "json", ("hooks", event), hooks)
        lines += ["", f"# {changes[-1].file}", value["hooks"].rstrip()]
    print_result(value, as_json, "\n".join(lines))


def _announce(shopfloor: Shopfloor, server: Server, choice: Choice, transport: str | None) -> None:
    """Warn about unexpected effects before anything is written."""
    if server.url is None and transport is None:
        print(f"No server is running, so {choice.client.title} starts one itself over stdio.")
    if choice.transport == "http":
        if is_open(shopfloor):
            print(FIRST_CREDENTIAL_NOTICE)
        if choice.has_token and config_files.is_tracked(choice.file):
            print(f"Warning: git tracks {choice.file}, and the token is written to it.")
        if choice.has_token and config_files.is_readable_by_others(choice.file):
            print(f"Warning: other users can read {choice.file}, and the token is written to it: chmod 600 it.")
    elif shopfloor.settings.database:
        print(f"{choice.client.title} also needs the database: set SHOPFLOOR_DATABASE in its environment.")


def _report(server: Server, made: Connection, as_json: bool) -> None:
    """Check the connection and print the result; exit with 1 if the client would not get its tools."""
    choice = made.choice
    tools, failure = _check(made, server.project)
    value = {
        "client": choice.client.name,
        "scope": choice.scope,
        "transport": choice.transport,
        "agent": choice.agent,
        "files": [str(file) for file in made.files],
        "backups": [str(file) for file in made.backups],
        "tokenFile": None if made.token_file is None else str(made.token_file),
        "tools": len(tools),
        "error": failure,
    }
    print_result(value, as_json, "\n".join(_describe(made, len(tools), failure)))
    if failure is not None:
        raise typer.Exit(1)


def _describe(made: Connection, tools: int, failure: str | None) -> list[str]:
    choice = made.choice
    transport = {"http": "HTTP"}.get(choice.transport, choice.transport)
    agent = f"{'new ' if made.created_agent else ''}agent {choice.agent}"
    lines = [f"Connected {choice.client.title} over {transport}, as the {agent}."]
    lines += [f"Wrote {file}" for file in made.files] or ["Nothing had to be changed."]
    lines += [f"Backup: {file}" for file in made.backups]
    if made.replaced is not None:
        lines.append(f"Replaced the entry for {made.replaced}")
    if made.token_file is not None:
        lines.append(f"Before you start {choice.client.title}, load its token: . {made.token_file}")
    if choice.client.hook is not None and choice.client.hook.note:
        lines.append(choice.client.hook.note)
    if failure is None:
        lines.append(f"Checked: {choice.client.title} gets {format_count(tools, 'tool')}.")
        lines.append(f"Next: start {choice.client.title} in this project and say: start work")
    else:
        lines += [f"The check failed: {failure}", f"Check again with: shopfloor connect {choice.client.name}"]
    return lines


def _check(made: Connection, project: Path) -> tuple[list[str], str | None]:
    """List the tools as the client would; return them, or the reason why there are none and the next step."""
    from shopfloor.connect import check  # noqa: PLC0415 - the MCP SDK takes longer to load than --list takes

    try:
        tools = check.list_tools(made.endpoint, project)
    except Unavailable as error:
        step = "" if error.facts.get("is_listening", True) else ". Start the server: shopfloor serve"
        return [], error.message + step
    return tools, None if tools else f"{made.endpoint.address} lists no tools for the agent {made.choice.agent}"
