"""Telemetry: log lines, metrics and spans of calls."""

from __future__ import annotations

import logging

from shopfloor.domain.decisions import format_reference
from shopfloor.domain.times import SECOND
from shopfloor.errors import ShopfloorError
from shopfloor.gateways.metrics import Metrics
from shopfloor.gateways.traces import Traces
from shopfloor.toolkit import CallRecord, Request

MAX_LOGGED_PARAMETER_CHARS = 1000

_log = logging.getLogger("shopfloor.calls")


class Telemetry:
    """Observes calls; nothing depends on what it does."""

    def __init__(self, metrics: Metrics, traces: Traces | None) -> None:
        self.metrics = metrics
        self._traces = traces
        self.tracing = traces is not None

    def call_started(self, request: Request, record: CallRecord) -> None:
        """Log that a call has arrived."""
        # Checked here, because building the fields is most of the cost of a line that is not logged.
        level = _choose_level(request)
        if _log.isEnabledFor(level):
            _log.log(
                level,
                "call started",
                extra={
                    "tool": request.tool_name,
                    "toolset": request.toolset.name,
                    "parameters": record.log_input(request)[:MAX_LOGGED_PARAMETER_CHARS],
                    "transport": request.transport,
                    "session": request.session,
                    "reference": format_reference(record.reference),
                },
            )

    def call_ended(self, request: Request, record: CallRecord, error: ShopfloorError | None) -> None:
        """Count a finished call, log it, and warn when it took longer than its contract allows."""
        duration = record.finished_at - record.started_at
        name = _metric_name(request)
        self.metrics.count_call(request.toolset.name, name, error.code if error else "ok", duration / SECOND)
        budget = request.toolset.time_budget(request)
        if budget is not None and duration > budget * SECOND:
            self.metrics.count_slow_call(name)
            _log.warning("call was slow", extra={"tool": name, "ms": round(duration / 1000), "limit": budget * 1000})
        level = _choose_level(request) if error is None else logging.INFO
        if _log.isEnabledFor(level):
            _log.log(
                level,
                "call ended",
                extra={
                    "tool": request.tool_name,
                    "toolset": request.toolset.name,
                    "caller": _caller_key(record),
                    "session": request.session,
                    "success": error is None,
                    "code": error.code if error else None,
                    "ms": round(duration / 1000, 2),
                    "size": record.result_size,
                    "reference": format_reference(record.reference),
                },
            )
        if self._traces is not None:
            self._write_span(self._traces, request, record, error)

    def call_not_admitted(self, request: Request, error: ShopfloorError) -> None:
        """Count a call that was rejected before the pipeline."""
        self.metrics.count_call(request.toolset.name, _metric_name(request), error.code, 0)

    def stop(self) -> None:
        """Send the spans that are still buffered."""
        if self._traces is not None:
            self._traces.stop()

    def _write_span(self, traces: Traces, request: Request, record: CallRecord, error: ShopfloorError | None) -> None:
        name = _metric_name(request)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "shopfloor.toolset": request.toolset.name,
            "shopfloor.caller": _caller_key(record),
            "shopfloor.transport": request.transport,
            "shopfloor.reference": format_reference(record.reference),
            "shopfloor.retries": record.retries or None,
            "error.type": error.code if error else None,
        }
        traces.write_span(f"execute_tool {name}", record.started_at, record.finished_at, request.trace, attributes)


def _choose_level(request: Request) -> int:
    """Return the level of a call's lines. One page makes up to eight reads, which say nothing about the agents."""
    tool = request.tool
    is_page_read = request.toolset.name == "desk" and tool is not None and tool.read_only
    # The server issues the operator's token and prints a link when it starts.
    is_own = request.toolset.name == "desk" and request.transport in ("server", "cli")
    return logging.DEBUG if is_page_read or is_own else logging.INFO


def _caller_key(record: CallRecord) -> str | None:
    """Return the caller's key, or None if it was not authenticated."""
    caller = record.caller or record.actor
    return None if caller is None else caller.key


def _metric_name(request: Request) -> str:
    """Return the tool's name; all unknown names count as one."""
    # A label per made-up name would let a caller grow the metrics without bound.
    return "unknown" if request.tool is None else request.tool_name
