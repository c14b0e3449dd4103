"""Decides what the double of the Realtime server answers, by a provider of answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast, final

from graphrag.llm import base as llm
from graphrag.llm.model_text import complete
from graphrag.prompts.quoted_words import quoted
from graphrag.relay.spoken_text import spoken

Item = Mapping[str, Any]
"""An item of the conversation, as the interface writes it."""

READ_ALOUD_CHARS = 600
_CODE = re.compile(r"[^.\n]*\n?```.*?(?:```|\Z)", re.DOTALL)  # with the line before it
_LINES = re.compile(r"([.:;,!?]?)\s*\n\s*")
_END = re.compile(r"[.!?](?=\s)")
# in the first paragraph of answers without a model, which is not read aloud
_NOTICE = "NODIUS_LLM_BASE_URL"


@dataclass(frozen=True, slots=True)
class Says:
    """An item of the response that is spoken."""

    text: str


@dataclass(frozen=True, slots=True)
class CallsTool:
    """An item of the response that calls a tool. `arguments` may be invalid JSON, as of a model."""

    name: str
    arguments: str = "{}"


Reply = Sequence[Says | CallsTool]


class Mind(Protocol):
    """Decides the answers of the double."""

    async def reply(self, instructions: str, items: Sequence[Item], tools: Sequence[Item]) -> Reply:
        """Returns the items of a response.

        `items`: the conversation in order, with the caller's words in `transcript`.
        Raises: ModelError, which fails the response.
        """
        ...


ASKS_SILENT: Final = "Are you still there?"
GREETS: Final = "Hello, how can I help you?"


@final
class RulesMind:
    """Answers by a language model provider, with the tools that the session declares.

    Rules do not follow instructions. Therefore notes of the service and quoted greetings are
    spoken literally (`quoted`). `ASKS_SILENT` and `GREETS` are spoken to a silent caller and as a
    greeting without words of the document.
    """

    def __init__(self, provider: llm.LLMProvider) -> None:
        self._provider = provider

    async def reply(self, instructions: str, items: Sequence[Item], tools: Sequence[Item]) -> Reply:
        """Returns the items of a response. Raises: ModelError."""
        words = self._to_repeat(items)
        if words is not None:
            quotation = quoted(words)
            is_greeting = bool(words) and quotation == words and items[-1].get("role") == "user"
            return (Says(GREETS if is_greeting else quotation or ASKS_SILENT),)
        schemas = [{"type": "function", "function": dict(tool)} for tool in tools]
        answer = await complete(self._provider, _messages(instructions, items), schemas)
        calls = [CallsTool(call.name, call.arguments) for call in answer.tool_calls]
        text = "" if calls else read_aloud(answer.text)
        return [*([Says(text)] if text else []), *calls]

    @staticmethod
    def _to_repeat(items: Sequence[Item]) -> str | None:
        """Returns words to speak literally, None if the last item is to be answered."""
        last: Item = items[-1] if items else {}
        if last.get("type") != "message":
            return None if items else ""
        words = words_of(last)
        is_greeting = len(items) == 1 and _is_typed(last) and "?" not in words
        return words if last.get("role") == "system" or not words or is_greeting else None


def read_aloud(text: str) -> str:
    """Returns an answer for reading aloud: shortened, without markup and code."""
    head, _, rest = text.partition("\n\n")
    plain = spoken(_CODE.sub("", rest if _NOTICE in head else text)).strip()
    line = _LINES.sub(lambda match: f"{match[1] or '.'} ", plain)
    if len(line) <= READ_ALOUD_CHARS:
        return line
    ends = [match.end() for match in _END.finditer(line, 0, READ_ALOUD_CHARS)]
    return line[: ends[-1]] if ends else line[:READ_ALOUD_CHARS].rpartition(" ")[0]


def words_of(item: Item) -> str:
    """Returns the words of a message, written or spoken."""
    parts = cast(Sequence[Mapping[str, Any]], item.get("content") or ())
    return " ".join(str(part.get("text") or part.get("transcript") or "") for part in parts).strip()


def _is_typed(item: Item) -> bool:
    parts = cast(Sequence[Mapping[str, Any]], item.get("content") or ())
    return all(part.get("type") == "input_text" for part in parts)


def _messages(instructions: str, items: Sequence[Item]) -> list[llm.Message]:
    messages: list[llm.Message] = [llm.SystemMessage(content=instructions)]
    names: dict[str, str] = {}
    for item in items:
        match item.get("type"), item.get("role"):
            case "function_call", _:
                call = llm.ToolCall(
                    id=item["call_id"], name=item["name"], arguments=item["arguments"]
                )
                names[call.id] = call.name
                before = messages[-1]
                if isinstance(
                    before, llm.AssistantMessage
                ):  # calls of one response are one message
                    calls = (*before.tool_calls, call)
                    messages[-1] = llm.AssistantMessage(content=before.content, tool_calls=calls)
                else:
                    messages.append(llm.AssistantMessage(tool_calls=(call,)))
            case "function_call_output", _:
                name = names.get(item["call_id"], "")
                messages.append(
                    llm.ToolMessage(call_id=item["call_id"], name=name, content=item["output"])
                )
            case _, "assistant":
                messages.append(llm.AssistantMessage(content=words_of(item)))
            case _, "system":
                messages.append(llm.SystemMessage(content=words_of(item), stable=False))
            case _:
                messages.append(llm.UserMessage(content=words_of(item)))
    return messages
