"""shopfloor tool"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, command, create_app, open_shopfloor
from shopfloor.cli.output import print_result
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

# The tools of a run, for the help, which must not load them.
TOOLS = (
    *("task-add", "task-update", "task-list", "task-next"),
    *("note-add", "note-list", "iteration-summary", "session-complete"),
)

app = create_app()


@command(app, "tool", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def call_tool(
    settings: Settings,
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help=f"Name of the tool: {', '.join(TOOLS)}.")],
    name: Annotated[str | None, typer.Option("--run", help="Name of the run; by default the latest.")] = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool of a run with arguments as JSON or as flags (--content TEXT), and print its response."""
    if tool not in TOOLS:
        raise InvalidInput(f"Unknown tool '{tool}'; expected one of {', '.join(TOOLS)}")
    with open_shopfloor(settings) as shopfloor:
        schemas = {each["name"]: each["parameters"] for each in shopfloor.schemas("loop")}
        arguments = _parse_arguments(schemas[tool], context.args)
        result = shopfloor.answer("loop", tool, arguments, name, transport="cli")
    print_result({"text": result.text, "isError": result.error is not None}, as_json, result.text)
    if result.error is not None:
        raise typer.Exit(1)


def _parse_arguments(schema: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Return the arguments of a tool: JSON first, then flags. Flags of a single item become a list with one item."""
    given: Any = {}
    if words and not words[0].startswith("--"):
        try:
            given, words = json.loads(words[0]), words[1:]
        except ValueError as error:
            raise InvalidInput(f"Arguments must be JSON: {error}", hint='Quote them: \'{"id": "TAS-1"}\'') from None
    flags = _parse_flags(words)
    properties = schema["properties"]
    lists = [key for key, value in properties.items() if value.get("type") == "array"]
    if lists and isinstance(given, list):
        given = {lists[0]: given}
    if not isinstance(given, dict):
        raise InvalidInput("Arguments must be a JSON object", hint='Quote them: \'{"id": "TAS-1"}\'')
    # `shopfloor tool task-add --content TEXT` is short for a list with one task: the tool itself takes only a list.
    if lists and flags and not set(flags) <= set(properties):
        return {**given, lists[0]: [_convert_numbers(properties[lists[0]]["items"]["properties"], flags)]}
    return given | _convert_numbers(properties, flags)


def _parse_flags(words: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not key:
            raise InvalidInput(f"Expected a flag such as --content TEXT, not '{word}'")
        if not equals:
            value = next(rest, "")
        # Flags have hyphens; arguments of the tools have underscores.
        flags[key.replace("-", "_")] = value
    return flags


def _convert_numbers(properties: dict[str, Any], flags: dict[str, str]) -> dict[str, Any]:
    """Convert the texts of flags to numbers where the tool takes a number."""
    converted: dict[str, Any] = dict(flags)
    for key, text in flags.items():
        if properties.get(key, {}).get("type") not in ("number", "integer"):
            continue
        for kind in (int, float):
            # Text that is not a number stays as it is: the tool rejects it with its own error.
            with suppress(ValueError):
                converted[key] = kind(text)
                break
    return converted
