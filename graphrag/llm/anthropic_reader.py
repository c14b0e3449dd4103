"""Reads an answer in Anthropic's messages format, event by event, into our chunks; knows no transport."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from pydantic import ValidationError

from graphrag.llm.anthropic_wire import Event, Part, UsageSum, Whole
from graphrag.llm.base import (
    Chunk,
    Finished,
    FinishReason,
    ProviderToolUsed,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)
from graphrag.llm.calls import CallGatherer, CallIds
from graphrag.llm.errors import (
    ModelAnswerMalformed,
    ModelContentFiltered,
    ModelContextTooLong,
    ModelEmptyReply,
    ModelStreamBroken,
)

log = logging.getLogger(__name__)

_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "pause_turn": "length",
}
_OURS = "tool_use"
_THEIRS = ("server_tool_use", "mcp_tool_use")


@dataclass(slots=True)
class _Block:
    """A content block that has begun. `arguments` are the raw bytes of a tool's input so far."""

    type: str
    id: str = ""
    name: str = ""
    input: object = None
    arguments: str = ""
    ended: bool = False

    def whole_arguments(self) -> str:
        """The raw text, or what some proxies put whole into the block's start instead."""
        return self.arguments or (json.dumps(self.input, ensure_ascii=False) if self.input else "")


