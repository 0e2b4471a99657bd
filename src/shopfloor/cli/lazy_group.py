"""A command group that imports a command's module only when the command is run."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

import typer
from typer.core import CompletionItem, TyperGroup  # type: ignore[attr-defined]

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
# The shell's script sets it and runs the program, which then prints completions instead of running a command.
COMPLETION_VARIABLE = "_SHOPFLOOR_COMPLETE"

# `shopfloor --help` needs only this table: it takes 0.12 s of CPU instead of 0.35 s with every command built. Each
# command has its location, as `module:name of a Typer object`, and its line of help.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "init": ("init:app", "Set up a project."),
        "serve": ("serve:app", "Start the server."),
        "connect": ("connect:app", "Connect an MCP client to this project."),
        "demo": ("demo:app", "Start a server with a scripted team of agents."),
        "doctor": ("doctor:app", "Diagnose problems, and say how to fix them."),
    },
    "Work": {
        "task": ("tasks:app", "Add, list, show, assign and complete tasks."),
        "epic": ("epics:app", "Add, list, show and complete epics."),
        "mail": ("mail:app", "Send, list and read mail."),
        "board": ("board:app", "Show boards and tasks, and change them."),
        "todo": ("todos:app", "Show and change the todo list of a user."),
        "search": ("context:app", "Search code and the team's memory."),
        "read": ("context:app", "Print a file of the project."),
        "grep": ("context:app", "Search the project's files for a pattern."),
    },
    "Watch and answer": {
        "status": ("desk:app", "Show agents, runs and what waits for a person."),
        "watch": ("watch:app", "Show agents, inbox and runs full-screen."),
        "inbox": ("inbox:app", "List and answer what waits for a person."),
        "log": ("desk:app", "Show the log of calls and decisions."),
        "link": ("desk:app", "Print a sign-in link to the pages."),
    },
    "Drive agents": {
        "run": ("run:app", "Drive an agent until its work is verified."),
        "runs": ("runs:runs", "List runs and their requests, and answer them."),
        "say": ("runs:app", "Send a message to a run."),
        "pause": ("runs:app", "Pause a run after its current iteration."),
        "resume": ("runs:app", "Resume a paused run."),
        "stop": ("runs:app", "Stop a run."),
        "crew": ("crew:app", "Have several agents work on an epic."),
        "template": ("template:app", "Export prompt templates and a crew.toml."),
    },
    "Agents and users": {
        "agent": ("agents:app", "Add, list, show and retire agents."),
        "user": ("users:app", "Add, list and remove users."),
        "desk": ("desk:app", "Set the desk role of a user."),
        "token": ("tokens:app", "Issue, list and revoke tokens."),
        "admin": ("admin:app", "Rotate the operator's token and the signing key."),
    },
    "Data": {
        "import": ("imports:app", "Import tasks from another tracker, or a whole store."),
        "export": ("exports:app", "Write epics and tasks, or the whole store, as a file."),
        "backup": ("backup:app", "Back up the store while it is in use."),
        "restore": ("backup:app", "Restore a backup to a new place."),
        "verify": ("backup:app", "Check the store, its index and its log, or a backup."),
        "migrate": ("backup:app", "Bring the schema of the database up to date."),
        "compact": ("backup:app", "Return the space of deleted rows to the disk."),
        "index": ("context:app", "Update the index of the project."),
        "model": ("context:model", "Install and show the local embedding model."),
    },
    "For programs": {
        "stdio": ("stdio:app", "Serve MCP over standard input and output."),
        "call": ("calls:app", "Call a tool and print its response."),
        "tools": ("calls:app", "List the tools of one toolset or of all."),
        "tool": ("tool:app", "Call a tool of a run."),
        "hook": ("connect:app", "Print unread mail for a client's hook."),
        "completion": ("completion:app", "Print the completion script of a shell."),
    },
}
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}
PLURALS = {f"{name}s": name for name in ("agent", "crew", "epic", "model", "task", "token", "user")}
"""Plural names of groups, which work but are not listed."""


class LazyGroup(TyperGroup):
    """The commands of the table, in its order."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        cmd_name = PLURALS.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        holder: typer.Typer = getattr(import_module(f"shopfloor.cli.{module}"), attribute)
        if any(command.name == cmd_name for command in holder.registered_commands):
            return typer.main.get_group(holder).get_command(ctx, cmd_name)
        group = typer.main.get_command(holder)
        group.name = cmd_name
        return group

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            # Typer suggests only commands that it has built, and here it has built none.
            if matches := get_close_matches(args[0], COMMANDS):
                error.message = f"{error.message} Did you mean {', '.join(map(repr, matches))}?"
            raise

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        # The names come from the table: building every command for its line of help takes 0.35 s at each key press.
        return [CompletionItem(name, help=help) for name, (_, help) in COMMANDS.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                # Padded names: otherwise the second column would start elsewhere in each section.
                formatter.write_dl([(name.ljust(width), help) for name, (_, help) in commands.items()])
