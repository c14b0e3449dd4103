"""OpenAI's Responses format: our messages as it wants them, and what its answers say.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from graphrag.llm.answers import AnswerReader, CallIds, thinking
from graphrag.llm.base import (
    AssistantMessage,
    Chunk,
    FinishReason,
    Message,
    SystemMessage,
    ToolMessage,
    ToolSchema,
    UsageReport,
    UserMessage,
)
from graphrag.llm.errors import ModelContentFiltered, ModelFailed, ModelRateLimited
from graphrag.llm.fields import Fields, Unreadable
from graphrag.llm.message_text import LateSystem, clean, readable_arguments

_THINKING = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def to_input(messages: Sequence[Message], *, late_system: LateSystem = "system") -> list[dict[str, Any]]:
    """Return the messages as input items: a call and its answer are items of their own."""
    made: list[dict[str, Any]] = []
    has_turns = False
    for message in messages:
        match message:
            case SystemMessage():
                made += _said(late_system if has_turns else "system", message.content)
                continue
            case UserMessage():
                made += _said("user", message.content)
            case ToolMessage():
                answer = {"call_id": message.call_id, "output": clean(message.content)}
                made.append({"type": "function_call_output", **answer})
            case AssistantMessage():
                made += _said("assistant", message.content)
                made += [
                    {
                        "type": "function_call",
                        "call_id": call.id,
                        "name": call.name,
                        "arguments": readable_arguments(call),
                    }
                    for call in message.tool_calls
                ]
        has_turns = True
    return made


def _said(role: str, text: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": clean(text)}] if text.strip() else []


def to_functions(tools: Sequence[ToolSchema]) -> list[dict[str, Any]]:
    """Return tools in this format's flat form; our schemas are not of its strict kind."""
    return [
        {"type": "function", **cast(Mapping[str, Any], tool["function"]), "strict": False} for tool in tools
    ]


class ResponsesReader(AnswerReader):
    """A stream is whole when the whole response came."""

    def __init__(self, provider: str, ids: CallIds) -> None:
        super().__init__(provider, ids)
        self._whole: Fields | None = None
        self._written: set[int] = set()

    @property
    def finished(self) -> bool:
        return self._whole is not None

    def read(self, event: Fields) -> Iterator[Chunk]:
        kind = event.text("type")
        if event.text("object") == "response":
            yield from self._not_streamed(event)
        elif kind is None or not kind.startswith("response."):
            raise self.malformed("an event that is none of a response")
        else:
            yield from self._event(event, kind)

    def _event(self, event: Fields, kind: str) -> Iterator[Chunk]:
        text = event.any("delta") if isinstance(event.any("delta"), str) else ""
        index = event.number("output_index")
        if kind == "response.output_text.delta":
            yield from self.text(text)
        elif kind in _THINKING:
            yield from thinking(text)
        elif kind == "response.refusal.delta":
            self.refusal.append(text)
        elif kind == "response.function_call_arguments.delta":
            if index is None:
                raise self.malformed("arguments without an index")
            self._written.add(index)
            yield from self.calls.add(index=index, call_id=None, name=None, arguments=text)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if item := event.part("item"):
                yield from self._item(item, index, done=kind.endswith("done"))
        elif kind in _ENDS:
            self._whole = event.part("response") or Fields({})

    def _item(self, item: Fields, index: int | None, *, done: bool) -> Iterator[Chunk]:
        if item.text("type") != "function_call":
            return
        if not done or (index is not None and index not in self._written):  # whole, and not in pieces
            yield from self.calls.add(
                index=index,
                call_id=item.text("call_id") or item.text("id"),
                name=item.text("name"),
                arguments=item.text("arguments") if done else None,
            )

    def _not_streamed(self, whole: Fields) -> Iterator[Chunk]:
        for index, item in enumerate(whole.parts("output") or ()):
            for part in item.parts("content") or ():
                if item.text("type") == "message":
                    yield from self.text(part.text("text"))
                if refusal := part.text("refusal"):
                    self.refusal.append(refusal)
            yield from self._item(item, index, done=True)
        self._whole = whole

    def usage(self) -> UsageReport | None:
        usage = self._whole.part("usage") if self._whole else None
        if usage is None or usage.any("input_tokens") is None:
            return None
        details, written = usage.part("input_tokens_details"), usage.part("output_tokens_details")
        prompt = usage.count("input_tokens")
        return UsageReport(
            prompt=prompt,
            completion=usage.count("output_tokens"),
            cached=min(max((details and details.number("cached_tokens")) or 0, 0), prompt),
            reasoning=max((written and written.number("reasoning_tokens")) or 0, 0),
        )

    def reason(self) -> FinishReason:
        if self._whole is None:
            raise self.broken("it ended before response.completed")
        try:
            return self._reason(self._whole)
        except Unreadable as exc:
            raise self.malformed(str(exc)) from exc

    def _reason(self, whole: Fields) -> FinishReason:
        status, trouble = whole.text("status"), whole.part("error")
        if status == "failed" or trouble is not None:
            code = trouble.text("code") if trouble else None
            why = f"{code}: {trouble.text('message')}" if trouble else "it failed"
            kind = ModelRateLimited if code == "rate_limit_exceeded" else ModelFailed
            raise kind(provider=self.provider, reason=why)
        if status == "incomplete":
            details = whole.part("incomplete_details")
            if (details and details.text("reason")) == "content_filter":
                raise ModelContentFiltered(provider=self.provider, reason="content_filter")
            return "length"
        if status not in (None, "completed"):
            raise self.broken(f"it ended as {status}")
        return "stop"
