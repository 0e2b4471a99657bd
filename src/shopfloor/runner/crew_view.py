"""The view of a crew on a terminal: one line per event, for a person who watches several agents at once."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable
from datetime import datetime
from typing import Any, TextIO

from shopfloor.runner.permissions import ANSWERS
from shopfloor.runner.view import format_until

_MAX_FURTHER_LINES = 8
"""Lines of output that follow the line of an event."""

_INDENT = " " * len("12:34:56 ")

Facts = dict[str, Any]


class CrewView:
    """One line per event, cut to the width of the terminal; text that must be read in full follows it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def show(self, event: str, **facts: Any) -> None:
        if event not in _LINES:
            return
        at = datetime.now().astimezone().strftime("%H:%M:%S")
        subject = facts.get("worker") or facts.get("crew") or facts.get("part") or ""
        text = _LINES[event](facts)
        width = max(shutil.get_terminal_size().columns, 40)
        first, *rest = text.splitlines() or [""]
        head = f"{at} {subject}: {first}"
        shown = [head if event in _COPIED or len(head) <= width else f"{head[: width - 1]}…"]
        if event in _WRAPPED:
            shown = textwrap.wrap(
                head, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
            )
        # A person needs the whole question to decide, and the command that answers it is at its end.
        count = len(rest) if event == "permission_asked" else _MAX_FURTHER_LINES
        shown += [_INDENT + line for line in rest[:count]]
        if len(rest) > count:
            shown.append(f"{_INDENT}… {len(rest) - count} more lines")
        for line in shown:
            # Text from agents must not control the terminal.
            self._stream.write("".join(char if char.isprintable() else " " for char in line) + "\n")
        self._stream.flush()


def _format_start(facts: Facts) -> str:
    workers = "1 worker" if facts["workers"] == 1 else f"{facts['workers']} workers"
    return f"{workers} on {facts['epic']}, branch {facts['branch']}"


def _format_plan(facts: Facts) -> str:
    tasks = facts["tasks"]
    return "\n".join([f"planned {facts['epic']}: {len(tasks)} {'task' if len(tasks) == 1 else 'tasks'}", *tasks])


def _format_question(facts: Facts) -> str:
    question = str(facts["question"]).removeprefix(f"{facts['worker']}, ")
    return f"{question}\nshopfloor inbox answer request-{facts['number']} {'|'.join(ANSWERS)}"


def _format_verified(facts: Facts) -> str:
    code = facts["exit"]
    how = "passes" if code == 0 else "took too long" if code is None else f"fails with exit code {code}"
    return f"`{' '.join(facts['command'])}` {how}"


def _format_return(facts: Facts) -> str:
    how = "has failed" if facts["state"] == "FAILED" else "is back in the queue"
    reason, _, command = str(facts["why"]).partition(". Continue: ")
    return f"{facts['task']} {how}: {reason}" + (f"\nContinue: {command}" if command else "")


def _format_merge(facts: Facts) -> str:
    how = f"is merged as {facts['commit']}" if facts["changed"] else "is completed without changes"
    return f"{facts['task']} {how}"


def _format_end(facts: Facts) -> str:
    reason, _, how = str(facts["reason"]).partition(". Continue: ")
    merge = facts["state"] == "completed" and not facts["auto_merge"]
    following = f"Merge it: shopfloor crew merge {facts['crew']}" if merge else how and f"Continue: {how}"
    return "\n".join(filter(None, [f"{facts['state']}: {reason}", following]))


_LINES: dict[str, Callable[[Facts], str]] = {
    "agent_failed": lambda facts: f"the agent failed: {facts['failure']}",
    "asked": lambda facts: f"{facts['question']}\n{facts['how']}",
    "crew_ended": _format_end,
    "crew_started": _format_start,
    "merge_returned": lambda facts: f"{facts['task']} is not merged: {facts['why']}",
    "merged": lambda facts: str(facts["how"]),
    "not_verified": lambda facts: f"not done yet: {facts['verdict']}",
    "permission_answered": lambda facts: f"question {facts['number']}: {facts['answer'] or 'not answered'}",
    "permission_asked": _format_question,
    "planned": _format_plan,
    "task_handed_over": lambda facts: f"{facts['task']} is ready to be merged",
    "task_left": lambda facts: f"{facts['task']} is left in {facts['folder']}",
    "task_lost": lambda facts: f"stops its work: {facts['why']}",
    "task_merged": _format_merge,
    "task_returned": _format_return,
    "task_started": lambda facts: f"begins {facts['task']} {facts['title']}",
    "trouble": lambda facts: f"failed and is tried again: {facts['why']}",
    "verified": _format_verified,
    "waiting": lambda facts: f"waits until {format_until(facts['until'])}: {facts['why']}",
    "warning": lambda facts: str(facts["text"]),
    "work_left": lambda facts: f"uncommitted work in {facts['where']}",
    "worker_dismissed": lambda facts: f"takes no more tasks: {facts['why']}",
    "worker_paused": lambda facts: f"pauses for {facts['seconds']} s after three crashes",
}
"""The text of each event that is shown."""
_COPIED = frozenset({"asked", "merged", "permission_asked", "task_left", "work_left"})
"""Events with a path, a command or a question: neither cut nor wrapped."""
_WRAPPED = frozenset({"agent_failed", "crew_ended", "merge_returned", "task_returned", "warning"})
"""Events with a reason, which a person has to read in full."""
