"""The table of clients: where each keeps its config, what an entry looks like, and its own command line.

`shopfloor connect`, docs/clients.md and the page of a new token all read this table.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

SERVER_NAME = "shopfloor"
"""The name of the entry in the config of every client."""

Scope = Literal["local", "project", "user"]
Format = Literal["json", "toml", "yaml"]
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Location:
    """A client's config file in one scope, and the keys of its table of MCP servers.

    In the path, `~` is the home folder and `{project}` the project root. `{config}` is the user's config folder and
    `{vscode}` the folder of VS Code's user settings. A key may also be `{project}`.
    """

    path: str
    keys: tuple[str, ...]
    alternative: str = ""
    """Another name of the file, used if only that file exists."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A client's files with hooks, and the event at which it shows unread mail to the model.

    Only files of one user are listed: the command contains a path of this machine, which a shared file must not.
    """

    event: str
    paths: Mapping[Scope, str]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """A client: config files by scope, the default scope first, and the entry for each transport.

    In an entry, `{url}`, `{authorization}`, `{token}`, `{variable}` and `{command}` are replaced. An item `{arguments}`
    of a list becomes the arguments.
    """

    name: str
    title: str
    program: str
    format: Format
    locations: Mapping[Scope, Location]
    http: Entry
    stdio: Entry
    reference: str | Entry | None
    """How the header refers to an environment variable, or the whole entry if its shape differs."""
    add_http: str
    add_stdio: str
    headless: str = ""
    note: str = ""
    hook: Hook | None = None

    @property
    def default_scope(self) -> Scope:
        """The scope to use unless another is given."""
        return next(iter(self.locations))

    @property
    def variable(self) -> str:
        """The environment variable that a shared config refers to."""
        # Not SHOPFLOOR_…: that prefix belongs to the settings.
        return f"{self.name.upper()}_SHOPFLOOR_TOKEN"

    def build_http(self, url: str, token: str | None) -> Entry:
        """Return the entry for HTTP with the token itself; without a token, with a reference to the variable."""
        if token is None and isinstance(self.reference, dict):
            return _fill(self.reference, {"url": url, "variable": self.variable})
        secret = f"Bearer {token}" if token is not None else str(self.reference).replace("NAME", self.variable)
        return _fill(self.http, {"url": url, "authorization": secret})

    def build_stdio(self, command: Sequence[str]) -> Entry:
        """Return the entry for a server that the client starts itself."""
        return _fill(self.stdio, {"command": command[0]}, list(command[1:]))

    def format_command(self, url: str, token: str) -> str:
        """Return the client's own command that connects it over HTTP or, if it has none, the lines of its config."""
        return self.add_http.replace("{url}", url).replace("{token}", token).replace("{variable}", self.variable)

    def format_stdio_command(self, command: Sequence[str]) -> str:
        """Return the client's own command that connects it over stdio."""
        arguments = shlex.join(command[1:])
        return self.add_stdio.replace("{command}", shlex.quote(command[0])).replace("{arguments}", arguments)


def _fill(template: Entry, values: Mapping[str, str], arguments: Sequence[str] = ()) -> Entry:
    """Replace the placeholders of an entry."""
    return {key: _fill_value(value, values, arguments) for key, value in template.items()}


def _fill_value(template: Any, values: Mapping[str, str], arguments: Sequence[str]) -> Any:
    if isinstance(template, dict):
        return _fill(template, values, arguments)
    if isinstance(template, list):
        items = [list(arguments) if item == "{arguments}" else [_fill_value(item, values, ())] for item in template]
        return [item for part in items for item in part]
    if isinstance(template, str):
        for name, value in values.items():
            template = template.replace(f"{{{name}}}", value)
    return template


_HEADERS = {"Authorization": "{authorization}"}
_TYPED_HTTP: Entry = {"type": "http", "url": "{url}", "headers": _HEADERS}
_TYPED_STDIO: Entry = {"type": "stdio", "command": "{command}", "args": ["{arguments}"]}
_PLAIN_STDIO: Entry = {"command": "{command}", "args": ["{arguments}"]}
_CLASH = "It has a `read_file` of its own; Shopfloor's is `{name}`. In prompts, say which one you mean."

CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Client(
            name="claude",
            title="Claude Code",
            program="claude",
            format="json",
            locations={
                "local": Location("~/.claude.json", ("projects", "{project}", "mcpServers")),
                "project": Location("{project}/.mcp.json", ("mcpServers",)),
                "user": Location("~/.claude.json", ("mcpServers",)),
            },
            http=_TYPED_HTTP,
            stdio=_TYPED_STDIO,
            reference="Bearer ${NAME}",
            add_http=(
                "claude mcp add --transport http shopfloor {url} --header \"Authorization: Bearer {token}\""
            ),
            add_stdio="claude mcp add shopfloor -- {command} {arguments}",
            headless="--allowedTools mcp__shopfloor",
            note="It asks once before it uses the servers in a project's `.mcp.json`.",
            hook=Hook(
                "UserPromptSubmit",
                {
                    "local": "{project}/.claude/settings.local.json",
                    "project": "{project}/.claude/settings.local.json",
                    "user": "~/.claude/settings.json",
                },
            ),
        ),
        Client(
            name="codex",
            title="Codex",
            program="codex",
            format="toml",
            locations={
                "user": Location("~/.codex/config.toml", ("mcp_servers",)),
                "project": Location("{project}/.codex/config.toml", ("mcp_servers",)),
            },
            http={"url": "{url}", "http_headers": _HEADERS},
            stdio=_PLAIN_STDIO,
            reference={"url": "{url}", "bearer_token_env_var": "{variable}"},  # nosec B105 # the name of a variable
            add_http=(
                "export {variable}={token}\n"
                "codex mcp add shopfloor --url {url} --bearer-token-env-var {variable}"
            ),
            add_stdio="codex mcp add shopfloor -- {command} {arguments}",
            note="It reads the config of a project only if the project is trusted.",
            hook=Hook(
                "UserPromptSubmit",
                {"user": "~/.codex/hooks.json"},
                "Codex runs a new hook only after you trust it: type /hooks in Codex.",
            ),
        ),
        Client(
            name="opencode",
            title="opencode",
            program="opencode",
            format="json",
            locations={
                "user": Location("{config}/opencode/opencode.json", ("mcp",), "opencode.jsonc"),
                "project": Location("{project}/opencode.json", ("mcp",), "opencode.jsonc"),
            },
            http={"type": "remote", "url": "{url}", "headers": _HEADERS, "enabled": True},
            stdio={"type": "local", "command": ["{command}", "{arguments}"], "enabled": True},
            reference="Bearer {env:NAME}",
            add_http="opencode mcp add shopfloor --url {url} --header \"Authorization=Bearer {token}\"",
            add_stdio="opencode mcp add shopfloor -- {command} {arguments}",
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            program="gemini",
            format="json",
            locations={
                "user": Location("~/.gemini/settings.json", ("mcpServers",)),
                "project": Location("{project}/.gemini/settings.json", ("mcpServers",)),
            },
            http={"url": "{url}", "type": "http", "headers": _HEADERS},
            stdio=_PLAIN_STDIO,
            reference="Bearer ${NAME}",
            add_http="gemini mcp add --transport http shopfloor {url} -H \"Authorization: Bearer {token}\"",
            add_stdio="gemini mcp add shopfloor {command} -- {arguments}",
            headless="-y --skip-trust",
            note="It loads MCP servers only in a trusted folder. " + _CLASH.format(name="mcp_shopfloor_read_file"),
            hook=Hook("BeforeAgent", {"user": "~/.gemini/settings.json"}),
        ),
        Client(
            name="qwen",
            title="Qwen Code",
            program="qwen",
            format="json",
            locations={
                "user": Location("~/.qwen/settings.json", ("mcpServers",)),
                "project": Location("{project}/.qwen/settings.json", ("mcpServers",)),
            },
            http={"httpUrl": "{url}", "headers": _HEADERS},
            stdio=_PLAIN_STDIO,
            reference="Bearer ${NAME}",
            add_http="qwen mcp add --transport http shopfloor {url} -H \"Authorization: Bearer {token}\"",
            add_stdio="qwen mcp add shopfloor {command} -- {arguments}",
            headless="-y",
            note=_CLASH.format(name="mcp__shopfloor__read_file"),
            hook=Hook("UserPromptSubmit", {"user": "~/.qwen/settings.json"}),
        ),
        Client(
            name="goose",
            title="goose",
            program="goose",
            format="yaml",
            locations={"user": Location("{config}/goose/config.yaml", ("extensions",))},
            http={
                "enabled": True, "type": "streamable_http", "name": "shopfloor", "description": "", "uri": "{url}",
                "headers": _HEADERS, "timeout": 60,
            },
            stdio={
                "enabled": True, "type": "stdio", "name": "shopfloor", "description": "", "cmd": "{command}",
                "args": ["{arguments}"], "timeout": 60,
            },
            reference=None,
            add_http="",
            add_stdio="",
            note="It has no non-interactive command that adds a server, and no project config.",
        ),
        Client(
            name="cursor",
            title="Cursor",
            program="cursor",
            format="json",
            locations={
                "user": Location("~/.cursor/mcp.json", ("mcpServers",)),
                "project": Location("{project}/.cursor/mcp.json", ("mcpServers",)),
            },
            http={"url": "{url}", "headers": _HEADERS},
            stdio=_PLAIN_STDIO,
            reference="Bearer ${env:NAME}",
            add_http="",
            add_stdio="",
            note="With the scope `project`, start Cursor from a shell that has loaded its token.",
        ),
        Client(
            name="vscode",
            title="VS Code",
            program="code",
            format="json",
            locations={
                "user": Location("{vscode}/mcp.json", ("servers",)),
                "project": Location("{project}/.vscode/mcp.json", ("servers",)),
            },
            http=_TYPED_HTTP,
            stdio=_TYPED_STDIO,
            reference="Bearer ${env:NAME}",
            add_http="",
            add_stdio="",
            note="With the scope `project`, start VS Code from a shell that has loaded its token.",
        ),
        Client(
            name="zed",
            title="Zed",
            program="zed",
            format="json",
            locations={
                "user": Location("{config}/zed/settings.json", ("context_servers",)),
                "project": Location("{project}/.zed/settings.json", ("context_servers",)),
            },
            http={"url": "{url}", "headers": _HEADERS},
            stdio={**_PLAIN_STDIO, "env": {}},
            reference=None,
            add_http="",
            add_stdio="",
            note="Its config cannot refer to a variable, so a shared project uses stdio.",
        ),
        Client(
            name="crush",
            title="Crush",
            program="crush",
            format="json",
            locations={
                "user": Location("{config}/crush/crush.json", ("mcp",)),
                "project": Location("{project}/.crush.json", ("mcp",), "crush.json"),
            },
            http=_TYPED_HTTP,
            stdio=_TYPED_STDIO,
            reference="$(echo Bearer $NAME)",
            add_http="",
            add_stdio="",
        ),
    )
}  # fmt: skip
"""Every client by its name."""


def list_commands(url: str, token: str) -> list[tuple[str, str]]:
    """Return the title and the command of every client that has one, ready to paste."""
    return [(client.title, client.format_command(url, token)) for client in CLIENTS.values() if client.add_http]


def format_commands(url: str, token: str) -> str:
    """Return the commands of all clients as text for a terminal."""
    lines = [f"  {line}" for _, command in list_commands(url, token) for line in command.splitlines()]
    others = "|".join(client.name for client in CLIENTS.values() if not client.add_http)
    return "\n".join(["To connect a client with this token:", *lines, f"Others: shopfloor connect {others}"])
