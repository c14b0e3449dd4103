"""Traces database calls with spans, inside a recorded span only.

Decision: calls shorter than SHORTEST_NS get no span. A turn reads the file a dozen times in a
fraction of a millisecond each, and spans for these reads would cost more than they tell.

Source: OpenTelemetry, semantic conventions for database calls.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

SHORTEST_NS = 1_000_000

_TRACER = trace.get_tracer("nodius-graphrag")


@contextmanager
def traced(system: str, operation: str, text: str = "") -> Generator[None]:
    """Traces the database call in the block. `text` is the statement without its values."""
    if not trace.get_current_span().is_recording():
        yield
        return
    began = time.time_ns()
    failed = True
    try:
        yield
        failed = False
    finally:
        ended = time.time_ns()
        if ended - began >= SHORTEST_NS:
            facts = {"db.system.name": system, "db.operation.name": operation}
            if text:
                facts["db.query.text"] = text
            name = f"{operation} {system}"
            span = _TRACER.start_span(
                name, kind=SpanKind.CLIENT, attributes=facts, start_time=began
            )
            if failed:
                span.set_status(Status(StatusCode.ERROR))
            span.end(ended)
