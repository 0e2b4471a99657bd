"""The manners of personal: camelCase, success or a sentence, in process only: the page, the chat, the command line."""

from __future__ import annotations

from shopfloor.domain.actors import Kind
from shopfloor.errors import InvalidInput, ShopfloorError
from shopfloor.toolkit import Call, Json, Toolset, camel

ERRORS = {
    ("title", "missing"): "Title must be between 1 and 200 characters",
    ("title", "string_too_short"): "Title must be between 1 and 200 characters",
    ("title", "string_too_long"): "Title must be between 1 and 200 characters",
    ("description", "string_too_long"): "Description must be 1000 characters or less",
    ("taskId", "*"): "taskId must be a positive integer",
    ("message", "*"): "A message has 1 to 4000 characters",
    ("conversationId", "*"): "conversationId is text like conv-12, as an earlier answer gave it",
}


def words(error: ShopfloorError, _: Call) -> str:
    """What people read."""
    if isinstance(error, InvalidInput):
        field, rule = error.facts.get("field", ""), error.facts.get("rule", "")
        return ERRORS.get((field, rule)) or ERRORS.get((field, "*")) or error.message
    return error.message


def refuse(error: ShopfloorError, call: Call) -> Json:
    refusal: Json = {"success": False, "error": words(error, call), "code": error.code}
    return {**refusal, "hint": error.hint} if error.hint else refusal


toolset = Toolset(
    "personal",
    answer=lambda value, _: {"success": True, **value},
    refuse=refuse,
    words=words,
    acts_as=Kind.USER,
    may=lambda caller, _: caller.kind is Kind.USER,
    spelling=camel,
    served=False,
)
