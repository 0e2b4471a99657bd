"""The contract of personal: a user's own list and conversations, for the page, the chat and the command line.

It is not part of `desk`: its callers act as a user, the operator by naming one, and it is not served on the network.
"""

from __future__ import annotations

from shopfloor.domain.principals import Kind
from shopfloor.errors import ShopfloorError
from shopfloor.toolkit import Json, Request, Toolset, find_text, to_camel

ERRORS = {
    ("title", "missing"): "Title must be between 1 and 200 characters",
    ("title", "string_too_short"): "Title must be between 1 and 200 characters",
    ("title", "string_too_long"): "Title must be between 1 and 200 characters",
    ("description", "string_too_long"): "Description must be 1000 characters or less",
    ("taskId", "*"): "taskId must be a positive integer",
    ("message", "*"): "A message must have 1 to 4000 characters",
    ("conversationId", "*"): "conversationId must be an id such as conv-12, from an earlier response",
    ("confirmationId", "*"): "confirmationId must be the id of the confirmation in the previous answer",
}


def error_text(error: ShopfloorError, _: Request) -> str:
    """Return the sentence that people read."""
    return find_text(ERRORS, error) or error.message


def render_error(error: ShopfloorError, request: Request, _: int) -> Json:
    body: Json = {"success": False, "error": error_text(error, request), "code": error.code}
    return {**body, "hint": error.hint} if error.hint else body


toolset = Toolset(
    "personal",
    render_result=lambda value, _: {"success": True, **value},
    render_error=render_error,
    error_text=error_text,
    principal_kind=Kind.USER,
    allows=lambda caller, _: caller.kind is Kind.USER,
    argument_name=to_camel,
    served=False,
)
