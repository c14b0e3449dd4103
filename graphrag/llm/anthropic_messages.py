"""Anthropic's messages format: converts our messages to requests and reads the answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, TypeGuard

from graphrag.llm import base as llm
from graphrag.llm.answers import AnswerReader, Fields, Unreadable, joined
from graphrag.llm.errors import ModelContentFiltered, ModelContextTooLong
from graphrag.llm.receiver import BLOCKS, EMPTY, with_kept

log = logging.getLogger(__name__)

_REASONS: dict[str, llm.FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "pause_turn": "length",
    "model_context_window_exceeded": "length",
}
_OURS = "tool_use"
_THINKING = ("thinking", "redacted_thinking")
_CALL = frozenset(("type", "id", "name", "input"))
_THEIRS = ("server_tool_use", "mcp_tool_use")
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)

CACHED = {"type": "ephemeral"}
# Number of blocks before a breakpoint in which the provider looks for a cached prefix. Source:
# Anthropic, caching.
CACHE_LOOKBACK_BLOCKS = 20


def to_request(
    messages: Sequence[llm.Message], tools: Sequence[llm.ToolSchema], options: llm.ModelOptions
) -> dict[str, Any]:
    """Returns system, messages, tools and tool_choice of a request, each only if it is not empty.

    Breakpoints for the provider's cache are set at the end of each level of the stable prefix
    (tools and stable instructions) and at the end of the last message, which the next round of
    tools extends. If a round added more blocks than the provider looks back, a fourth one is set at
    the last block of the previous request. Expects messages from `receiver.fitted_to`.
    """
    lead = 0
    while lead < len(messages) and llm.is_stable(messages[lead]):
        lead += 1
    turns = _turns(messages[lead:]) or [_WireMessage(role="user", content=[_text(EMPTY)])]
    _mark_ends(turns, once=sum(1 for message in messages if _is_system(message) and message.once))
    request: dict[str, Any] = {"messages": turns}
    offered = [_tool(tool) for tool in tools] or _tools_of(messages)
    system = _system(messages[:lead])
    if system:
        request["system"] = system
    elif offered:
        offered[-1]["cache_control"] = CACHED
    if offered:
        request["tools"] = offered
        choice = "none" if not tools else options.tool_choice
        if choice != "auto":
            request["tool_choice"] = {"type": {"required": "any", "none": "none"}[choice]}
    return request


def _system(messages: Sequence[llm.Message]) -> list[dict[str, Any]]:
    """Returns the stable messages as blocks. The last one of each level gets a cache breakpoint."""
    filled = [message for message in messages if message.content.strip()]
    blocks = [_text(message.content) for message in filled]
    ends = {
        message.level: block
        for message, block in zip(filled, blocks, strict=True)
        if _is_system(message)
    }
    for block in ends.values():
        block["cache_control"] = CACHED
    return blocks


def _is_system(message: llm.Message) -> TypeGuard[llm.SystemMessage]:
    return isinstance(message, llm.SystemMessage)


def _mark_ends(turns: Sequence[_WireMessage], *, once: int) -> None:
    """Sets a cache breakpoint at the last block, and after a long step also at the step's
    beginning.

    The last `once` blocks are sent in this request only, so the breakpoint is set before them.
    """
    last = turns[-1]["content"]
    last[-1 - once if once < len(last) else -1]["cache_control"] = CACHED
    step = max(
        (index for index, turn in enumerate(turns) if turn["role"] == "assistant"), default=0
    )
    if step and sum(len(turn["content"]) for turn in turns[step:]) > CACHE_LOOKBACK_BLOCKS:
        turns[step - 1]["content"][-1]["cache_control"] = CACHED


class _WireMessage(TypedDict):
    role: Literal["user", "assistant"]
    content: list[dict[str, Any]]


def _turns(messages: Sequence[llm.Message]) -> list[_WireMessage]:
    """Returns turns of alternating roles, each with its tool results first."""
    turns: list[_WireMessage] = []
    for message in messages:
        role = "assistant" if isinstance(message, llm.AssistantMessage) else "user"
        blocks = _blocks(message)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        else:
            turns.append(_WireMessage(role=role, content=blocks))
    for turn in turns:
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, _WireMessage(role="user", content=[_text(EMPTY)]))
    if turns and turns[-1]["role"] == "assistant":
        turns.append(_WireMessage(role="user", content=[_text(EMPTY)]))
    return turns


def _blocks(message: llm.Message) -> list[dict[str, Any]]:
    if isinstance(message, llm.AssistantMessage):
        blocks = [_text(message.content.rstrip())] if message.content.strip() else []
        blocks += [
            {
                **call.extra,
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": json.loads(llm.readable_arguments(call)),
            }
            for call in message.tool_calls
        ]
        return with_kept(blocks, message.extra.get(BLOCKS), "block")
    if isinstance(message, llm.ToolMessage):
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.call_id}
        result["content"] = llm.clean(message.content) or EMPTY
        return [result | ({"is_error": True} if message.is_error else {})]
    if isinstance(message, llm.SystemMessage) and not message.content.strip():
        return []
    return [_text(message.content if message.content.strip() else EMPTY)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": llm.clean(text)}


def _tool(tool: llm.ToolSchema) -> dict[str, Any]:
    function: Mapping[str, Any] = tool["function"]
    definition: dict[str, Any] = {"name": function["name"]}
    if function.get("description"):
        definition["description"] = function["description"]
    definition["input_schema"] = function.get("parameters") or {"type": "object", "properties": {}}
    return definition


def _tools_of(messages: Sequence[llm.Message]) -> list[dict[str, Any]]:
    """Returns declarations of the tools that a history used; the API refuses a history without
    them.
    """
    names = {
        call.name for m in messages if isinstance(m, llm.AssistantMessage) for call in m.tool_calls
    }
    return [{"name": name, "input_schema": {"type": "object"}} for name in sorted(names)]


@dataclass(slots=True)
class _ContentBlock:
    """A content block that has begun.

    `arguments`: the text of a tool's input so far. `kept`: a block of thinking, as it is sent back.
    """

    type: str
    id: str
    name: str
    input: object
    arguments: str = ""
    ended: bool = False
    kept: dict[str, Any] = field(default_factory=dict[str, Any])


class MessageReader(AnswerReader):
    """Reads a stream of Anthropic's messages. It is complete after a stop reason and
    `message_stop`.

    A stream in which a second answer begins (a splice) is read to its end for the token counts, and
    then reported as broken.
    """

    def __init__(
        self, provider: str, messages: Sequence[llm.Message] = (), *, origin: str = ""
    ) -> None:
        super().__init__(provider, messages, origin=origin)
        self._blocks: dict[int, _ContentBlock] = {}
        self._counts: dict[str, int] = {}
        self._reason = self._explanation = ""
        self._stopped = self._spliced = False

    @property
    def finished(self) -> bool:
        return self._stopped and bool(self._reason)

    def read(self, event: Fields) -> None:
        kind = event.text("type")
        delta = event.part("delta")
        if event.has("content"):
            self._not_streamed(event)
            return
        if not kind:
            raise self.malformed("an event without a type")
        message = event.part("message")
        self._count(message if event.has("message") else event)
        if self._spliced:
            self._read_splice(event, delta)
            return
        match kind:
            case "message_start":
                self._spliced = bool(self._blocks)
            case "content_block_start":
                self._start(self._index(event), event.part("content_block"))
            case "content_block_delta":
                self._change(self._block(event), self._index(event), delta)
            case "content_block_stop":
                self._stop(self._block(event), self._index(event))
            case "message_delta":
                self._conclude(delta)
            case "message_stop":
                self._stopped = True
            case _:
                pass  # the API may add new kinds of events

    def _not_streamed(self, whole: Fields) -> None:
        self._count(whole)
        for index, part in enumerate(whole.parts("content")):
            self._start(index, part)
            self._stop(self._blocks[index], index)
        self._conclude(whole)
        self._stopped = True

    def _count(self, holder: Fields) -> None:
        """Stores the latest value of each count: a stream sends them in parts, and repeats them."""
        with suppress(Unreadable):  # the answer is kept if its counts cannot be read
            usage = holder.part("usage")
            self._counts |= {name: usage.count(name) for name in _COUNTS if usage.has(name)}

    def usage(self) -> llm.UsageReport | None:
        """Returns the tokens. The API counts cached tokens separately; here the prompt includes
        them.
        """
        if not self._counts:
            return None
        uncached, written, read, stored = (self._counts.get(name, 0) for name in _COUNTS)
        return llm.UsageReport(
            prompt=uncached + read + stored, completion=written, cached=read, cache_written=stored
        )

    def set_aside(self) -> list[llm.ToolCall]:
        theirs = [
            llm.ToolCall(id=block.id, name=block.name, arguments=block.arguments)
            for block in self._blocks.values()
            if block.type in _THEIRS and block.ended
        ]
        return [*theirs, *(self.gathered if self._spliced else ())]

    def reason(self) -> llm.FinishReason:
        if self._spliced:
            raise self.broken("another answer began within this one")
        if not self._reason:
            raise self.broken("it ended without a reason to stop")
        if not self._stopped:
            raise self.broken("it ended without message_stop")
        if self._reason == "refusal":
            raise ModelContentFiltered(
                provider=self.provider, reason=self._explanation or "refusal"
            )
        if self._reason == "model_context_window_exceeded" and self.is_empty:
            raise ModelContextTooLong(provider=self.provider, reason=self._reason)
        if self._reason not in _REASONS:
            log.info(
                "unknown_finish_reason",
                extra={"provider": self.provider, "reason": self._reason[:50]},
            )
        reason = _REASONS.get(self._reason, "stop")
        if reason != "length" and not all(block.ended for block in self._blocks.values()):
            raise self.broken("it ended within a block")
        for index, block in self._blocks.items():
            if reason == "length" and block.ended and not block.arguments:
                self._add(block, index, "{}")  # a call that ended without arguments is complete
        return reason

    def _start(self, index: int, part: Fields) -> None:
        if index in self._blocks:
            raise self.broken("a block began twice")
        kind = part.text("type")
        call_id = part.text("id")
        name = part.text("name")
        block = _ContentBlock(type=kind, id=call_id, name=name, input=part.any("input"))
        self._blocks[index] = block
        if kind == _OURS:
            self.call(index, call_id=call_id, name=name, extra=part.others(_CALL))
        elif kind == "text":
            self.text(part.text("text"))
        elif kind in _THINKING:
            block.kept = part.others(())
            self.thinking(part.text("thinking"))

    def _change(self, block: _ContentBlock, index: int, delta: Fields) -> None:
        match delta.text("type"):
            case "text_delta":
                self.text(delta.text("text"))
            case "thinking_delta" | "signature_delta":
                block.kept = joined(block.kept, delta.others(("type",)))
                self.thinking(delta.text("thinking"))
            case "input_json_delta":
                self._add(block, index, delta.text("partial_json"))
            case _:
                pass

    def _add(self, block: _ContentBlock, index: int, more: str) -> None:
        block.arguments += more
        if block.type == _OURS and more:
            self.call(index, arguments=more)

    def _stop(self, block: _ContentBlock, index: int) -> None:
        """Ends a block. Some proxies send a tool's whole input when the block starts."""
        block.ended = True
        if block.kept:
            shown = [one for one in self._blocks.values() if one.type in ("text", _OURS)]
            self.extra = joined(self.extra, {BLOCKS: [{"at": len(shown), "block": block.kept}]})
        if not block.arguments and block.input:
            self._add(block, index, json.dumps(block.input, ensure_ascii=False))

    def _read_splice(self, event: Fields, delta: Fields) -> None:
        """Reads an event after a splice. It is not part of the answer, but pieces of calls are
        recorded.
        """
        index = event.number("index")
        if index is not None and index in self._blocks:
            self._add(self._blocks[index], index, delta.text("partial_json"))
        self._reason = delta.text("stop_reason") or self._reason
        self._stopped = self._stopped or event.text("type") == "message_stop"

    def _conclude(self, holder: Fields) -> None:
        self._reason = holder.text("stop_reason") or self._reason
        self._explanation = holder.part("stop_details").text("explanation") or self._explanation

    def _index(self, event: Fields) -> int:
        index = event.number("index")
        if index is None:
            raise self.malformed(f"{event.text('type')} without an index")
        return index

    def _block(self, event: Fields) -> _ContentBlock:
        block = self._blocks.get(self._index(event))
        if block is None or block.ended:
            raise self.broken(f"{event.text('type')} for a block that is not open")
        return block
