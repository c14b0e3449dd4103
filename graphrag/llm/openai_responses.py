"""OpenAI's Responses format: converts our messages to requests and reads the answers.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from graphrag.llm import base as llm
from graphrag.llm.answers import AnswerReader, Fields, joined
from graphrag.llm.errors import ModelContentFiltered, ModelFailed, ModelRateLimited
from graphrag.llm.receiver import ITEMS, with_kept


def to_input(messages: Sequence[llm.Message]) -> list[dict[str, Any]]:
    """Returns the messages as input items. A call and its result are separate items.

    Expects messages from `receiver.fitted_to`.
    """
    items: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case llm.SystemMessage():
                items += _text_items("system", message.content)
            case llm.UserMessage():
                items += _text_items("user", message.content)
            case llm.ToolMessage():
                result = {"call_id": message.call_id, "output": llm.clean(message.content)}
                items.append({"type": "function_call_output", **result})
            case llm.AssistantMessage():
                items += with_kept(_answer_items(message), message.extra.get(ITEMS), "item")
    return items


def _answer_items(message: llm.AssistantMessage) -> list[dict[str, Any]]:
    return _text_items("assistant", message.content) + [
        {
            **call.extra,
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": llm.readable_arguments(call),
        }
        for call in message.tool_calls
    ]


def _text_items(role: str, text: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": llm.clean(text)}] if text.strip() else []


def to_functions(tools: Sequence[llm.ToolSchema]) -> list[dict[str, Any]]:
    """Returns the tools in this format's flat form. They are not strict: our schemas do not
    qualify.
    """
    return [
        {"type": "function", **cast(Mapping[str, Any], tool["function"]), "strict": False}
        for tool in tools
    ]


class ResponsesReader(AnswerReader):
    """Reads a stream of the Responses format. It is complete once the response has arrived."""

    def __init__(
        self, provider: str, messages: Sequence[llm.Message] = (), *, origin: str = ""
    ) -> None:
        super().__init__(provider, messages, origin=origin)
        self._whole: Fields | None = None
        self._written: set[int] = set()
        self._items = 0

    @property
    def finished(self) -> bool:
        return self._whole is not None

    def read(self, event: Fields) -> None:
        kind = event.text("type")
        if event.text("object") == "response":
            self._not_streamed(event)
        elif not kind.startswith("response."):
            raise self.malformed("an event that does not belong to a response")
        else:
            self._event(event, kind.removeprefix("response."))

    def _event(self, event: Fields, kind: str) -> None:
        text = event.any("delta") if isinstance(event.any("delta"), str) else ""
        index = event.number("output_index")
        match kind:
            case "output_text.delta":
                self.text(text)
            case "reasoning_text.delta" | "reasoning_summary_text.delta":
                self.thinking(text)
            case "refusal.delta":
                self.refusal.append(text)
            case "function_call_arguments.delta":
                if index is None:
                    raise self.malformed("arguments without an index")
                self._written.add(index)
                self.call(index, arguments=text)
            case "output_item.added" | "output_item.done":
                self._item(event.part("item"), index, done=kind.endswith("done"))
            case "completed" | "incomplete" | "failed":
                self._whole = event.part("response")
            case _:
                pass

    def _item(self, item: Fields, index: int | None, *, done: bool) -> None:
        if done and item.text("type") == "reasoning":
            # An item with neither cannot be sent back: it exists only on the server.
            if item.any("encrypted_content") or item.any("content"):
                kept = {"at": self._items, "item": item.others(("status",))}
                self.extra = joined(self.extra, {ITEMS: [kept]})
        elif done:
            self._items += 1
        if item.text("type") != "function_call":
            return
        if not done or (
            index is not None and index not in self._written
        ):  # sent at once, not in pieces
            self.call(
                index,
                call_id=item.text("call_id") or item.text("id"),
                name=item.text("name"),
                arguments=item.text("arguments") if done else "",
            )

    def _not_streamed(self, whole: Fields) -> None:
        for index, item in enumerate(whole.parts("output")):
            for part in item.parts("content"):
                if item.text("type") == "message":
                    self.text(part.text("text"))
                self.refusal += filter(None, [part.text("refusal")])
            self._item(item, index, done=True)
        self._whole = whole

    def usage(self) -> llm.UsageReport | None:
        usage = (self._whole or Fields({})).part("usage")
        if not usage.has("input_tokens"):
            return None
        prompt = usage.count("input_tokens")
        cached = usage.part("input_tokens_details").number("cached_tokens") or 0
        return llm.UsageReport(
            prompt=prompt,
            completion=usage.count("output_tokens"),
            cached=min(max(cached, 0), prompt),
            reasoning=max(usage.part("output_tokens_details").number("reasoning_tokens") or 0, 0),
        )

    def reason(self) -> llm.FinishReason:
        whole = self._whole
        if whole is None:
            raise self.broken("it ended before response.completed")
        status = whole.text("status")
        error = whole.part("error")
        if status == "failed" or whole.has("error"):
            code = error.text("code")
            reason = f"{code}: {error.text('message')}" if whole.has("error") else "it failed"
            kind = ModelRateLimited if code == "rate_limit_exceeded" else ModelFailed
            raise kind(provider=self.provider, reason=reason)
        if status == "incomplete":
            if whole.part("incomplete_details").text("reason") == "content_filter":
                raise ModelContentFiltered(provider=self.provider, reason="content_filter")
            return "length"
        if status not in ("", "completed"):
            raise self.broken(f"it ended as {status}")
        return "stop"
