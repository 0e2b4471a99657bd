"""The contract of the loop toolset: results are plain text; errors too, with the next step on a second line."""

from __future__ import annotations

from collections.abc import Iterable

from shopfloor.domain.principals import Kind
from shopfloor.errors import InvalidInput, ShopfloorError
from shopfloor.toolkit import Request, Toolset

# A list stops before this size; a cursor continues it.
MAX_LIST_CHARACTERS = 10_000

MAX_LINE_CHARACTERS = 400

INSTRUCTIONS = (
    "You work in a loop with a fresh context each time; what the next iteration should know goes through these "
    "tools. Begin with task-list and note-list, take one task with task-next, and end with iteration-summary."
)


# The next step after an error of a use case, which knows neither tools nor commands.
_HINTS_BY_RULE = {
    "no_run": "Begin one: shopfloor run --spec SPEC.md --agent 'opencode acp'",
    "open_tasks": "Complete, block or cancel every task first; task-list shows them",
    "same_content": "Nothing was added. Leave it out, or change {task} with task-update",
    "final_state": "Nothing was changed. If there is more to do, add a new task with task-add",
    "unknown_task": "See the ids with task-list",
}


def render_error(error: ShopfloorError, request: Request, _: int) -> str:
    if error.hint:
        step = error.hint
    elif (hint := _HINTS_BY_RULE.get(error.facts.get("rule", ""))) is not None:
        step = hint.format(**error.facts)
    elif isinstance(error, InvalidInput) and request.tool is not None:
        signature = request.tool.signature
        names = [f"{name} (optional)" if name in signature.optional else name for name in signature.parameters.values()]
        arguments = f"with: {', '.join(names)}" if names else "without arguments"
        step = f"Call {request.tool_name} again {arguments}"
    else:
        step = "Do something else first, then try again"
    return f"error: {error.message}\n{step}"


def clip_line(text: str) -> str:
    """Clip a text to one line of a list."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE_CHARACTERS else f"{line[: MAX_LINE_CHARACTERS - 1]}…"


def fit_lines(lines: Iterable[tuple[str, str]], limit: int) -> tuple[list[str], str | None]:
    """Return the first lines that fit, and the cursor of the last one if there are more. Each line has a cursor."""
    kept: list[str] = []
    size, last = 0, None
    for line, cursor in lines:
        # The first line is kept however long it is, or the cursor would never advance.
        if kept and (len(kept) >= limit or size + len(line) > MAX_LIST_CHARACTERS):
            return kept, last
        kept.append(line)
        size, last = size + len(line) + 1, cursor
    return kept, None


toolset = Toolset(
    "loop",
    render_result=lambda value, _: str(value),
    render_error=render_error,
    principal_kind=Kind.RUN,
    allows=lambda caller, _: caller.kind in (Kind.RUN, Kind.OPERATOR),
    instructions=lambda _: INSTRUCTIONS,
)
