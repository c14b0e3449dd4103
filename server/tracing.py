"""Sends spans to where `OTEL_EXPORTER_OTLP_ENDPOINT` says, while the server runs.

A provider that OpenTelemetry's own launcher has set up already is kept.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress

from opentelemetry import context, trace
from starlette.types import Scope

from tools.trace_context import PROPAGATOR

log = logging.getLogger(__name__)

FLUSH_S = 5.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


@asynccontextmanager
async def sent_spans(environ: Mapping[str, str] | None = None) -> AsyncGenerator[None]:
    """Send spans until the block ends, then what is left."""
    given = os.environ if environ is None else environ
    if (
        not any(given.get(name) for name in _ENDPOINTS)
        or given.get("OTEL_SDK_DISABLED", "").lower() == "true"
    ):
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("spans_not_sent", extra={"error": "install nodius-graphrag[otel]"})
        yield
        return
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        yield
        return
    provider = TracerProvider(
        resource=Resource.create({"service.name": given.get("OTEL_SERVICE_NAME", "nodius")})
    )

    class WithoutQueries(SpanProcessor):
        """Takes the queries of addresses out of the framework's spans: some hold what signs a person in."""

        def on_start(self, span: Span, parent_context: context.Context | None = None) -> None:
            del parent_context
            if span.attributes and "url.query" in span.attributes:
                span.set_attribute("url.query", "")

    provider.add_span_processor(WithoutQueries())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(provider.shutdown), FLUSH_S)


def incoming(scope: Scope) -> context.Context | None:
    """Return the trace context of a request, of HTTP or a WebSocket; None where it names none."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return PROPAGATOR.extract(headers) if "traceparent" in headers else None
