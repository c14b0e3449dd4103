"""Records how an answer came about: what was retrieved, the prompts, and each call with its cost.

A turn has one record of spans: `{operation, name, start, ms, failed?, attributes}`. With the
OpenTelemetry SDK set up, each is also an OpenTelemetry span, named by the semantic conventions for
generative AI. Texts of people and models are recorded only if
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is true, with secrets masked.

Decision: spans are kept in memory while a turn runs, and written when it ends. A killed process
loses only the trace of the turn under way.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Literal, final

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict, SourceError
from graphrag.agent.events import UsageReported
from graphrag.agent.requested_calls import Answered
from graphrag.agent.thread_store import Thread
from graphrag.leases import now_ms
from graphrag.llm.base import LLMProvider, Message
from graphrag.llm.metered import ModelRequest
from graphrag.retrieval.retrieval_result import Retrieval
from graphrag.stored_records import change_record, delete_record
from tools.secret_texts import redacted

log = logging.getLogger(__name__)

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
"""Our attribute names, as the page reads them, and those of the conventions or of `nodius.`"""
CONTENT: Final[Mapping[str, str]] = {
    "query": "gen_ai.retrieval.query.text",
    "arguments": "gen_ai.tool.call.arguments",
}
DOCUMENTS: Final = "gen_ai.retrieval.documents"
INPUT: Final = "gen_ai.input.messages"
CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_TRACER = trace.get_tracer("nodius-graphrag")

KIND = "trace"
TURNS = 50  # of a conversation that are kept
MAX_SPANS = 200
MAX_MESSAGE_CHARS, MAX_CONTEXT_CHARS = 8_000, 60_000
MAX_ARGUMENT_CHARS = MAX_RESULT_CHARS = 2_000
MAX_ANSWER_CHARS = 4_000
MAX_QUESTION_CHARS = 200
MAX_NODES = 50
AT_ONCE, PAGE = 20, 100
MINUTE_MS, DAY_MS = 60_000, 86_400_000

Operation = Literal["invoke_agent", "chat", "execute_tool", "retrieval", "embeddings"]


def _captures_content() -> bool:
    """Returns whether texts may be recorded in spans."""
    return os.environ.get(CAPTURE, "").strip().lower() in (
        "true",
        "1",
        "span_only",
        "span_and_event",
    )


@final
@dataclass(slots=True)
class TurnTrace:
    """The spans of a turn under way. Units: `began` in milliseconds since 1970."""

    traces: Traces | None = None
    began: int = field(default_factory=now_ms)
    spans: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sent: Sequence[Message] = ()
    span: Span = field(
        default_factory=lambda: _TRACER.start_span(
            "invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}
        )
    )
    """The span of the turn, in the context of the request."""

    def within(self) -> AbstractContextManager[Any]:
        """Makes the turn's span current in the block. A generator must not yield in it."""
        if not self.span.get_span_context().is_valid:  # nobody traces
            return nullcontext()
        how = {"end_on_exit": False, "record_exception": False, "set_status_on_exception": False}
        return trace.use_span(self.span, **how)

    def add(
        self,
        operation: Operation,
        name: str,
        ms: float,
        *,
        ago_ms: float = 0.0,
        failed: bool = False,
        **more: Any,
    ) -> None:
        """Adds an operation that ended `ago_ms` ago and took `ms`, both in milliseconds."""
        if len(self.spans) >= MAX_SPANS:
            return
        if operation != "invoke_agent" and self.span.is_recording():
            ended_ns = time.time_ns() - round(ago_ms * 1e6)
            self._record(operation, name, ms, more, ended_ns=ended_ns, failed=failed)
        span = {
            "operation": operation,
            "name": name,
            "start": now_ms() - round(ms + ago_ms),
            "ms": round(ms, 1),
        }
        attributes = {key: value for key, value in more.items() if value is not None}
        self.spans.append(
            {**span, **({"failed": True} if failed else {}), "attributes": attributes}
        )

    def _record(
        self,
        operation: Operation,
        name: str,
        ms: float,
        more: Mapping[str, Any],
        *,
        ended_ns: int,
        failed: bool,
    ) -> None:
        """Records an OpenTelemetry span."""
        facts: dict[str, Any] = {"gen_ai.operation.name": operation, **_attributes(more)}
        if operation == "chat" and self.sent and _captures_content():
            parts = [
                {
                    "role": one["role"],
                    "parts": [{"type": "text", "content": redacted(one["text"]).text}],
                }
                for one in self.context()
            ]
            facts[INPUT] = json.dumps(parts, ensure_ascii=False)
        span = _TRACER.start_span(
            name,
            trace.set_span_in_context(self.span),
            kind=SpanKind.CLIENT if operation in ("chat", "embeddings") else SpanKind.INTERNAL,
            attributes=facts,
            start_time=ended_ns - round(ms * 1e6),
        )
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended_ns)

    def end(self, *, failed: bool, **attributes: Any) -> None:
        """Ends the span of the turn."""
        if self.span.is_recording():
            self.span.set_attributes(_attributes(attributes))
            if failed:
                self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()

    def retrieved(self, found: Retrieval) -> None:
        ms = dict(found.ms)
        took = 0.0 if found.cached else sum(ms.values())
        if "embed" in ms and not found.cached:
            self.add("embeddings", "embeddings", ms["embed"], ago_ms=took - ms["embed"])
        searches = [
            {
                "name": one.name,
                "hits": one.hits,
                "best": [[hit.key, round(float(hit.score), 4)] for hit in one.best],
            }
            for one in found.searches
        ]
        nodes = [
            {
                "key": scored.node.key,
                "score": round(scored.score, 4),
                "reasons": list(scored.reasons),
            }
            for scored in found.nodes[:MAX_NODES]
        ]
        self.add(
            "retrieval",
            "retrieval",
            took,
            query=found.question[:MAX_ARGUMENT_CHARS],
            cached=found.cached,
            mode=found.mode,
            stages=None if found.cached else {name: round(one, 1) for name, one in ms.items()},
            searches=searches,
            nodes=nodes,
            edges=len(found.edges),
            notes=list(found.notes),
        )

    def asked(
        self,
        request: ModelRequest | None,
        used: UsageReported,
        provider: LLMProvider,
        began: float,
        *,
        failed: bool,
    ) -> None:
        """Adds a model call. The first prompt is kept as the context of the turn."""
        if request is not None and not self.sent:
            self.sent = request.messages
        self.add(
            "chat",
            f"chat {provider.model}",
            (time.perf_counter() - began) * 1000,
            failed=failed,
            model=provider.model,
            provider=provider.name,
            inputTokens=used.prompt,
            outputTokens=used.completion,
            cachedTokens=used.cached,
            costUsd=used.cost_usd,
            estimated=used.estimated or None,
            messages=len(request.messages) if request else None,
            tools=len(request.tools) if request else None,
        )

    def called(self, answered: Answered) -> None:
        self.add(
            "execute_tool",
            f"execute_tool {answered.call.name[:100]}",
            answered.ms,
            ago_ms=(time.perf_counter() - answered.ended) * 1000,
            failed=answered.result.is_error,
            tool=answered.call.name[:100],
            callId=answered.call.id,
            arguments=answered.call.arguments[:MAX_ARGUMENT_CHARS],
            cached=answered.outcome == "reused",
            result=answered.result.text[:MAX_RESULT_CHARS] or None,
            resultChars=len(answered.result.text),
            approvalId=answered.approval.id if answered.approval else None,
        )

    def close(self, thread: Thread, answer: str, *, is_stored: bool) -> Mapping[str, Any] | None:
        """Ends the trace. Returns the facts to store it with, None if the turn is not stored.

        `answer`: the text of the turn so far.
        """
        if not is_stored:
            self.end(failed=True)
            return None
        failed = thread.turn.status == "failed"
        self.add(
            "invoke_agent",
            "invoke_agent",
            now_ms() - self.began,
            failed=failed,
            threadId=thread.key,
            status=thread.turn.status,
            answer=answer[:MAX_ANSWER_CHARS] or None,
            answerChars=len(answer),
        )
        self.end(failed=failed, threadId=thread.key)
        facts = {"threadId": thread.key, "graphKey": thread.graph_key, "userId": thread.user_id}
        return facts | {"turn": thread.turn.number, "time": self.began}

    def context(self) -> list[dict[str, Any]]:
        """Returns the first prompt, with long texts cut."""
        found: list[dict[str, Any]] = []
        left = MAX_CONTEXT_CHARS
        for message in self.sent:
            role = type(message).__name__.removesuffix("Message").lower()
            text = message.content
            cut = text[: min(MAX_MESSAGE_CHARS, left)]
            left -= len(cut)
            found.append({"role": role, "text": cut, "chars": len(text)})
        return found


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TracedTurn:
    """Who used what in a turn: the start and the attributes of each model call. Units: `time` and
    starts in milliseconds since 1970.
    """

    user_id: str
    graph_key: str
    time: int
    is_run: bool
    calls: Sequence[tuple[int, dict[str, Any]]]

    @staticmethod
    def of(data: Mapping[str, Any]) -> TracedTurn:
        """Returns the facts of a stored turn."""
        return TracedTurn(
            user_id=str(data["userId"]),
            graph_key=str(data["graphKey"]),
            time=int(data["time"]),
            is_run=str(data["threadId"]).startswith("auto/"),
            calls=[
                (int(span["start"]), span["attributes"])
                for span in data["spans"]
                if span["operation"] == "chat"
            ],
        )


