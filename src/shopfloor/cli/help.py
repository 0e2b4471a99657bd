"""The help texts of commands: arguments by name, options with examples, and the project's options in a last section."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# A longer name gets its own line.
MAX_NAME_WIDTH = 28
# Options that nearly every command has. They come last, so that a command's own options are seen first.
PROJECT_OPTIONS = ("project", "data", "database", "workspace")

# The value of an option, where the last part of its name does not say it.
_VALUES = {
    "--as": "NAME",
    "--assign": "AGENT",
    "--assignee": "AGENT",
    "--blocked-by": "TASK",
    "--data": "FOLDER",
    "--database": "URL",
    "--extra": "TEXT",
    "--folder": "FOLDER",
    "--grace": "TIME",
    "--handshake": "TIME",
    "--iterations": "N",
    "--limit": "N",
    "--no-progress": "N",
    "--output": "FILE",
    "--project": "FOLDER",
    "--rate-limit-pause": "TIME",
    "--remove-blocker": "TASK",
    "--resume": "RUN",
    "--review-rounds": "N",
    "--sandbox-hide": "PATH",
    "--sandbox-write": "PATH",
    "--since": "TIME",
    "--spec": "FILE",
    "--supervisor": "AGENT",
    "--template": "FILE",
    "--tokens": "N",
    "--ttl": "TIME",
    "--until": "TIME",
    "--verify": "COMMAND",
    "--workers": "N",
    "--workspace": "NAME",
}

EXAMPLES: dict[str, tuple[str, ...]] = {
    "init": ("shopfloor init --yes",),
    "serve": ("shopfloor serve --port 4000",),
    "connect": ("shopfloor connect claude", "shopfloor connect codex --print", "shopfloor connect claude --remove"),
    "task add": (
        "shopfloor task add 'Fix the login page'",
        "shopfloor task add 'Test it' --epic epic-1 --blocked-by task-1",
    ),
    "task list": ("shopfloor task list --state review", "shopfloor task list --epic epic-1 --all"),
    "task done": ("shopfloor task done task-3 --comment 'Looks good'",),
    "epic add": ("shopfloor epic add 'Ship the checkout'",),
    "mail send": ("shopfloor mail send worker-1 'Please look at task-3 first'", "git diff | shopfloor mail send qa -"),
    "board": ("shopfloor board epic-1", "shopfloor board task-3 --state review --priority 0"),
    "search": ("shopfloor search 'where are passwords checked'", "shopfloor search login --path 'src/**'"),
    "grep": ("shopfloor grep 'def main' --glob '**/*.py'",),
    "read": ("shopfloor read src/login.py --from 10 --to 40", "shopfloor read src --outline"),
    "inbox answer": ("shopfloor inbox answer mail-12 Keep", "shopfloor inbox answer request-3 allow"),
    "log": (
        "shopfloor log --agent worker-1 --since 1h",
        "shopfloor log --outcome error",
        "shopfloor log ref-1a2b3c4d",
    ),
    "run": ("shopfloor run --spec SPEC.md --agent 'opencode acp' --verify 'make test'", "shopfloor run --resume SPEC"),
    "say": ("shopfloor say SPEC 'Use the new parser'",),
    "agent add": ("shopfloor agent add worker-1", "shopfloor agent add lead --type SUPERVISOR"),
    "token issue": ("shopfloor token issue --agent worker-1 --ttl 7d",),
    "desk": ("shopfloor desk ann editor",),
    "import beads": ("shopfloor import beads --dry-run", "shopfloor import beads ../old/.beads/issues.jsonl"),
    "export markdown": ("shopfloor export markdown --output PLAN.md",),
    "backup": ("shopfloor backup /mnt/backups",),
    "call": (
        "shopfloor call factory mcp__agent__get_status",
        'shopfloor call factory mcp__task__claim \'{"taskId": "task-3"}\' --as worker-1',
    ),
}


class HelpFormat:
    """The help and the errors of a command or a group. Typer shows Python types where people look for names."""

    params: list[Any]
    options_metavar: str | None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for param in self.params:
            if param.metavar is None and not getattr(param, "is_flag", False):
                option = param.opts[0]
                is_argument = param.param_type_name == "argument"
                name = param.name if is_argument else _VALUES.get(option, option.rpartition("-")[2])
                param.metavar = name.upper()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc, no-any-return]
        except typer.TyperException as error:
            # An option without its value is rejected without a context, which the hint is made from.
            if getattr(error, "ctx", None) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the part of the usage line after the command's name."""
        arguments = [each for each in self.params if each.param_type_name == "argument" and not each.hidden]
        pieces = [self.options_metavar] if self.options_metavar else []
        for each in arguments:
            name = f"{each.metavar}..." if each.nargs != 1 else each.metavar
            pieces.append(name if each.required else f"[{name}]")
        return [*pieces, "COMMAND [ARGS]..."] if isinstance(self, TyperGroup) else pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, commands, examples and the project's options."""
        arguments: list[tuple[str, str]] = []
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for param in self.get_params(ctx):  # type: ignore[attr-defined]
            record = param.get_help_record(ctx)
            if record is None:
                continue
            text = re.sub(r"(\d+)<=x<=(\d+)", r"from \1 to \2", record[1])
            if param.param_type_name == "argument":
                arguments.append((param.metavar, text.removesuffix("[required]").rstrip()))
            else:
                text += " Repeatable." if param.multiple else ""
                (common if param.name in PROJECT_OPTIONS else own).append((record[0], text))
        _write_section(formatter, "Arguments", arguments)
        _write_section(formatter, "Options", own)
        if isinstance(self, TyperGroup):
            _write_section(formatter, "Commands", self._describe_commands(ctx))  # type: ignore[attr-defined]
        if examples := EXAMPLES.get(ctx.command_path.partition(" ")[2]):
            with formatter.section("Examples"):
                # Not wrapped, so that they can be copied.
                formatter.write("".join(f"  {example}\n" for example in examples))
        _write_section(formatter, "Project options", common)


def _write_section(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    """Write a table of two columns. Unlike the formatter's own, it does not break names such as task-add."""
    if not rows:
        return
    short = [len(name) for name, _ in rows if len(name) <= MAX_NAME_WIDTH]
    column = max(short, default=0) + 4
    with formatter.section(title):
        for name, text in rows:
            lines = textwrap.wrap(text, formatter.width - column, break_on_hyphens=False, break_long_words=False)
            if len(name) > MAX_NAME_WIDTH:
                lines = ["", *lines]
            for line, first in zip(lines or [""], [f"  {name}", *[""] * len(lines)], strict=False):
                formatter.write(f"{first:<{column}}{line}".rstrip() + "\n")


class Command(HelpFormat, TyperCommand):
    """A command with its help."""


class Group(HelpFormat, TyperGroup):
    """A group of commands with its help."""

    def _describe_commands(self, ctx: Any) -> list[tuple[str, str]]:
        """Return the commands, each with the complete first sentence of its help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            (name, re.split(r"(?<=[.:])\s", command.help or "")[0].replace(":", "."))
            for name, command in commands
            if command is not None and not command.hidden
        ]
