"""OpenAI's chat format: our messages as it wants them, and what its answers say."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from graphrag.llm import base as llm
from graphrag.llm.answers import AnswerReader, Fields, Unreadable, joined
from graphrag.llm.errors import ModelContentFiltered, ModelFailed

log = logging.getLogger(__name__)

_REASONS: dict[str, llm.FinishReason] = {
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
_MESSAGE = frozenset(("role", "content", "refusal", "tool_calls", "function_call"))
_CALL = frozenset(("index", "id", "type", "function"))
_FUNCTION = frozenset(("name", "arguments"))
_GOES_BACK = re.compile("reasoning|thinking|thought|signature|extra_content|provider_specific")
"""Names of fields of a message that some servers want back: there are others that
no server takes.
"""
_LEGACY_INDEX = -1
"""The one call of the old `function_call` form; it has no index."""


def to_messages(messages: Sequence[llm.Message]) -> list[dict[str, Any]]:
    """Return the messages in OpenAI's form; leading instructions become one message.

    What comes later stays in its place, after what never changes, so that a server's cache of the
    beginning holds. The messages are those that the server takes: see `receiver.fitted_to`.
    """
    lead = 0
    while lead < len(messages) and llm.is_stable(messages[lead]):
        lead += 1
    system = "\n\n".join(llm.clean(m.content) for m in messages[:lead] if m.content.strip())
    made = [{"role": "system", "content": system}] if system else []
    return made + [_one(message) for message in messages[lead:]]


def _one(message: llm.Message) -> dict[str, Any]:
    match message:
        case llm.SystemMessage():
            return {"role": "system", "content": llm.clean(message.content)}
        case llm.UserMessage():
            return {"role": "user", "content": llm.clean(message.content)}
        case llm.ToolMessage():
            return {
                "role": "tool",
                "tool_call_id": message.call_id,
                "content": llm.clean(message.content),
            }
        case llm.AssistantMessage():
            sent: dict[str, Any] = {"role": "assistant", "content": llm.clean(message.content)}
            if message.tool_calls:  # beside them the text may be empty; servers refuse null
                sent["tool_calls"] = [
                    {
                        **call.extra,
                        "id": call.id,
                        "type": "function",
                        "function": {
                            **call.extra.get("function", {}),
                            "name": call.name,
                            "arguments": llm.readable_arguments(call),
                        },
                    }
                    for call in message.tool_calls
                ]
            return {**message.extra, **sent}


class ChatReader(AnswerReader):
    """Only the first choice is read: others are alternatives, not parts, and calls of theirs
    are set aside.

    A stream is whole when a reason to finish was given; with `finish_required=False` also when the
    tokens were counted, which servers that leave out the reason do last.
    """

    def __init__(
        self,
        provider: str,
        messages: Sequence[llm.Message] = (),
        *,
        origin: str = "",
        finish_required: bool = True,
    ) -> None:
        super().__init__(provider, messages, origin=origin)
        self._finish_required = finish_required
        self._others: dict[int, ChatReader] = {}
        self._reason = ""
        self._usage = Fields({})

    @property
    def finished(self) -> bool:
        return bool(self._reason)

    def read(self, event: Fields) -> None:
        choices = event.parts("choices")
        if event.has("prompt_progress"):  # Source: llama.cpp's pull request 15827
            progress = event.part("prompt_progress")
            self.made.append(
                llm.PromptRead(done=progress.count("processed"), total=progress.count("total"))
            )
        elif not event.has("choices") and not event.has("usage"):
            raise self.malformed("a piece without choices and usage")
        with suppress(Unreadable):
            self._usage = event.part("usage") if event.has("usage") else self._usage
        for choice in choices:
            said = choice.part("delta" if choice.has("delta") else "message")
            index = choice.number("index")
            if index:
                self._others.setdefault(index, ChatReader(self.provider))._tool_calls(said)
            else:
                self._reason = choice.text("finish_reason") or self._reason
                self._said(said)

    def _said(self, said: Fields) -> None:
        self.thinking(said.text("reasoning_content") or said.text("reasoning"))
        if isinstance(said.any("content"), list):
            for part in cast(list[object], said.any("content")):
                text = Fields(cast(object, part)).any("text") if isinstance(part, dict) else None
                self.text(text if isinstance(text, str) else "")
        else:
            self.text(said.text("content"))
        self.refusal += filter(None, [said.text("refusal")])
        came = {
            name: value for name, value in said.others(_MESSAGE).items() if _GOES_BACK.search(name)
        }
        self.extra = joined(self.extra, came)
        self._tool_calls(said)

    def _tool_calls(self, said: Fields) -> None:
        fragments = said.parts("tool_calls")
        for fragment in fragments:
            function = fragment.part("function")
            extra = fragment.others(_CALL)
            if inner := function.others(_FUNCTION):
                extra["function"] = inner
            self.call(
                fragment.number("index"),
                call_id=fragment.text("id"),
                name=function.text("name"),
                arguments=function.json("arguments"),
                extra=extra,
            )
        if not fragments and said.has("function_call"):  # some say one call in both forms
            legacy = said.part("function_call")
            self.call(_LEGACY_INDEX, name=legacy.text("name"), arguments=legacy.json("arguments"))

    def usage(self) -> llm.UsageReport | None:
        usage = self._usage
        if not usage.has("prompt_tokens"):
            return None
        prompt = usage.count("prompt_tokens")
        cached = usage.part("prompt_tokens_details").number("cached_tokens")
        cached = (
            cached or usage.number("prompt_cache_hit_tokens") or usage.number("cached_tokens") or 0
        )
        written = usage.part("completion_tokens_details")
        return llm.UsageReport(
            prompt=prompt,
            completion=usage.count("completion_tokens"),
            cached=min(max(cached, 0), prompt),
            reasoning=max(written.number("reasoning_tokens") or 0, 0),
        )

    def set_aside(self) -> list[llm.ToolCall]:
        return [call for other in self._others.values() for call in other.gathered]

    def reason(self) -> llm.FinishReason:
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
            log.info(
                "unknown_finish_reason", extra={"provider": self.provider, "reason": given[:50]}
            )
        return _REASONS.get(given, "stop")