@final
class Traces:
    """Stores the traces of a workspace's conversations for `days`."""

    def __init__(self, records: RecordStore, *, days: int) -> None:
        self._records = records
        self._days = days
        self._looked = 0

    async def keep(self, facts: Mapping[str, Any], trace: TurnTrace) -> None:
        """Stores a part of a turn, and deletes old traces. Failures are only logged."""
        thread_id = str(facts["threadId"])
        turn = int(facts["turn"])
        key = _key(thread_id, turn)
        try:
            data = {**facts, "spans": trace.spans, "context": trace.context()}
            try:
                await self._records.write(
                    [RecordWrite(kind=KIND, key=key, data=data, expected_version=None)]
                )
            except RecordConflict:  # the turn waited for a person
                await change_record(
                    self._records, KIND, key, lambda before: _continued(before, data)
                )
            old: list[Record] = []
            if turn > TURNS and (
                last := await self._records.get(KIND, _key(thread_id, turn - TURNS))
            ):
                old.append(last)
            if (now := now_ms()) >= self._looked + MINUTE_MS:
                limit = now - self._days * DAY_MS
                old += await self._records.query(
                    KIND, order_by="time", at_most=limit, limit=AT_ONCE
                )
                # at once again, while there are more
                self._looked = 0 if len(old) >= AT_ONCE else now
            for record in old:
                await delete_record(self._records, record)
        except (SourceError, RecordConflict) as exc:
            log.warning(
                "trace_not_kept", extra={"thread_id": thread_id, "error": type(exc).__name__}
            )

    async def of_thread(self, thread_id: str, turn: int | None = None) -> list[dict[str, Any]]:
        """Returns the turns of a conversation, or one of them, oldest first; the caller checks who
        may see it.
        """
        if turn is not None:
            one = await self._records.get(KIND, _key(thread_id, turn))
            return [dict(one.data)] if one else []
        found = await self._records.query(KIND, {"threadId": thread_id}, limit=2 * TURNS)
        return [dict(record.data) for record in sorted(found, key=lambda record: record.key)]

    async def turns(self, start: int) -> AsyncGenerator[TracedTurn]:
        """Yields the turns since a time, the latest first."""
        seen = set[str]()
        end = None
        while True:  # in pages: each holds what a model was sent, too
            page = await self._records.query(
                KIND, order_by="time", at_least=start, at_most=end, descending=True, limit=PAGE
            )
            new = [one for one in page if one.key not in seen]
            seen.update(one.key for one in new)
            for record in new:
                yield TracedTurn.of(record.data)
            if len(page) < PAGE or not new:
                return
            end = int(page[-1].data["time"])


