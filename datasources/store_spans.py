"""Spans of what is asked of a database, within a span that is recorded; else none, and
nothing is spent.

Decision: what takes less than SHORTEST_NS leaves no span. A turn asks the file a dozen times, a
fraction of a millisecond each: their spans cost more than they say.

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
    """Trace what the block asks. `text` is the statement, without the values that it is given."""
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
