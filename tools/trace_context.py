"""The W3C trace context of requests that leave, where a span is recorded. Source:
W3C Trace Context.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

PROPAGATOR = TraceContextTextMapPropagator()
"""Without the baggage of a request, which is no business of a model's server."""


def trace_headers() -> dict[str, str]:
    """Return the headers that say to which span a request belongs; none where none is recorded."""
    found: dict[str, str] = {}
    if trace.get_current_span().is_recording():
        PROPAGATOR.inject(found)
    return found


async def add_trace_headers(request: Any) -> None:
    """Add these to a request of httpx, as a hook of its client."""
    for name, value in trace_headers().items():
        request.headers.setdefault(name, value)


TRACED: dict[str, Any] = {"event_hooks": {"request": [add_trace_headers]}}
"""Options of a client of httpx."""