def _key(thread_id: str, turn: int) -> str:
    return f"{thread_id}/{turn:06}"


def _continued(before: Record | None, later: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the record of a turn with a later part of it."""
    if before is None:
        return later
    spans = [*before.data["spans"], *later["spans"]][:MAX_SPANS]
    context = before.data["context"] or later["context"]
    return {**later, "time": before.data["time"], "spans": spans, "context": context}


def outlined(turn: Mapping[str, Any], *, brief: bool) -> dict[str, Any]:
    """Returns a stored turn with its question and the time that it took; with `brief` without
    spans and context. Units: `ms` in milliseconds.
    """
    spans = turn["spans"]
    asked = [one["attributes"].get("query") for one in spans if one["operation"] == "retrieval"]
    sent = [one["text"] for one in turn["context"] if one["role"] == "user"]
    question = next((text for text in (*asked, *reversed(sent)) if text), "")
    took = sum(one["ms"] for one in spans if one["operation"] == "invoke_agent")
    left_out: Mapping[str, Any] = {"spans": [], "context": []} if brief else {}
    return {**turn, **left_out, "question": question[:MAX_QUESTION_CHARS], "ms": took}


def _attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    found = {ATTRIBUTES[name]: value for name, value in given.items() if name in ATTRIBUTES}
    if "nodes" in given:
        documents = [{"id": node["key"], "score": node["score"]} for node in given["nodes"]]
        found[DOCUMENTS] = json.dumps(documents)
    if _captures_content():
        found |= {
            CONTENT[name]: redacted(str(given[name])).text for name in CONTENT.keys() & given.keys()
        }
    return found
