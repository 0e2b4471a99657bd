"""render errors: the outermost step. Every failure is rendered in the toolset's own shape, without a stack trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from shopfloor.domain.decisions import format_reference
from shopfloor.errors import ShopfloorError, StoreFailed
from shopfloor.toolkit import CallRecord, CallResult, Request, Suspended, Waiting


class Observer(Protocol):
    """Gets each call when it starts, and again when it has ended."""

    def call_started(self, request: Request, record: CallRecord) -> None: ...

    def call_ended(self, request: Request, record: CallRecord, error: ShopfloorError | None) -> None: ...


def render_errors(
    next: Callable[[Request, CallRecord, Waiting | None], Any],
    clock: Callable[[], int],
    observer: Observer,
    new_reference: Callable[[int], int],
) -> Callable[[Request, Suspended | None], CallResult | Suspended]:
    """Answer every call, even one that fails. A call that waited continues with its record."""

    def step(request: Request, suspended: Suspended | None) -> CallResult | Suspended:
        if suspended is None:
            now = clock()
            record = CallRecord(new_reference(now), now)
            observer.call_started(request, record)
        else:
            record = suspended.record
        error: ShopfloorError | None = None
        try:
            value = next(request, record, None if suspended is None else suspended.waiting)
            if isinstance(value, Waiting):
                return Suspended(value, record)
            record.finished_at = clock()
            body = request.toolset.render_result(value, record.finished_at)
        except Exception as raised:  # noqa: BLE001 - the one catch-all of the request path
            error = _to_public_error(raised, record.reference)
            record.finished_at = clock()
            body = request.toolset.render_error(error, request, record.finished_at)
        observer.call_ended(request, record, error)
        return CallResult(body, request, record, error)

    return step


def _to_public_error(raised: Exception, reference: int) -> ShopfloorError:
    """Return the error as agents may read it: a message, a next step and a reference; the cause is in the log."""
    if not isinstance(raised, ShopfloorError):
        raised = ShopfloorError("An unexpected error occurred")
    if type(raised) is StoreFailed:  # its message quotes the engine, which names hosts and files
        raised = StoreFailed()
    if not raised.is_rejection:
        raised.facts["reference"] = format_reference(reference)
        raised.hint = raised.hint or (
            f"Try again later. A person finds the cause in the log under {raised.facts['reference']}"
        )
    return raised
