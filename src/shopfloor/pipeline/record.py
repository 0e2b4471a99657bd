"""record: every call has rows in the log, including rejected calls.

A call that writes logs its rows in its own transaction (see perform). Anything not logged there is logged here: the
invocation and the error, in one small transaction.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, cast

from shopfloor.domain.decisions import (
    AUTOMATIC,
    NewEntry,
    format_context,
    format_read_result,
    format_sized_context,
    measure_json,
)
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.redaction import redact
from shopfloor.errors import ShopfloorError, Unavailable
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.toolkit import AuthenticatedRequest, CallRecord, Context, Request

_log = logging.getLogger("shopfloor.calls")


def record(next: Callable[[AuthenticatedRequest], Any], database: Database) -> Callable[[AuthenticatedRequest], Any]:
    """Log failed calls that an inner step has not logged."""

    def step(call: AuthenticatedRequest) -> Any:
        try:
            return next(call)
        except Exception as error:
            if not call.record.logged:
                _log_failure(database, call, error)
            raise

    return step


def _log_failure(database: Database, call: AuthenticatedRequest, error: Exception) -> None:
    request, record, now = call.request, call.record, database.clock()

    def write_rows(uow: UnitOfWork) -> None:
        # Both rows in one transaction: a reader of the log never sees a failure without its call.
        write_invocation(uow, request, record)
        write_error(uow, request, record, error, now)

    try:
        try:
            database.write(write_rows, record.caller or call.actor, record.reference)
        except Unavailable:
            # The invocation of an external tool is already stored: without an end, it would stay open for as long as
            # this process lives. The rows wait until the store is back.
            database.log_end_later(write_rows, record.caller or call.actor, record.reference)
        record.logged = True
    # The caller gets the original error. The failure to write the log goes to the operator's log.
    except ShopfloorError as write_error_:
        _log.error("cannot write the log: %s", write_error_, extra={"tool": request.tool_name})


def write_invocation(
    uow: UnitOfWork, request: Request, record: CallRecord, *, needs_id: bool = False, open: bool = False
) -> int | None:
    """Write the row that says what was called. Return its id if `needs_id` is set and the row is new."""
    if record.open_entry_id is not None:
        return None
    process = uow.process if open else None
    row = _build_row(request, record, "invocation", record.log_input(request), record.started_at, process=process)
    if needs_id:
        return uow.decisions.add(**row)
    uow.decisions.append(**row)
    return None


def write_result(uow: UnitOfWork, request: Request, record: CallRecord, context: str, now: int) -> None:
    """Write the row of a call that succeeded."""
    if record.open_entry_id is not None:
        uow.decisions.close(record.open_entry_id)
    duration = now - record.started_at
    row = _build_row(request, record, "result", context, now, duration=duration, retries=record.retries)
    uow.decisions.append(**row)


def write_error(uow: UnitOfWork, request: Request, record: CallRecord, error: Exception, now: int) -> None:
    """Write the row of a call that failed. The stack is for people only; a rejected call has none."""
    if record.open_entry_id is not None:
        uow.decisions.close(record.open_entry_id)
    code = error.code if isinstance(error, ShopfloorError) else ShopfloorError.code
    rejected = isinstance(error, ShopfloorError) and error.is_rejection
    message = str(error) if isinstance(error, ShopfloorError) else f"{type(error).__name__}: {error}"
    row = _build_row(
        request,
        record,
        "error",
        format_context({"message": message, "code": code}),
        now,
        duration=now - record.started_at,
        code=code,
        stack=None if rejected else redact("".join(traceback.format_exception(error))),
        retries=record.retries,
    )
    uow.decisions.append(**row)


def log_result(context: Context, value: Any) -> str:
    """Return a result as the log keeps it; for a read, which repeats stored content, its size and totals."""
    record, toolset = context.record, context.request.toolset
    if not context.tool.read_only:
        text, record.result_size = format_sized_context(value)
    elif toolset.summarize is not None:
        # The content is already stored elsewhere. A page of 50 mails would add 16 kB to the log at each poll.
        record.result_size = measure_json(value)
        text = format_context(toolset.summarize(value) | {"size": record.result_size})
    elif not toolset.log_results:
        record.result_size = measure_json(value)
        text = format_context({"size": record.result_size})
    else:
        # Already stored elsewhere, and read repeatedly: one agent that polled a full inbox added 140 MB a day.
        text, record.result_size = format_read_result(value)
    return text


def _build_row(request: Request, record: CallRecord, kind: str, context: str, at: int, **facts: Any) -> NewEntry:
    decision, reasoning = AUTOMATIC[kind]
    actor = record.actor or OPERATOR
    row = NewEntry(
        reference=record.reference,
        kind=kind,
        subject=(record.caller or actor).key,
        actor=actor.key,
        toolset=request.toolset.name,
        tool=request.tool_name,
        decision=decision.format(request.tool_name),
        reasoning=reasoning,
        context=context,
        created_at=at,
    )
    return cast("NewEntry", row | facts)
