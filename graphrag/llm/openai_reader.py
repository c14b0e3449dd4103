"""Reads an answer in OpenAI's chat format, piece by piece, into our chunks; knows no transport."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from graphrag.llm.base import (
    Chunk,
    Finished,
    FinishReason,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    UsageReport,
)
from graphrag.llm.calls import CallGatherer, CallIds
from graphrag.llm.errors import (
    ModelAnswerMalformed,
    ModelContentFiltered,
    ModelEmptyReply,
    ModelFailed,
    ModelStreamBroken,
)
from graphrag.llm.openai_wire import ChatPiece, Choice, Delta, read_usage

log = logging.getLogger(__name__)

_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(
        ("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete", "completed"), "stop"
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
}
_FILTERED = ("content_filter", "safety", "refusal", "sensitive", "moderation", "blocked")
_FAILED = (
    "error",
    "insufficient_system_resource",
    "abort",
    "aborted",
    "network_error",
    "cancelled",
    "unknown",
)
_LEGACY_INDEX = -1
"""The one call of the old `function_call` form; it has no index."""


class ChatReader:
    """One answer. Feed it every piece, then take `end`.

    Only the first choice is read: others are alternatives, not parts, and calls of theirs are set
    aside. A stream is whole when a
    reason to finish was given; with `finish_required=False` also when the tokens were counted,
    which servers that leave out the reason do last.
    """

    def __init__(self, provider: str, ids: CallIds, *, finish_required: bool = True) -> None:
        self._provider, self._finish_required = provider, finish_required
        self._calls = CallGatherer(ids)
        self._others: dict[int, CallGatherer] = {}
        self._reason: str | None = None
        self._usage: UsageReport | None = None
        self._refusal: list[str] = []
        self._spoke = False

    @property
    def finished(self) -> bool:
        """Whether a reason to finish was given: whatever fails from here on, the answer is whole."""
        return bool(self._reason)

    def feed(self, piece: object) -> Iterator[Chunk]:
        """Yield what a piece brings. Raises: ModelAnswerMalformed."""
        try:
            read = ChatPiece.model_validate(piece)
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "a piece of the answer"
            raise self._malformed(f"{where}: {first['msg']}") from exc
        if read.prompt_progress is not None:
            yield PromptProgress(done=read.prompt_progress.processed, total=read.prompt_progress.total)
        elif read.choices is None and read.usage is None:
            raise self._malformed("a piece without choices and usage")
        self._usage = read_usage(read.usage) or self._usage
        for choice in read.choices or ():
            if not choice.index:
                yield from self._choice(choice)
            elif delta := choice.delta or choice.message:
                other = self._others.setdefault(choice.index, CallGatherer(CallIds(())))
                for _ in _tool_calls(delta, other):
                    pass  # an alternative is not announced

    def end(self) -> Iterator[Chunk]:
        """Yield the calls, the tokens and the end.

        Raises: ModelStreamBroken, ModelContentFiltered, ModelFailed, ModelEmptyReply.
        """
        if self._usage is not None:
            yield self._usage
        for other in self._others.values():
            yield from other.arrived()
        reason = self._finish_reason()
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

    def _choice(self, choice: Choice) -> Iterator[Chunk]:
        self._reason = choice.finish_reason or self._reason
        delta = choice.delta or choice.message
        if delta is None:
            return
        for kind, text in delta.texts():
            if kind == "text":
                self._spoke = True
                yield TextDelta(text=text)
            else:
                yield ReasoningDelta(text=text)
        if delta.refusal:
            self._refusal.append(delta.refusal)
        yield from _tool_calls(delta, self._calls)

    def _finish_reason(self) -> FinishReason:
        given = (self._reason or "").lower()
        if not given:
            if self._finish_required or self._usage is None or not self._usage.completion:
                raise ModelStreamBroken(provider=self._provider, reason="it ended without a reason to finish")
            return "unstated"
        if given in _FILTERED:
            raise ModelContentFiltered(provider=self._provider, reason=f"finish reason {given}")
        if given in _FAILED:
            raise ModelFailed(provider=self._provider, reason=f"finish reason {given}")
        if given not in _REASONS:
            log.info("unknown_finish_reason", extra={"provider": self._provider, "reason": given[:50]})
        return _REASONS.get(given, "stop")

    def _malformed(self, reason: Any) -> ModelAnswerMalformed:
        return ModelAnswerMalformed(provider=self._provider, reason=str(reason))


def _tool_calls(delta: Delta, calls: CallGatherer) -> Iterator[Chunk]:
    """Gather a piece's fragments; yields the announcement of each call that they make known."""
    for fragment in delta.tool_calls or ():
        function = fragment.function
        yield from calls.add(
            index=fragment.index,
            call_id=fragment.id,
            name=function.name if function else None,
            arguments=function.arguments if function else None,
        )
    if delta.function_call:
        legacy = delta.function_call
        yield from calls.add(index=_LEGACY_INDEX, call_id=None, name=legacy.name, arguments=legacy.arguments)
