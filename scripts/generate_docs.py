"""Regenerate the generated parts of the documentation: `python -m scripts.generate_docs`, or `make docs`.

A generated part is between `<!-- generated: NAME -->` and `<!-- end -->`. `tests/test_docs.py` fails when one is stale.
The output depends on the code only, never on the terminal or the environment.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import annotated_types
import typer
from pydantic.fields import FieldInfo

from shopfloor import cli
from shopfloor.app import TOOLSETS
from shopfloor.cli import tools_markdown
from shopfloor.connect import config_files
from shopfloor.connect.clients import CLIENTS, SERVER_NAME, Client
from shopfloor.domain.principals import AGENT_TYPES
from shopfloor.runner import moves, states
from shopfloor.settings import Settings
from tests import test_architecture

CHECKOUT = Path(__file__).resolve().parent.parent
LINE_LENGTH = 118

Command = Any
Parameter = Any
"""Typer has its own copy of click's classes and does not export them."""


def main() -> None:
    for path in list_pages():
        (CHECKOUT / path).write_text(render_page(path), "utf-8")


def list_pages() -> list[str]:
    return sorted({path for path, _ in PARTS})


def render_page(path: str) -> str:
    """Return the text of a page with its generated parts replaced."""
    text = (CHECKOUT / path).read_text("utf-8")
    for (page, name), render in PARTS.items():
        if page == path:
            text = replace_part(text, name, render())
    return text


def replace_part(text: str, name: str, content: str) -> str:
    start, end = f"<!-- generated: {name} -->\n", "<!-- end -->\n"
    before, marker, rest = text.partition(start)
    _, closing, after = rest.partition(end)
    if not marker or not closing:
        raise ValueError(f"The markers of the generated part '{name}' are missing")
    return f"{before}{start}\n{content.strip()}\n\n{end}{after}"


# --- tools ---


def render_tools() -> str:
    return tools_markdown.render_tools(TOOLSETS.values(), AGENT_TYPES)


# --- commands ---


def render_commands() -> str:
    """Render every command with its arguments and options. Options of most commands are described once."""
    commands = dict(walk_commands(typer.main.get_command(cli.app), "shopfloor"))
    common = find_common_options(commands)
    lines = ["## Common options", "", *describe_common_options(common, commands)]
    for path, command in commands.items():
        usage = " ".join(
            [path, *(format_argument(each) for each in command.params if each.param_type_name == "argument")]
        )
        lines += ["", f"## `{usage}`", "", *describe_command(command)]
        options = [option for option in list_options(command) if option.opts[0] not in common]
        lines += ["", *(line for option in options for line in describe_option(option))] if options else []
    return "\n".join(lines)


def walk_commands(command: Command, path: str) -> Iterator[tuple[str, Command]]:
    """Yield every command that can be run, as it is typed, sorted by name."""
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    context = command.make_context("shopfloor", [], resilient_parsing=True)
    if command.invoke_without_command:
        yield path, command
    for name in sorted(command.list_commands(context)):
        child = command.get_command(context, name)
        if child is not None and not child.hidden:
            yield from walk_commands(child, f"{path} {name}")


def list_options(command: Command) -> list[Parameter]:
    options = [each for each in command.params if each.param_type_name == "option"]
    return [option for option in options if not option.hidden and "--help" not in option.opts]


def find_common_options(commands: dict[str, Command]) -> dict[str, Parameter]:
    """Return the options that more than half of the commands have, with the same help."""
    found: dict[tuple[str, str | None], list[Parameter]] = {}
    for command in commands.values():
        for option in list_options(command):
            found.setdefault((option.opts[0], option.help), []).append(option)
    return {name: options[0] for (name, _), options in found.items() if len(options) * 2 > len(commands)}


def describe_common_options(common: dict[str, Parameter], commands: dict[str, Command]) -> Iterator[str]:
    for name, option in common.items():
        without = [
            path.removeprefix("shopfloor ")
            for path, command in commands.items()
            if name not in {each.opts[0] for each in list_options(command)}
        ]
        suffix = f" Not for {', '.join(f'`{path}`' for path in without)}." if without else ""
        yield from describe_option(option, suffix)


def describe_command(command: Command) -> Iterator[str]:
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        yield from [""] * (number > 0)
        yield from wrap(" ".join(paragraph.split()))


def describe_option(option: Parameter, suffix: str = "") -> list[str]:
    names = ", ".join(f"`{name}`" for name in [*option.opts[1:], *option.secondary_opts])
    metavar = "" if option.is_flag else f" {format_value(option)}"
    notes = [f"Also {names}."] if names else []
    if option.multiple:
        notes.append("Repeatable.")
    if option.default not in (None, False, "", (), []) and not callable(option.default) and not option.required:
        notes.append(f"Default: `{option.default}`.")
    description = " ".join([sentence((option.help or "").strip()), *notes]) + suffix
    return wrap(f"`{option.opts[0]}{metavar}`: {description}", "- ")


def format_argument(argument: Parameter) -> str:
    name = (argument.metavar or argument.name or "").upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name.strip('[]')}]"


def format_value(option: Parameter) -> str:
    name: str = option.metavar or option.opts[0].lstrip("-").replace("-", "_").upper()
    return name


# --- settings ---


def render_settings() -> str:
    """Render every setting with its type, bounds and default."""
    return "\n".join(
        line
        for name, field in Settings.model_fields.items()
        for line in wrap(f"`{name}` ({describe_field(field)}): {field.description}", "- ")
    )