class MessageReader:
    """One answer. Feed it every event, then take `end`.

    The stream is whole when it gave a reason to stop and `message_stop` came. One in which a second
    answer begins (a splice) is heard out and then broken.
    """

    def __init__(self, provider: str, ids: CallIds) -> None:
        self._provider = provider
        self._calls = CallGatherer(ids)
        self._blocks: dict[int, _Block] = {}
        self._usage = UsageSum()
        self._reason = ""
        self._explanation = ""
        self._stopped = False
        self._spoke = False
        self._spliced = False

    @property
    def finished(self) -> bool:
        """Whether the answer is whole: what fails from here on does not matter."""
        return self._stopped and bool(self._reason)

    def feed(self, event: object) -> Iterator[Chunk]:
        """Yield what an event, or an answer that was not streamed, brings.

        Raises: ModelAnswerMalformed, ModelStreamBroken.
        """
        if isinstance(event, dict) and "content" in event:
            yield from self._feed_whole(cast(object, event))
            return
        try:
            read = Event.model_validate(event)
        except ValidationError as exc:
            raise self._unreadable(exc) from exc
        if self._spliced:
            self._hear_out(read)
            return
        match read.type:
            case "message_start":
                self._spliced = bool(self._blocks)
                self._usage.take(read.message.usage if read.message else None)
            case "content_block_start":
                yield from self._start(self._index(read), read.content_block or Part())
            case "content_block_delta":
                yield from self._change(self._block(read), self._index(read), read.delta or Part())
            case "content_block_stop":
                yield from self._stop(self._block(read))
            case "message_delta":
                self._usage.take(read.usage)
                self._conclude(read.delta or Part())
            case "message_stop":
                self._stopped = True
            case _:
                pass  # new kinds of events are announced to come

    def _feed_whole(self, body: object) -> Iterator[Chunk]:
        try:
            whole = Whole.model_validate(body)
        except ValidationError as exc:
            raise self._unreadable(exc) from exc
        if whole.content is None:
            raise ModelAnswerMalformed(provider=self._provider, reason="an answer without content")
        self._usage.take(whole.usage)
        for index, part in enumerate(whole.content):
            yield from self._start(index, part)
            yield from self._stop(self._blocks[index])
        self._conclude(Part(stop_reason=whole.stop_reason, stop_details=whole.stop_details))
        self._stopped = True

    def end(self) -> Iterator[Chunk]:
        """Yield the calls, the tokens and the end.

        Raises: ModelStreamBroken, ModelContentFiltered, ModelContextTooLong, ModelEmptyReply.
        """
        usage = self._usage.report()
        if usage is not None:
            yield usage
        if self._spliced:
            yield from self._calls.arrived()
            raise self._broken("another answer began within this one")
        if not self._reason:
            raise self._broken("it ended without a reason to stop")
        if not self._stopped:
            raise self._broken("it ended without message_stop")
        if self._reason == "refusal":
            raise ModelContentFiltered(provider=self._provider, reason=self._explanation or "refusal")
        if self._reason == "model_context_window_exceeded" and not self._spoke and not self._calls.any:
            raise ModelContextTooLong(provider=self._provider, reason=self._reason)
        reason = _REASONS.get(self._reason)
        if reason is None:
            reason = "length" if self._reason == "model_context_window_exceeded" else "stop"
            log.info("unknown_finish_reason", extra={"provider": self._provider, "reason": self._reason[:50]})
        if reason != "length" and any(not block.ended for block in self._blocks.values()):
            raise self._broken("it ended within a block")
        if self._calls.any:
            yield from self._ready(reason)
            reason = "tool_calls" if reason == "stop" else reason
        elif not self._spoke and reason != "length":
            raise ModelEmptyReply(provider=self._provider, reason="neither text nor a tool call")
        yield Finished(reason=reason)

    def _ready(self, reason: FinishReason) -> Iterator[Chunk]:
        for index, block in self._blocks.items():
            if block.type == _OURS and not block.arguments and block.input:
                yield from self._calls.add(
                    index=index, call_id=None, name=None, arguments=block.whole_arguments()
                )
        # A block that ended is whole, also without arguments: then it takes none.
        yield from self._calls.end(reason, whole=[i for i, block in self._blocks.items() if block.ended])

    def _start(self, index: int, part: Part) -> Iterator[Chunk]:
        if index in self._blocks:
            raise self._broken("a block began twice")
        block = _Block(type=part.type or "", id=part.id or "", name=part.name or "", input=part.input)
        self._blocks[index] = block
        if part.type == _OURS:
            if not part.name:
                raise ModelAnswerMalformed(provider=self._provider, reason="a tool call without a name")
            yield from self._calls.add(index=index, call_id=part.id, name=part.name, arguments=None)
        elif part.type == "text" and part.text:
            self._spoke = True
            yield TextDelta(text=part.text)
        elif part.type == "thinking" and part.thinking:
            yield ReasoningDelta(text=part.thinking)

    def _change(self, block: _Block, index: int, delta: Part) -> Iterator[Chunk]:
        if delta.type == "text_delta" and delta.text:
            self._spoke = True
            yield TextDelta(text=delta.text)
        elif delta.type == "thinking_delta" and delta.thinking:
            yield ReasoningDelta(text=delta.thinking)
        elif delta.type == "input_json_delta" and delta.partial_json:
            block.arguments += delta.partial_json
            if block.type == _OURS:
                yield from self._calls.add(index=index, call_id=None, name=None, arguments=delta.partial_json)

    def _stop(self, block: _Block) -> Iterator[Chunk]:
        block.ended = True
        if block.type in _THEIRS:
            call = ToolCall(id=block.id, name=block.name, arguments=block.whole_arguments())
            yield ProviderToolUsed(call=call)

    def _hear_out(self, event: Event) -> None:
        """Take what follows a splice: nothing of it is an answer, but all of it is written and paid for.

        It is read to its end, which tells the tokens; what it adds to a call is kept to be set aside.
        """
        self._usage.take(event.message.usage if event.message else event.usage)
        delta, block = event.delta or Part(), self._blocks.get(-1 if event.index is None else event.index)
        if delta.partial_json and block is not None and block.type == _OURS:
            for _ in self._calls.add(
                index=event.index, call_id=None, name=None, arguments=delta.partial_json
            ):
                pass  # its block began before the splice, and was announced then
        self._reason = delta.stop_reason or self._reason
        self._stopped = self._stopped or event.type == "message_stop"

    def _conclude(self, delta: Part) -> None:
        self._reason = delta.stop_reason or self._reason
        if delta.stop_details and delta.stop_details.explanation:
            self._explanation = delta.stop_details.explanation

    def _index(self, event: Event) -> int:
        if event.index is None:
            raise ModelAnswerMalformed(provider=self._provider, reason=f"{event.type} without an index")
        return event.index

    def _block(self, event: Event) -> _Block:
        block = self._blocks.get(self._index(event))
        if block is None or block.ended:
            raise self._broken(f"{event.type} for a block that is not open")
        return block

    def _broken(self, reason: str) -> ModelStreamBroken:
        return ModelStreamBroken(provider=self._provider, reason=reason)

    def _unreadable(self, exc: ValidationError) -> ModelAnswerMalformed:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "an event"
        return ModelAnswerMalformed(provider=self._provider, reason=f"{where}: {first['msg']}")
