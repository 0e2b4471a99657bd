"""Describe why pydantic rejected a value, in words for arguments, options and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RULES = {
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "path_type": "must be a path",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} items, not {actual_length}",
}
"""Messages by pydantic's rule name. Pydantic's own texts speak of inputs and values, not of arguments and settings."""


def describe_rule(item: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, as the rest of a sentence that starts with its name."""
    context = item.get("ctx", {})
    match item["type"]:
        case "string_too_short" | "too_short" if context["min_length"] == 1:
            return "must not be empty"
        case "string_too_short":
            return f"must have at least {context['min_length']} characters"
        case "literal_error" | "enum":
            return f"must be one of {_join_choices(context['expected'])}"
        case rule if rule in _RULES:
            return _RULES[rule].format(**context)
    message: str = item["msg"].removeprefix("Value error, ")
    return message if message.startswith("must ") else f"is invalid: {message[:1].lower()}{message[1:]}"


def _join_choices(expected: str) -> str:
    """Return `red, blue` for pydantic's `'red' or 'blue'`."""
    return expected.replace(" or ", ", ").replace("'", "")
