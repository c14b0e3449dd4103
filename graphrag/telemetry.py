"""Spans of OpenTelemetry for what a turn does, made of the same notes as the trace that the page shows.

Names and attributes are those of the semantic conventions for generative AI, VERSION. Without the SDK of
OpenTelemetry, or where nothing is set up, no span is recorded. What people and models wrote is recorded only
where `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is true; secrets in it are masked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from tools.secret_texts import redacted

VERSION: Final = "0.1.0"
ATTRIBUTES: Final[Mapping[str, str]] = {
    "model": "gen_ai.request.model",
    "provider": "gen_ai.provider.name",
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cachedTokens": "gen_ai.usage.cache_read.input_tokens",
    "tool": "gen_ai.tool.name",
    "callId": "gen_ai.tool.call.id",
    "threadId": "gen_ai.conversation.id",
    "costUsd": "nodius.cost_usd",
    "estimated": "nodius.usage_estimated",
    "cached": "nodius.cached",
    "mode": "nodius.retrieval.mode",
    "edges": "nodius.retrieval.edges",
    "resultChars": "nodius.tool.result_chars",
    "approvalId": "nodius.approval.id",
}
"""Our names, as the page reads them, and those of the conventions; what these lack begins with `nodius.`"""
CONTENT: Final[Mapping[str, str]] = {
    "query": "gen_ai.retrieval.query.text",
    "arguments": "gen_ai.tool.call.arguments",
}
DOCUMENTS: Final = "gen_ai.retrieval.documents"
INPUT: Final = "gen_ai.input.messages"
CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_TRACER = trace.get_tracer("nodius-graphrag")


def captures_content() -> bool:
    """Say whether texts may be recorded."""
    return os.environ.get(CAPTURE, "").strip().lower() in ("true", "1", "span_only", "span_and_event")


def turn_span() -> Span:
    """Begin the span of a turn, within the context of the request that asks."""
    return _TRACER.start_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"})


def within(span: Span) -> AbstractContextManager[Span]:
    """Let what is done in the block belong to a span. No generator may yield within it."""
    return trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False)


def end_span(span: Span, attributes: Mapping[str, Any], *, failed: bool) -> None:
    """End a span."""
    if span.is_recording():
        span.set_attributes(_attributes(attributes))
        if failed:
            span.set_status(Status(StatusCode.ERROR))
    span.end()


def record_span(
    parent: Span,
    operation: str,
    name: str,
    ms: float,
    attributes: Mapping[str, Any],
    *,
    ended_ns: int,
    failed: bool,
    sent: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Record what has just ended after so many milliseconds. `sent`: messages of a model, role and text."""
    if not parent.is_recording():
        return
    facts: dict[str, Any] = {"gen_ai.operation.name": operation, **_attributes(attributes)}
    if sent and captures_content():
        parts = [
            {"role": one["role"], "parts": [{"type": "text", "content": redacted(one["text"]).text}]}
            for one in sent
        ]
        facts[INPUT] = json.dumps(parts, ensure_ascii=False)
    kind = SpanKind.CLIENT if operation in ("chat", "embeddings") else SpanKind.INTERNAL
    span = _TRACER.start_span(
        name,
        trace.set_span_in_context(parent),
        kind=kind,
        attributes=facts,
        start_time=ended_ns - round(ms * 1e6),
    )
    if failed:
        span.set_status(Status(StatusCode.ERROR))
    span.end(ended_ns)


def _attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    found = {ATTRIBUTES[name]: value for name, value in given.items() if name in ATTRIBUTES}
    if "nodes" in given:
        documents = [{"id": node["key"], "score": node["score"]} for node in given["nodes"]]
        found[DOCUMENTS] = json.dumps(documents)
    if captures_content():
        found |= {CONTENT[name]: redacted(str(given[name])).text for name in CONTENT.keys() & given.keys()}
    return found
