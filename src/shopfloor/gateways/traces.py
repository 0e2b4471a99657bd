"""Traces: a span for each call, sent to a collector. OpenTelemetry is imported only when traces are on."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from shopfloor.errors import BadSettings

_FLUSH_SECONDS = 2.0


class Traces:
    """Writes a span when a call has ended, so that a running call carries no span."""

    def __init__(self) -> None:
        from opentelemetry import propagate, trace  # noqa: PLC0415 - heavy, and off by default

        self._propagate = propagate
        self._trace = trace
        self._own: Any = None
        # A proxy means that the host program has set no provider of its own, which would be kept.
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            self._own = _build_provider()
            trace.set_tracer_provider(self._own)
        self._tracer = trace.get_tracer("shopfloor")

    def write_span(self, name: str, began: int, ended: int, sent: Mapping[str, str], facts: Mapping[str, Any]) -> None:
        """Write a span from `began` to `ended`, in microseconds, as a child of the span that the caller sent."""
        span = self._tracer.start_span(
            name,
            context=self._propagate.extract(sent) if sent else None,
            kind=self._trace.SpanKind.SERVER,
            attributes={key: value for key, value in facts.items() if value is not None},
            start_time=began * 1000,
        )
        if facts.get("error.type"):
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(ended * 1000)

    def stop(self) -> None:
        """Send the remaining spans. Wait at most two seconds: an unreachable collector must not delay a stop."""
        if self._own is not None:
            flushing = threading.Thread(target=self._own.shutdown, name="shopfloor-traces", daemon=True)
            flushing.start()
            flushing.join(_FLUSH_SECONDS)


def _build_provider() -> Any:
    if find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        raise BadSettings("traces: the exporter is not installed; run pip install 'shopfloor[otel]'")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - the same
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    resource = Resource.create({"service.name": "shopfloor"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
