"""The todo contract: `success`, or one sentence with a hint; the user comes from the credential."""

from __future__ import annotations

from shopfloor.domain.principals import Kind
from shopfloor.errors import NotFound, ShopfloorError
from shopfloor.toolkit import Json, Request, Toolset, find_text

INSTRUCTIONS = (
    "The tools add_task, list_tasks, complete_task, delete_task and update_task work on the todo list of the user "
    "whose credential you carry. Look a task's id up with list_tasks before you change or delete it, and ask before "
    "deleting when it is not clear which task is meant."
)

_TITLE = "Title must be between 1 and 200 characters"
_LIST_TASKS = "List the tasks with list_tasks to see their ids"

ERRORS = {
    ("title", "missing"): _TITLE,
    ("title", "string_type"): _TITLE,
    ("title", "string_too_short"): _TITLE,
    ("title", "string_too_long"): _TITLE,
    ("title", "int_range"): _TITLE,
    ("description", "string_too_long"): "Description must be 1000 characters or less",
    ("task_id", "*"): "task_id must be a positive integer",
    ("filter", "*"): "Invalid filter. Must be 'all', 'active', or 'completed'",
    ("cursor", "*"): "Invalid cursor",
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
    ("task_id", "*"): _LIST_TASKS,
    ("user_id", "extra_forbidden"): "Leave user_id out: the user comes from the credential",
    ("cursor", "*"): "Pass `nextCursor` of the previous response, or leave `cursor` out to start again",
}


def error_text(error: ShopfloorError, request: Request) -> str:
    """Return the sentence that the contract has for this error."""
    if not error.is_rejection:
        # The seed has one sentence per tool for every failure that is not the caller's mistake.
        return FAILURES.get(request.tool_name, error.message)
    # Another user's task gives the same text, byte for byte, as one that does not exist.
    if isinstance(error, NotFound) and "task" in error.facts:
        return f"Task {error.facts['task']} not found"
    return find_text(ERRORS, error) or error.message


def render_error(error: ShopfloorError, request: Request, _: int) -> Json:
    body: Json = {"success": False, "error": error_text(error, request)}
    is_missing_task = isinstance(error, NotFound) and "task" in error.facts
    hint = _LIST_TASKS if is_missing_task else find_text(HINTS, error) or error.hint
    return {**body, "hint": hint} if hint else body


toolset = Toolset(
    "todo",
    render_result=lambda value, _: {"success": True, **value},
    render_error=render_error,
    error_text=error_text,
    principal_kind=Kind.USER,
    allows=lambda caller, _: caller.kind is Kind.USER,
    instructions=lambda _: INSTRUCTIONS,
)
