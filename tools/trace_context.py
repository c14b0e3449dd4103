"""Adds the W3C trace context to outgoing requests while a span is recorded.

Source: W3C Trace Context.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

PROPAGATOR = TraceContextTextMapPropagator()
"""Sends no baggage, which is not meant for the servers of models."""


def trace_headers() -> dict[str, str]:
    """Returns the trace headers of the current span; {} if no span is recorded."""
    headers: dict[str, str] = {}
    if trace.get_current_span().is_recording():
        PROPAGATOR.inject(headers)
    return headers


async def add_trace_headers(request: Any) -> None:
    """Adds the trace headers to an httpx request. An event hook for httpx clients."""
    for name, value in trace_headers().items():
        request.headers.setdefault(name, value)


TRACED: dict[str, Any] = {"event_hooks": {"request": [add_trace_headers]}}
"""Options for an httpx client that adds the trace headers."""
