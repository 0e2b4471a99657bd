"""The prompt: a template in which each variable is replaced once, whatever stands in the values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from shopfloor.errors import BadSettings

DEFAULT = Path(__file__).with_name("prompt.md")
VARIABLES = ("session", "iteration", "spec", "notes", "tasks", "history", "extra")

PLAN = (
    "This is the planning iteration. Only plan: read the specification and the project, break the work into small "
    "tasks in a sensible order with task-add, set priorities and dependencies with task-update, and write the "
    "iteration summary. Implement nothing yet."
)
CUT_OFF = (
    "This iteration was begun before and cut off. Some of its work may be there already: look at the tasks and at the "
    "project first, then go on from there. Do nothing twice."
)
STANDSTILL = (
    "Attention: the last {count} iterations brought the work no further. Do not repeat what was tried. Read the notes "
    "and the history, find out what stands in the way, and choose another approach: split the task into smaller ones, "
    "block it and take another, or write a note of the type stuck that says what you need from a person."
)

_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_]+)\s*\}\}")


def load(file: Path | None) -> str:
    """The template, with no variables in it but ours."""
    try:
        text = (file or DEFAULT).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"The template {file} cannot be read: {error}") from None
    for name in _VARIABLE.findall(text):
        if name not in VARIABLES:
            raise BadSettings(
                f"The template has an unknown variable {{{{{name}}}}}",
                hint="Use " + ", ".join(f"{{{{{known}}}}}" for known in VARIABLES),
            )
    return text


def fill(template: str, values: Mapping[str, str]) -> str:
    """The prompt."""
    return _VARIABLE.sub(lambda match: values[match[1]], template)
