"""The manners of todo_direct: flat answers, errors in one sentence, the user named by the layer around the agent."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.actors import Kind
from shopfloor.errors import InvalidInput, NotFound, ShopfloorError
from shopfloor.toolkit import Call, Json, Toolset

ERRORS = {
    ("title", "missing"): "Title is required",
    ("title", "string_type"): "Title is required",
    ("title", "int_range"): "Title is required",
    ("title", "string_too_short"): "Title is required",
    ("title", "string_too_long"): "Title must be 200 characters or less",
    ("description", "string_too_long"): "Description must be 1000 characters or less",
    ("task_id", "*"): "Invalid task ID",
    ("status", "*"): "Invalid status. Must be all, pending or completed",
    ("*", "nothing_to_change"): "At least title or description required",
}

FAILURES = {
    "add_task": "Failed to create task",
    "list_tasks": "Failed to list tasks",
    "complete_task": "Failed to complete task",
    "delete_task": "Failed to delete task",
    "update_task": "Failed to update task",
}


def words(error: ShopfloorError, call: Call) -> str:
    """What this contract calls the error."""
    if not error.refusal:
        return FAILURES.get(call.name, error.message)
    if isinstance(error, NotFound) and "task" in error.facts:
        return "Task not found"
    if isinstance(error, InvalidInput):
        field, rule = error.facts.get("field", ""), error.facts.get("rule", "")
        known = [ERRORS.get(key) for key in ((field, rule), (field, "*"), ("*", rule))]
        return next((text for text in known if text is not None), error.message)
    return error.message


def refuse(error: ShopfloorError, call: Call) -> Json:
    refusal: Json = {"error": words(error, call)}
    if isinstance(error, NotFound) and "task" in error.facts:
        refusal["task_id"] = error.facts["task"]
    if "status" in error.facts:
        refusal["status"] = error.facts["status"]
    return refusal


def as_it_is(value: Any, _: Call) -> Any:
    return value


toolset = Toolset(
    "todo_direct",
    answer=as_it_is,
    refuse=refuse,
    words=words,
    acts_as=Kind.USER,
    may=lambda caller, _: caller.kind is Kind.USER,
    caller_argument="user_id",
    caller_description="The authenticated user's ID",
)