def describe_field(field: FieldInfo) -> str:
    """Describe the type and the default. A default that is computed is described by the setting itself."""
    default = field.default if field.default_factory is None else None
    kind = describe_type(field.annotation, field)
    if default in (None, "", ()):
        return kind
    values = (
        default if isinstance(default, tuple) else (str(default).lower() if isinstance(default, bool) else default,)
    )
    return f"{kind}; default {', '.join(f'`{value}`' for value in values)}"


def describe_type(annotation: Any, field: FieldInfo) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return describe_type(next(each for each in arguments if each is not type(None)), field)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return "list" if arguments[0] is str else "list of tables"
    if origin is dict:
        return "table"
    return {bool: "true or false", int: "integer", float: "number", str: "text", Path: "path"}[annotation] + bounds(
        field
    )


def bounds(field: FieldInfo) -> str:
    least = next((each.ge for each in field.metadata if isinstance(each, annotated_types.Ge)), None)
    most = next((each.le for each in field.metadata if isinstance(each, annotated_types.Le)), None)
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return "" if least is None else f" from {least}"


# --- clients ---


def render_clients() -> str:
    """Render the table of clients: for each its command, its config files, and what to know."""
    lines: list[str] = []
    for client in CLIENTS.values():
        lines += [f"### {client.title}", "", "```sh", f"shopfloor connect {client.name}", "```", ""]
        lines += describe_files(client)
        lines += ["", *describe_entries(client)]
        if client.headless:
            lines += ["", *wrap(f"Without a terminal, add `{client.headless}`.")]
        if client.note:
            lines += ["", *wrap(client.note)]
        if client.hook:
            files = ", ".join(f"`{path}`" for path in dict.fromkeys(client.hook.paths.values()))
            lines += ["", *wrap(f"Hook: `{client.hook.event}` in {show_places(files)}. {client.hook.note}")]
        lines.append("")
    return "\n".join(lines)


def describe_files(client: Client) -> Iterator[str]:
    yield from ("| scope | file | entry |", "|---|---|---|")
    for number, (scope, location) in enumerate(client.locations.items()):
        name = f"`{location.path}`" + (f" or `{location.alternative}`" if location.alternative else "")
        entry = ".".join([*location.keys, SERVER_NAME])
        default = " (default)" if number == 0 else ""
        yield show_places(f"| `{scope}`{default} | {name} | `{entry}` |")


def describe_entries(client: Client) -> Iterator[str]:
    """Yield the client's own commands, or without any the entries themselves."""
    command = ["/path/to/shopfloor", "stdio", "--project", "DIR", "--as", "AGENT"]
    if client.add_http:
        yield from ("```sh", *client.format_command("URL/mcp", "TOKEN").splitlines(), "```", "")
        yield from ("```sh", client.format_stdio_command(command), "```")
        return
    keys = (*client.locations[client.default_scope].keys, SERVER_NAME)
    for number, entry in enumerate((client.build_http("URL/mcp", "TOKEN"), client.build_stdio(command))):
        text = config_files.set_member("", client.format, keys, entry)
        yield from (*[""] * number, f"```{client.format}", *text.splitlines(), "```")


def show_places(text: str) -> str:
    """Replace the names of folders in the table of clients by how people write them."""
    folders = {"{project}/": "", "{config}/": "~/.config/", "{vscode}/": "~/.config/Code/User/", "{project}": "DIR"}
    for name, folder in folders.items():
        text = text.replace(name, folder)
    return text


# --- architecture ---


def render_imports() -> str:
    """Render the table of permitted imports that tests/test_architecture.py checks."""
    lines = ["| part | may import |", "|---|---|"]
    for part, allowed in test_architecture.MAY_IMPORT.items():
        lines.append(f"| `{part}` | {', '.join(f'`{name}`' for name in sorted(allowed)) or 'nothing'} |")
    for part, allowed in sorted(test_architecture.MAY_ALSO_IMPORT.items()):
        lines.append(f"| `{part}`, in addition | {', '.join(f'`{name}`' for name in sorted(allowed))} |")
    return "\n".join(lines)


def render_states() -> str:
    """Render the states of a run with their moves."""
    lines = ["| state | what it does | moves to |", "|---|---|---|"]
    for state, following in moves.MOVES.items():
        description = " ".join((inspect.getdoc(states.STATES[state]) or "").split("\n\n")[0].split())
        lines.append(f"| `{state.name}` | {description} | {', '.join(f'`{each.name}`' for each in following)} |")
    return "\n".join(lines)


# --- text ---


def wrap(text: str, bullet: str = "") -> list[str]:
    """Wrap a paragraph. Code and links stay on one line."""
    lines, line = [], bullet
    for word in re.findall(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+", text):
        if line.strip(" -") and len(line) + len(word) >= LINE_LENGTH:
            lines.append(line.rstrip())
            line = " " * len(bullet)
        line += f"{word} "
    return [*lines, line.rstrip()]


def sentence(text: str) -> str:
    return text if not text or text.endswith((".", "?", "!", ":")) else f"{text}."


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("ARCHITECTURE.md", "imports"): render_imports,
    ("ARCHITECTURE.md", "states"): render_states,
    ("docs/cli.md", "commands"): render_commands,
    ("docs/clients.md", "clients"): render_clients,
    ("docs/settings.md", "settings"): render_settings,
    ("docs/tools.md", "tools"): render_tools,
}
"""The generated parts: the page, the name in its markers, and the function that renders it."""


if __name__ == "__main__":
    main()
