"""Connect a client, disconnect it, and list what is connected."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from shopfloor.connect import config_files, json_text
from shopfloor.connect.clients import CLIENTS, SERVER_NAME, Client, Entry, Scope
from shopfloor.connect.endpoints import Endpoint, find_token, get_token_id, read_endpoint
from shopfloor.connect.locations import expand_path, find_config
from shopfloor.errors import AgentNotFound, InvalidInput

Transport = Literal["http", "stdio"]
Json = dict[str, Any]
CallDesk = Callable[..., Json]

TOKEN_FOLDER = "clients"  # nosec B105 # the name of a folder
TOKEN_PLACEHOLDER = "TOKEN"  # nosec B105 # what --print shows
HOOK_COMMAND = "hook"


@dataclass(frozen=True, slots=True)
class Server:
    """The server to connect to: its project, data folder, URL if it runs, and the command that starts it on stdio."""

    project: Path
    data: Path
    url: str | None
    default_url: str
    program: tuple[str, ...]
    options: tuple[str, ...]
    call_desk: CallDesk


@dataclass(frozen=True, slots=True)
class Choice:
    """One client in one scope over one transport, with its config file and the path of its entry there."""

    client: Client
    scope: Scope
    transport: Transport
    file: Path
    keys: tuple[str, ...]
    agent: str

    @property
    def is_reference(self) -> bool:
        """Whether the config refers to an environment variable instead of containing the token."""
        return self.transport == "http" and self.scope == "project" and self.client.reference is not None

    @property
    def has_token(self) -> bool:
        """Whether the token itself is written to the config."""
        return self.transport == "http" and not self.is_reference


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file with its text before and after."""

    file: Path
    before: str
    after: str
    is_private: bool

    @property
    def is_change(self) -> bool:
        return self.before != self.after

    def write(self) -> Path | None:
        """Write the file and return the backup of its old version, if any."""
        return config_files.write_text(self.file, self.after, private=self.is_private) if self.is_change else None

    def remove(self) -> None:
        """Write the file without its entry. The backup that `connect` made stays, unless the file is identical to it
        again."""
        if self.is_change:
            config_files.write_text(self.file, self.after, private=self.is_private, backup=False)
            config_files.remove_equal_backup(self.file)


