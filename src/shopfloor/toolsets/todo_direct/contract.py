"""The todo_direct contract: flat results, one-sentence errors, the user named by the layer around the agent."""

from __future__ import annotations

from shopfloor.domain.principals import Kind
from shopfloor.errors import NotFound, ShopfloorError
from shopfloor.toolkit import Json, Request, Toolset, find_text

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


def error_text(error: ShopfloorError, request: Request) -> str:
    """Return the sentence that the contract has for this error."""
    if not error.is_rejection:
        return FAILURES.get(request.tool_name, error.message)
    if isinstance(error, NotFound) and "task" in error.facts:
        return "Task not found"
    return find_text(ERRORS, error) or error.message


def render_error(error: ShopfloorError, request: Request, _: int) -> Json:
    body: Json = {"error": error_text(error, request)}
    if isinstance(error, NotFound) and "task" in error.facts:
        body["task_id"] = error.facts["task"]
    if "status" in error.facts:
        body["status"] = error.facts["status"]
    return body


toolset = Toolset(
    "todo_direct",
    render_error=render_error,
    error_text=error_text,
    principal_kind=Kind.USER,
    allows=lambda caller, _: caller.kind is Kind.USER,
    caller_argument="user_id",
    caller_description="The authenticated user's ID",
)
