"""OpenAI's chat format: converts our messages to requests and reads the answers."""

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
# Fields of a message that some servers require in later requests. Other fields are not sent back.
_GOES_BACK = re.compile("reasoning|thinking|thought|signature|extra_content|provider_specific")
_LEGACY_INDEX = -1  # Index for the single call of the old `function_call` form, which has none.


def to_messages(messages: Sequence[llm.Message]) -> list[dict[str, Any]]:
    """Returns the messages in OpenAI's form, with the leading instructions as one message.

    Later system messages keep their place, after the parts that never change, so that a server's
    prefix cache remains valid. Expects messages from `receiver.fitted_to`.
    """
    lead = 0
    while lead < len(messages) and llm.is_stable(messages[lead]):
        lead += 1
    system = "\n\n".join(llm.clean(m.content) for m in messages[:lead] if m.content.strip())
    leading = [{"role": "system", "content": system}] if system else []
    return leading + [_wire_message(message) for message in messages[lead:]]


def _wire_message(message: llm.Message) -> dict[str, Any]:
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
            if message.tool_calls:  # with calls the text may be empty; servers refuse null
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
    """Reads a stream of OpenAI's chat format. Reads the first choice; calls of others are set
    aside.

    A stream is complete when it gave a finish reason. With `finish_required=False` also when it
    gave the token counts, which servers without a finish reason send last.
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
            self.chunks.append(
                llm.PromptRead(done=progress.count("processed"), total=progress.count("total"))
            )
        elif not event.has("choices") and not event.has("usage"):
            raise self.malformed("a piece without choices and usage")
        with suppress(Unreadable):
            self._usage = event.part("usage") if event.has("usage") else self._usage
        for choice in choices:
            message = choice.part("delta" if choice.has("delta") else "message")
            index = choice.number("index")
            if index:
                self._others.setdefault(index, ChatReader(self.provider))._tool_calls(message)
            else:
                self._reason = choice.text("finish_reason") or self._reason
                self._read_message(message)

    def _read_message(self, message: Fields) -> None:
        self.thinking(message.text("reasoning_content") or message.text("reasoning"))
        if isinstance(message.any("content"), list):
            for part in cast(list[object], message.any("content")):
                text = Fields(cast(object, part)).any("text") if isinstance(part, dict) else None
                self.text(text if isinstance(text, str) else "")
        else:
            self.text(message.text("content"))
        self.refusal += filter(None, [message.text("refusal")])
        sent_back = {
            name: value
            for name, value in message.others(_MESSAGE).items()
            if _GOES_BACK.search(name)
        }
        self.extra = joined(self.extra, sent_back)
        self._tool_calls(message)

    def _tool_calls(self, message: Fields) -> None:
        fragments = message.parts("tool_calls")
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
        if not fragments and message.has("function_call"):  # some servers send both forms
            legacy = message.part("function_call")
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
        details = usage.part("completion_tokens_details")
        return llm.UsageReport(
            prompt=prompt,
            completion=usage.count("completion_tokens"),
            cached=min(max(cached, 0), prompt),
            reasoning=max(details.number("reasoning_tokens") or 0, 0),
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
