"""The manners of todo: success or one sentence, a hint beside it; the user comes from the credential."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.actors import Kind
from shopfloor.errors import InvalidInput, NotFound, ShopfloorError
from shopfloor.toolkit import Call, Json, Toolset

INSTRUCTIONS = (
    "The tools add_task, list_tasks, complete_task, delete_task and update_task work on the todo list of the user "
    "whose credential you carry. Look a task's id up with list_tasks before you change or delete it, and ask before "
    "deleting when it is not clear which task is meant."
)

_TITLE = "Title must be between 1 and 200 characters"
_LOOK = "List the tasks with list_tasks to see their ids"

ERRORS = {
    ("title", "missing"): _TITLE,
    ("title", "string_type"): _TITLE,
    ("title", "string_too_short"): _TITLE,
    ("title", "string_too_long"): _TITLE,
    ("title", "int_range"): _TITLE,
    ("description", "string_too_long"): "Description must be 1000 characters or less",
    ("task_id", "*"): "task_id must be a positive integer",
    ("filter", "*"): "Invalid filter. Must be 'all', 'active', or 'completed'",
    ("cursor", "*"): "The cursor is not one of ours",
    ("*", "nothing_to_change"): "Must provide at least one field to update (title or description)",
}

FAILURES = {
    "add_task": "Failed to create task",
    "list_tasks": "Failed to list tasks",
    "complete_task": "Failed to complete task",
    "delete_task": "Failed to delete task",
    "update_task": "Failed to update task",
}

HINTS = {
    ("task_id", "*"): _LOOK,
    ("user_id", "extra_forbidden"): "Leave user_id out: the user comes from the credential",
    ("cursor", "*"): "Pass on nextCursor of the answer before, or leave cursor out to begin",
}


def words(error: ShopfloorError, call: Call) -> str:
    """What this contract calls the error."""
    if not error.refusal:
        return FAILURES.get(call.name, error.message)
    if isinstance(error, NotFound) and "task" in error.facts:
        return f"Task {error.facts['task']} not found"
    return _found(ERRORS, error) or error.message


def refuse(error: ShopfloorError, call: Call) -> Json:
    refusal: Json = {"success": False, "error": words(error, call)}
    hint = _LOOK if isinstance(error, NotFound) and "task" in error.facts else _found(HINTS, error) or error.hint
    return {**refusal, "hint": hint} if hint else refusal


def succeed(value: Json, _: Call) -> Json:
    return {"success": True, **value}


def _found(table: dict[tuple[str, str], str], error: ShopfloorError) -> str | None:
    if not isinstance(error, InvalidInput):
        return None
    field, rule = error.facts.get("field", ""), error.facts.get("rule", "")
    keys: list[Any] = [(field, rule), (field, "*"), ("*", rule)]
    return next((table[key] for key in keys if key in table), None)


toolset = Toolset(
    "todo",
    answer=succeed,
    refuse=refuse,
    words=words,
    acts_as=Kind.USER,
    may=lambda caller, _: caller.kind is Kind.USER,
    instructions=INSTRUCTIONS,
)
