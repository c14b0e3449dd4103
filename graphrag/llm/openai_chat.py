"""OpenAI's chat format: our messages as it wants them, and what its answers say."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

from graphrag.llm.answers import AnswerReader, CallGatherer, CallIds, thinking
from graphrag.llm.base import (
    AssistantMessage,
    Chunk,
    FinishReason,
    Message,
    PromptProgress,
    SystemMessage,
    ToolMessage,
    UsageReport,
    UserMessage,
)
from graphrag.llm.errors import ModelContentFiltered, ModelFailed
from graphrag.llm.fields import Fields, Unreadable
from graphrag.llm.message_text import LateSystem, clean, is_stable, readable_arguments

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


def to_messages(
    messages: Sequence[Message], *, late_system: LateSystem = "system", resend_reasoning: bool = False
) -> list[dict[str, Any]]:
    """Return the messages in OpenAI's form; leading instructions become one message.

    What comes later stays in its place, after what never changes, so that a server's cache of the
    beginning holds. As `user` it joins what the person says: some templates want turns to alternate.
    """
    lead = 0
    while lead < len(messages) and is_stable(messages[lead]):
        lead += 1
    made: list[dict[str, Any]] = []
    system = "\n\n".join(clean(m.content) for m in messages[:lead] if m.content.strip())
    if system:
        made.append({"role": "system", "content": system})
    turn = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=0)
    for place, message in enumerate(messages[lead:], start=lead):
        one = _one(message, late_system, resend_reasoning and place > turn)
        if late_system == "user" and made and made[-1]["role"] == one["role"] == "user":
            made[-1]["content"] += f"\n\n{one['content']}"
        else:
            made.append(one)
    return made


def _one(message: Message, late_system: LateSystem, with_reasoning: bool) -> dict[str, Any]:
    match message:
        case SystemMessage():
            return {"role": late_system, "content": clean(message.content)}
        case UserMessage():
            return {"role": "user", "content": clean(message.content)}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": clean(message.content)}
        case AssistantMessage():
            sent: dict[str, Any] = {"role": "assistant", "content": clean(message.content)}
            if message.tool_calls:  # beside them the text may be empty; servers refuse null
                sent["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": readable_arguments(call)},
                    }
                    for call in message.tool_calls
                ]
            if with_reasoning and message.reasoning:
                sent["reasoning_content"] = clean(message.reasoning)
            return sent


class ChatReader(AnswerReader):
    """Only the first choice is read: others are alternatives, not parts, and calls of theirs are set aside.

    A stream is whole when a reason to finish was given; with `finish_required=False` also when the tokens
    were counted, which servers that leave out the reason do last.
    """

    def __init__(self, provider: str, ids: CallIds, *, finish_required: bool = True) -> None:
        super().__init__(provider, ids)
        self._finish_required = finish_required
        self._others: dict[int, CallGatherer] = {}
        self._reason = ""
        self._usage: Fields | None = None

    @property
    def finished(self) -> bool:
        return bool(self._reason)

    def read(self, event: Fields) -> Iterator[Chunk]:
        choices, progress = event.parts("choices"), event.part("prompt_progress")
        if progress is not None:  # Source: llama.cpp's pull request 15827
            yield PromptProgress(done=progress.count("processed"), total=progress.count("total"))
        elif choices is None and event.any("usage") is None:
            raise self.malformed("a piece without choices and usage")
        with suppress(Unreadable):
            self._usage = event.part("usage") or self._usage
        for choice in choices or ():
            said = choice.part("delta") or choice.part("message")
            index = choice.number("index")
            if not index:
                self._reason = choice.text("finish_reason") or self._reason
                if said is not None:
                    yield from self._said(said)
            elif said is not None:
                other = self._others.setdefault(index, CallGatherer(CallIds(())))
                for _ in _tool_calls(said, other):
                    pass  # an alternative is not announced

    def _said(self, said: Fields) -> Iterator[Chunk]:
        yield from thinking(said.text("reasoning_content") or said.text("reasoning"))
        content = said.any("content")
        if isinstance(content, list):
            for part in cast(list[object], content):
                text = Fields(cast(object, part)).any("text") if isinstance(part, dict) else None
                yield from self.text(text if isinstance(text, str) else None)
        else:
            yield from self.text(said.text("content"))
        if refusal := said.text("refusal"):
            self.refusal.append(refusal)
        yield from _tool_calls(said, self.calls)

    def usage(self) -> UsageReport | None:
        usage = self._usage
        if usage is None or usage.any("prompt_tokens") is None:
            return None
        details, written = usage.part("prompt_tokens_details"), usage.part("completion_tokens_details")
        cached = details.number("cached_tokens") if details else None
        cached = cached or usage.number("prompt_cache_hit_tokens") or usage.number("cached_tokens") or 0
        prompt = usage.count("prompt_tokens")
        return UsageReport(
            prompt=prompt,
            completion=usage.count("completion_tokens"),
            cached=min(max(cached, 0), prompt),
            reasoning=max((written and written.number("reasoning_tokens")) or 0, 0),
        )

    def set_aside(self) -> Iterator[Chunk]:
        for other in self._others.values():
            yield from other.arrived()

    def reason(self) -> FinishReason:
        given = self._reason.lower()
        if not given:
            with suppress(Unreadable):
                usage = self.usage()
                if not self._finish_required and usage is not None and usage.completion:
                    return "unstated"
            raise self.broken("it ended without a reason to finish")
        if given in _FILTERED:
            raise ModelContentFiltered(provider=self.provider, reason=f"finish reason {given}")
        if given in _FAILED:
            raise ModelFailed(provider=self.provider, reason=f"finish reason {given}")
        if given not in _REASONS:
            log.info("unknown_finish_reason", extra={"provider": self.provider, "reason": given[:50]})
        return _REASONS.get(given, "stop")


def _tool_calls(said: Fields, calls: CallGatherer) -> Iterator[Chunk]:
    """Gather a piece's fragments; yields the announcement of each call that they make known."""
    fragments = said.parts("tool_calls") or ()
    for fragment in fragments:
        function = fragment.part("function")
        yield from calls.add(
            index=fragment.number("index"),
            call_id=fragment.text("id"),
            name=function.text("name") if function else None,
            arguments=function.json("arguments") if function else None,
        )
    if not fragments and (legacy := said.part("function_call")):  # some say one call in both forms
        name, arguments = legacy.text("name"), legacy.json("arguments")
        yield from calls.add(index=_LEGACY_INDEX, call_id=None, name=name, arguments=arguments)
