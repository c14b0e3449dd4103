"""Reads an answer in OpenAI's Responses format, event by event, into our chunks; knows no transport."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from graphrag.llm.base import Chunk, Finished, FinishReason, ReasoningDelta, TextDelta
from graphrag.llm.calls import CallGatherer, CallIds
from graphrag.llm.errors import (
    ModelAnswerMalformed,
    ModelContentFiltered,
    ModelEmptyReply,
    ModelFailed,
    ModelRateLimited,
    ModelStreamBroken,
)
from graphrag.llm.responses_wire import Event, Item, Whole, read_usage

_THINKING = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ResponsesReader:
    """One answer. Feed it every event, then take `end`. It is whole when the whole response came."""

    def __init__(self, provider: str, ids: CallIds) -> None:
        self._provider = provider
        self._calls = CallGatherer(ids)
        self._whole: Whole | None = None
        self._written: set[int] = set()
        self._refusal: list[str] = []
        self._spoke = False

    @property
    def finished(self) -> bool:
        """Whether the answer is whole: what fails from here on does not matter."""
        return self._whole is not None

    def feed(self, event: object) -> Iterator[Chunk]:
        """Yield what an event brings. Raises: ModelAnswerMalformed."""
        try:
            read = Event.model_validate(event)
            whole = Whole.model_validate(event) if read.object == "response" else None
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "an event"
            raise self._malformed(f"{where}: {first['msg']}") from exc
        if whole is not None:
            yield from self._not_streamed(whole)
        elif read.type is None or not read.type.startswith("response."):
            raise self._malformed("an event that is none of a response")
        else:
            yield from self._event(read, read.type)

    def end(self) -> Iterator[Chunk]:
        """Yield the calls, the tokens and the end.

        Raises: ModelStreamBroken, ModelContentFiltered, ModelFailed, ModelRateLimited, ModelEmptyReply.
        """
        if self._whole is None:
            raise ModelStreamBroken(provider=self._provider, reason="it ended before response.completed")
        usage = read_usage(self._whole.usage)
        if usage is not None:
            yield usage
        reason = self._reason(self._whole)
        if self._refusal and not self._spoke:
            raise ModelContentFiltered(provider=self._provider, reason="".join(self._refusal))
        if self._calls.nameless:
            raise self._malformed("a tool call without a name")
        if self._calls.any:
            yield from self._calls.end(reason)
            reason = "tool_calls" if reason == "stop" else reason
        elif not self._spoke and reason != "length":
            raise ModelEmptyReply(provider=self._provider, reason="neither text nor a tool call")
        yield Finished(reason=reason)

    def _event(self, event: Event, kind: str) -> Iterator[Chunk]:
        text = event.delta if isinstance(event.delta, str) else ""
        if kind == "response.output_text.delta" and text:
            self._spoke = True
            yield TextDelta(text=text)
        elif kind in _THINKING and text:
            yield ReasoningDelta(text=text)
        elif kind == "response.refusal.delta":
            self._refusal.append(text)
        elif kind == "response.function_call_arguments.delta":
            yield from self._arguments(event.output_index, text)
        elif kind in ("response.output_item.added", "response.output_item.done") and event.item:
            yield from self._item(event.item, event.output_index, done=kind.endswith("done"))
        elif kind in _ENDS:
            self._whole = event.response or Whole()

    def _item(self, item: Item, index: int | None, *, done: bool) -> Iterator[Chunk]:
        if item.type != "function_call":
            return
        if not done:
            yield from self._calls.add(
                index=index, call_id=item.call_id or item.id, name=item.name, arguments=None
            )
        elif index is not None and index not in self._written:  # told whole, and not in pieces
            yield from self._calls.add(
                index=index, call_id=item.call_id or item.id, name=item.name, arguments=item.arguments
            )

    def _arguments(self, index: int | None, text: str) -> Iterator[Chunk]:
        if index is None:
            raise self._malformed("arguments without an index")
        self._written.add(index)
        yield from self._calls.add(index=index, call_id=None, name=None, arguments=text)

    def _not_streamed(self, whole: Whole) -> Iterator[Chunk]:
        for index, item in enumerate(whole.output or ()):
            for part in item.content or ():
                if item.type == "message" and part.text:
                    self._spoke = True
                    yield TextDelta(text=part.text)
                if part.refusal:
                    self._refusal.append(part.refusal)
            yield from self._item(item, index, done=True)
        self._whole = whole

    def _reason(self, whole: Whole) -> FinishReason:
        if whole.status == "failed" or whole.error is not None:
            trouble = whole.error
            why = f"{trouble.code}: {trouble.message}" if trouble else "it failed"
            limited = trouble is not None and trouble.code == "rate_limit_exceeded"
            raise (ModelRateLimited if limited else ModelFailed)(provider=self._provider, reason=why)
        if whole.status == "incomplete":
            why = (whole.incomplete_details and whole.incomplete_details.reason) or "incomplete"
            if why == "content_filter":
                raise ModelContentFiltered(provider=self._provider, reason=why)
            return "length"
        if whole.status not in (None, "completed"):
            raise ModelStreamBroken(provider=self._provider, reason=f"it ended as {whole.status}")
        return "stop"

    def _malformed(self, reason: str) -> ModelAnswerMalformed:
        return ModelAnswerMalformed(provider=self._provider, reason=reason)