def find_client(name: str) -> Client:
    """Return the client of that name."""
    if name not in CLIENTS:
        near = get_close_matches(name, CLIENTS, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known clients: {', '.join(CLIENTS)}"
        raise InvalidInput(f"Unknown client '{name}'", hint=hint, field="client")
    return CLIENTS[name]


def choose(
    server: Server, client: Client, scope: str | None, transport: str | None, agent: str | None, type: str | None
) -> Choice:
    """Decide on scope, transport, file and agent, and check everything that can fail before anything is written."""
    found_scope = _choose_scope(client, scope)
    location = client.locations[found_scope]
    file = find_config(location, server.project)
    config_files.check_folders(file, server.project)
    chosen = _choose_transport(server, client, found_scope, transport, file)
    keys = (*(key.replace("{project}", str(server.project)) for key in location.keys), SERVER_NAME)
    current = find_entry(file, client, keys)
    known = None if current is None else _find_agent(server, client, current)
    choice = Choice(client, found_scope, chosen, file, keys, agent or known or client.name)
    _check_agent(server, choice.agent, type)
    return choice


def _choose_scope(client: Client, scope: str | None) -> Scope:
    for known in client.locations:
        if scope in (None, known):
            return known
    raise InvalidInput(
        f"{client.title} has no config with the scope '{scope}'; expected one of {', '.join(client.locations)}",
        field="scope",
    )


def _choose_transport(server: Server, client: Client, scope: Scope, transport: str | None, file: Path) -> Transport:
    if transport not in (None, "http", "stdio"):
        raise InvalidInput(f"Unknown transport '{transport}'; expected one of http, stdio", field="transport")
    exposes_token = scope == "project" and client.reference is None and config_files.is_shared(file)
    if transport == "stdio" or (transport is None and (server.url is None or exposes_token)):
        return "stdio"
    if exposes_token:
        raise InvalidInput(
            f"{client.title} cannot refer to a variable, so {file} would have the token, and git tracks that file",
            hint="Use --scope user or --transport stdio",
        )
    return "http"


def _check_agent(server: Server, name: str, type: str | None) -> None:
    try:
        agent = server.call_desk("agent_show", name=name)["agent"]
    except AgentNotFound:
        return
    if agent["retiredAt"] is not None:
        raise InvalidInput(f"Agent '{name}' has retired, and its name cannot be used again", hint="Choose --name AGENT")
    if type is not None and agent["type"] != type.upper():
        raise InvalidInput(
            f"Agent '{name}' exists with the type {agent['type']}", hint="Choose another --name, or omit --type"
        )


def find_entry(file: Path, client: Client, keys: Sequence[str]) -> Entry | None:
    """Return the entry in the client's config, or None."""
    value: Any = config_files.read_config(file, client.format)[1]
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


# --- plans ---


def build_entry(server: Server, choice: Choice, token: str) -> Entry:
    """Return the entry that connects the client."""
    if choice.transport == "stdio":
        return choice.client.build_stdio(
            [*server.program, "stdio", "--project", str(server.project), *server.options, "--as", choice.agent]
        )
    url = f"{server.url or server.default_url}/mcp"
    return choice.client.build_http(url, None if choice.is_reference else token)


def plan_changes(server: Server, choice: Choice, token: str) -> list[FileChange]:
    """Return the changes to the client's config, and to its hook file if that is a different file."""
    text, _ = config_files.read_config(choice.file, choice.client.format)
    entry = build_entry(server, choice, token)
    after = text
    if entry != find_entry(choice.file, choice.client, choice.keys):
        after = config_files.set_member(text, choice.client.format, choice.keys, entry)
    change = FileChange(choice.file, text, after, choice.scope != "project")
    return _add_hook_change(server, choice.client, choice.scope, change, build_hooks(server, choice))


def build_hooks(server: Server, choice: Choice) -> list[Json]:
    """Return the hook that shows unread mail, in the shape common to all clients with hooks."""
    hook = choice.client.hook
    if hook is None or choice.scope not in hook.paths:
        return []
    place = ("--project", str(server.project), *server.options)
    words = [*server.program, HOOK_COMMAND, *place, "--as", choice.agent, "--event", hook.event]
    return [{"hooks": [{"type": "command", "command": shlex.join(words)}]}]


def _add_hook_change(
    server: Server, client: Client, scope: Scope, change: FileChange, ours: list[Json]
) -> list[FileChange]:
    """Return the change together with one that replaces our hooks with these; in the same file, merge them."""
    if client.hook is None or scope not in client.hook.paths:
        return [change]
    file = expand_path(client.hook.paths[scope], server.project)
    config_files.check_folders(file, server.project)
    if file == change.file:
        after = _replace_hooks(change.file, change.after, client.hook.event, ours)
        return [FileChange(file, change.before, after, change.is_private)]
    text, _ = config_files.read_config(file, "json")
    return [change, FileChange(file, text, _replace_hooks(file, text, client.hook.event, ours), True)]


def _replace_hooks(file: Path, text: str, event: str, ours: list[Json]) -> str:
    value = json_text.parse(text) if text.strip() else {}
    hooks = value.get("hooks") or {}
    groups = hooks.get(event, []) if isinstance(hooks, dict) else None
    if not isinstance(groups, list):
        raise InvalidInput(f"The hooks in {file} have an unknown form, so they were not changed")
    changed = [group for group in groups if not _is_our_hook(group)] + ours
    if changed == groups:
        return text
    if changed:
        return config_files.set_member(text, "json", ("hooks", event), changed)
    return config_files.remove_member(text, "json", ("hooks", event))


def _is_our_hook(group: Any) -> bool:
    return f" {HOOK_COMMAND} --project " in json.dumps(group) and "shopfloor" in json.dumps(group)


# --- connect ---


@dataclass(frozen=True, slots=True)
class Connection:
    """What connecting a client changed, and how the client now reaches the server."""

    choice: Choice
    endpoint: Endpoint
    files: tuple[Path, ...]
    backups: tuple[Path, ...]
    token_file: Path | None
    created_agent: bool
    replaced: str | None
    """The address of another server's entry that was replaced."""


def connect(server: Server, choice: Choice, type: str | None) -> Connection:
    """Create the agent and its token as needed, and write the client's config. Repeating it changes nothing."""
    current = find_entry(choice.file, choice.client, choice.keys)
    # Detect a config that cannot be edited before an agent and a token exist.
    plan_changes(server, choice, TOKEN_PLACEHOLDER)
    before = None if current is None else read_endpoint(current)
    old_token = None if current is None else _read_token(server, choice.client, current)
    created = _ensure_agent(server, choice.agent, type)
    is_usable = old_token is not None and _find_owner(server, old_token) == choice.agent
    is_new_token = choice.transport == "http" and not is_usable
    token = _issue_token(server, choice.agent) if is_new_token else old_token or ""
    try:
        changes = plan_changes(server, choice, token)
        token_file = _write_token_file(server, choice, token) if choice.is_reference else None
        backups = [change.write() for change in changes]
    except InvalidInput:
        if is_new_token:
            server.call_desk("token_revoke", id=get_token_id(token))
        raise
    is_unused = choice.transport == "stdio" or old_token != token
    if old_token is not None and is_unused and _find_owner(server, old_token) is not None:
        server.call_desk("token_revoke", id=get_token_id(old_token))
    endpoint = read_endpoint(build_entry(server, choice, token))
    if choice.is_reference:
        endpoint = Endpoint(endpoint.url, {"Authorization": f"Bearer {token}"})
    is_other = before is not None and before.address != endpoint.address and before.transport == endpoint.transport
    return Connection(
        choice,
        endpoint,
        tuple(change.file for change in changes if change.is_change),
        tuple(backup for backup in backups if backup is not None),
        token_file,
        created,
        before.address if before is not None and is_other else None,
    )


def _ensure_agent(server: Server, name: str, type: str | None) -> bool:
    """Create the agent if it does not exist, and return whether this call created it."""
    try:
        server.call_desk("agent_show", name=name)
    except AgentNotFound:
        server.call_desk("agent_create", name=name, type=(type or "WORKER").upper(), issueToken=False)
        return True
    return False


def _issue_token(server: Server, agent: str) -> str:
    return str(server.call_desk("token_issue", agent=agent)["token"])


def _get_token_file(server: Server, client: Client) -> Path:
    return server.data / TOKEN_FOLDER / f"{client.name}.env"


def _write_token_file(server: Server, choice: Choice, token: str) -> Path:
    """Write the token to a file that only the user can read, as a line for the shell."""
    file = _get_token_file(server, choice.client)
    line = f"export {choice.client.variable}={token}\n"
    if config_files.read_text(file) != line:
        config_files.write_text(file, line, private=True, backup=False)
    return file


def _read_token(server: Server, client: Client, entry: Entry) -> str | None:
    """Return the token of an entry, or the one in the file that its variable is loaded from."""
    endpoint = read_endpoint(entry)
    if endpoint.token is not None:
        return endpoint.token
    if client.variable in " ".join(endpoint.headers.values()):
        return find_token(config_files.read_text(_get_token_file(server, client)))
    return None


def _find_owner(server: Server, token: str) -> str | None:
    """Return the agent of a valid token of this server."""
    id = get_token_id(token)
    cursor: str | None = None
    while True:
        page = server.call_desk("token_list", limit=200, cursor=cursor)
        for each in page["tokens"]:
            if each["id"] == id:
                return str(each["owner"]) if each["state"] == "valid" else None
        cursor = page.get("nextCursor")
        if cursor is None:
            return None


def _find_agent(server: Server, client: Client, entry: Entry) -> str | None:
    """Return the agent that an entry of this server acts as."""
    endpoint = read_endpoint(entry)
    if endpoint.transport == "stdio":
        is_ours = endpoint.find_option("--project") == str(server.project)
        return endpoint.find_option("--as") if is_ours else None
    token = _read_token(server, client, entry)
    return None if token is None else _find_owner(server, token)


# --- remove and list ---


@dataclass(frozen=True, slots=True)
class Removal:
    """What disconnecting a client in one scope changed."""

    scope: Scope
    files: tuple[Path, ...]
    backups: tuple[Path, ...]
    """Backups that differ from the files as they are now."""
    agent: str | None
    revoked: str | None


def disconnect(server: Server, client: Client, scope: str | None) -> list[Removal]:
    """Remove the entry and the hook, and revoke the token, in the scope or in all of them."""
    scopes = list(client.locations) if scope is None else [_choose_scope(client, scope)]
    return [removal for each in scopes if (removal := _disconnect_scope(server, client, each))]


def _disconnect_scope(server: Server, client: Client, scope: Scope) -> Removal | None:
    found = _find_connected(server, client, scope)
    if found is None:
        return None
    file, keys, entry = found
    agent, token = _find_agent(server, client, entry), _read_token(server, client, entry)
    text, _ = config_files.read_config(file, client.format)
    change = FileChange(file, text, config_files.remove_member(text, client.format, keys), True)
    changes = _add_hook_change(server, client, scope, change, [])
    for each in changes:
        each.remove()
    revoked = None
    if token is not None and agent is not None:
        revoked = get_token_id(token)
        server.call_desk("token_revoke", id=revoked)
    if client.variable in json.dumps(entry):
        _get_token_file(server, client).unlink(missing_ok=True)
    files = tuple(each.file for each in changes if each.is_change)
    backups = tuple(backup for each in files if (backup := config_files.get_backup(each)).exists())
    return Removal(scope, files, backups, agent, revoked)


def _find_connected(server: Server, client: Client, scope: Scope) -> tuple[Path, tuple[str, ...], Entry] | None:
    location = client.locations[scope]
    file = find_config(location, server.project)
    keys = (*(key.replace("{project}", str(server.project)) for key in location.keys), SERVER_NAME)
    entry = find_entry(file, client, keys)
    return None if entry is None else (file, keys, entry)


def list_connections(server: Server) -> Iterator[Json]:
    """Yield the clients whose config has an entry for Shopfloor, with the agent if it belongs to this server."""
    for client in CLIENTS.values():
        for scope in client.locations:
            try:
                found = _find_connected(server, client, scope)
            except InvalidInput as error:
                yield _describe_connection(client, scope, None, None, error.message)
                continue
            if found is None:
                continue
            file, _, entry = found
            agent = _find_agent(server, client, entry)
            state = "connected" if agent is not None else "not for this server, or its token was revoked"
            yield _describe_connection(client, scope, read_endpoint(entry), agent, state, file)


def _describe_connection(
    client: Client, scope: Scope, endpoint: Endpoint | None, agent: str | None, state: str, file: Path | None = None
) -> Json:
    return {
        "client": client.name,
        "scope": scope,
        "transport": None if endpoint is None else endpoint.transport,
        "agent": agent,
        "state": state,
        "file": None if file is None else str(file),
    }
