"""record: no call without its rows in the log, refused ones included.

A call that writes carries its rows in its own transaction (see perform). What was not logged there is
logged here: the invocation and the error, in one small transaction.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.decisions import AUTOMATIC, context_of, size_of, sized_context
from shopfloor.domain.masks import mask
from shopfloor.errors import ShopfloorError
from shopfloor.pipeline import Next, Step
from shopfloor.repositories.work import Work, Works
from shopfloor.toolkit import Answer, Call

_log = logging.getLogger("shopfloor.calls")


def record(works: Works, clock: Callable[[], int]) -> Step:
    """The step that sees to it that a failed call is in the log."""

    def step(call: Call, next: Next) -> Answer:
        try:
            return next(call)  # type: ignore[no-any-return]
        except Exception as error:
            if not call.logged:
                _record_failure(works, call, error, clock())
            raise

    return step


def _record_failure(works: Works, call: Call, error: Exception, now: int) -> None:
    def rows(work: Work) -> None:
        write_invocation(work, call)
        write_error(work, call, error, now)

    try:
        works.write(rows, call.caller or call.actor or OPERATOR, call.reference)
        call.logged = True
    except ShopfloorError as unwritable:
        _log.error("the log cannot be written: %s", unwritable, extra={"tool": call.name})


def write_invocation(work: Work, call: Call, *, open: bool = False) -> int | None:
    """The number of the row that says what was called; none when it was written before."""
    if call.opened is not None:
        return None
    return _write(work, call, "invocation", call.context, call.started, process=work.process if open else None)


def write_result(work: Work, call: Call, context: str, now: int) -> None:
    """The row that says what came of it."""
    _close(work, call)
    _write(work, call, "result", context, now, duration=now - call.started, retries=call.retries)


def result_context(call: Call, value: Any) -> str:
    """An answer as the log keeps it; of one that only repeats what is kept elsewhere, its size and what it comes to."""
    if call.tool is not None and call.tool.read_only and call.toolset.summary is not None:
        call.size = size_of(value)
        return context_of(call.toolset.summary(value) | {"size": call.size})
    context, call.size = sized_context(value)
    if call.tool is not None and call.tool.read_only and not call.toolset.keeps_answers:
        return context_of({"size": call.size})
    return context


def write_error(work: Work, call: Call, error: Exception, now: int) -> None:
    """The row that says what went wrong; its stack is for people only."""
    _close(work, call)
    code = error.code if isinstance(error, ShopfloorError) else ShopfloorError.code
    refused = isinstance(error, ShopfloorError) and error.refusal
    stack = None if refused else mask("".join(traceback.format_exception(error)))
    message = str(error) if isinstance(error, ShopfloorError) else f"{type(error).__name__}: {error}"
    context = context_of({"message": message, "code": code})
    _write(work, call, "error", context, now, duration=now - call.started, code=code, stack=stack, retries=call.retries)


def _close(work: Work, call: Call) -> None:
    if call.opened is not None:
        work.decisions.close(call.opened)


def _write(work: Work, call: Call, kind: str, context: str, at: int, **facts: Any) -> int:
    decision, reasoning = AUTOMATIC[kind]
    actor = call.actor or OPERATOR
    return work.decisions.add(
        reference=call.reference,
        kind=kind,
        subject=(call.caller or actor).key,
        actor=actor.key,
        toolset=call.toolset.name,
        tool=call.name,
        decision=decision.format(call.name),
        reasoning=reasoning,
        context=context,
        created_at=at,
        **facts,
    )
