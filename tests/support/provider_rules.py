"""A model of loopback that keeps a provider's published rules about history: it refuses
what breaks one.

Rules of a wire format hold for every provider of it; `tests/data/provider_quirks.toml`
names the others.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.graphrag.llm import wire
from tests.support.scripted_http import Answer, Request
from tests.support.valid_history import check_anthropic, check_openai

Body = dict[str, Any]
Step = Literal["text", "empty", "refused"] | tuple[str, dict[str, Any]]
"""A text, nothing, a refusal in words, or the name and arguments of a call."""
SAID = "Here it is."
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DUMMY = "skip_thought_signature_validator"


class Broken(Exception):
    """A rule of the provider is broken; the text is what it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirk:
    """A row of the data."""

    name: str
    provider: str
    form: Literal["openai", "responses", "anthropic"]
    source: str
    rules: list[str]
    message: dict[str, Any] = field(default_factory=dict[str, Any])
    call: dict[str, Any] = field(default_factory=dict[str, Any])
    blocks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    items: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    id: str = "call_{n}"


def quirks() -> dict[str, Quirk]:
    """Return the rows by name."""
    path = Path(__file__).parents[1] / "data/provider_quirks.toml"
    return {
        name: Quirk(name=name, **fields) for name, fields in tomllib.loads(path.read_text()).items()
    }


@dataclass(slots=True)
class RuledModel:
    """Answers with the steps it is given, one a request that keeps the rules.

    `refusals` are the answers of 400 in between. `sent`: what went out with a call, by
    the call's id.
    """

    quirk: Quirk
    steps: deque[Step] = field(default_factory=deque[Step])
    refusals: list[str] = field(default_factory=list[str])
    answered: list[Body] = field(default_factory=list[Body])
    sent: dict[str, Any] = field(default_factory=dict[str, Any])
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __call__(self, request: Request) -> Answer:
        body = request.json
        try:
            {"openai": _chat, "responses": _responses, "anthropic": _anthropic}[self.quirk.form](
                body
            )
            for rule in self.quirk.rules:
                RULES[rule](body, self)
        except (Broken, AssertionError) as exc:
            said = str(exc) or "the history is no valid conversation"
            self.refusals.append(said)
            error = {"message": said, "type": "invalid_request_error", "param": _param(said)}
            return Answer(status=400, body={"type": "error", "error": error})
        if not self.steps:
            self.refusals.append("asked once more than scripted")
            return Answer(status=403, body={"error": {"message": self.refusals[-1]}})
        self.answered.append(body)
        return wire.streamed(self._stream(self.steps.popleft()))

    def _stream(self, step: Step) -> bytes:
        writers = {"openai": self._openai, "responses": self._items, "anthropic": self._blocks}
        return writers[self.quirk.form](step)

    def _of_call(self, sent: Any) -> tuple[str, Any]:
        number = next(self._numbers)
        call_id = self.quirk.id.format(n=number)
        sent = json.loads(json.dumps(sent).replace("{n}", str(number)))
        if call_id:
            self.sent[call_id] = sent
        return call_id, sent

    def _openai(self, step: Step) -> bytes:
        if step == "text":
            return wire.sse(wire.delta(content=SAID, **self.quirk.message), wire.delta("stop"))
        if step == "empty":
            return wire.sse(wire.delta(content=""), wire.delta("stop"), wire.usage_chunk(50, 0))
        if step == "refused":
            return wire.sse(wire.delta(refusal="I may not."), wire.delta("stop"))
        name, arguments = step
        call_id, sent = self._of_call({"message": self.quirk.message, "call": self.quirk.call})
        call = {
            "index": 0,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        call |= {"id": call_id} if call_id else {}
        first = wire.delta(role="assistant", content="", **sent["message"])
        return wire.sse(
            first, wire.delta(tool_calls=[{**call, **sent["call"]}]), wire.delta("tool_calls")
        )

    def _blocks(self, step: Step) -> bytes:
        begun = wire.message_start()
        ends = wire.message_end
        if step == "text":
            return wire.events(begun, *wire.text_block(0, SAID), *ends("end_turn"))
        if step in ("empty", "refused"):
            return wire.events(begun, *ends("end_turn" if step == "empty" else "refusal"))
        name, arguments = step
        call_id, sent = self._of_call(self.quirk.blocks)
        kept = [piece for number, block in enumerate(sent) for piece in _thought(number, block)]
        call = wire.tool_block(len(sent), call_id, name, json.dumps(arguments))
        return wire.events(begun, *kept, *call, *ends("tool_use"))

    def _items(self, step: Step) -> bytes:
        usage = {"input_tokens": 9, "output_tokens": 4}
        whole: Body = {"status": "completed", "output": [], "usage": usage}
        ended: Body = {"type": "response.completed", "response": whole}
        if step == "text":
            return wire.events(
                {"type": "response.output_text.delta", "output_index": 0, "delta": SAID}, ended
            )
        if step == "empty":
            return wire.events(ended)
        if step == "refused":
            return wire.events({"type": "response.refusal.delta", "delta": "I may not."}, ended)
        name, arguments = step
        call_id, sent = self._of_call(self.quirk.items)
        call = {"type": "function_call", "id": "fc", "call_id": call_id, "name": name}
        made = [
            *({**item, "status": None} for item in sent),
            {**call, "arguments": json.dumps(arguments)},
        ]
        done = [
            {"type": "response.output_item.done", "output_index": number, "item": item}
            for number, item in enumerate(made)
        ]
        return wire.events(*done, ended)


def _thought(index: int, block: Body) -> list[Body]:
    """Return the events of a block of thinking: its text and signature come as pieces."""
    if block["type"] != "thinking":
        return wire.block(index, block)
    start = {"type": "thinking", "thinking": "", "signature": ""}
    text = {"type": "thinking_delta", "thinking": block["thinking"]}
    return wire.block(
        index, start, text, {"type": "signature_delta", "signature": block["signature"]}
    )


def _param(said: str) -> str | None:
    found = re.search(r"^Unsupported parameter: '(\w+)'|^Encrypted content", said)
    return None if found is None else found.group(1) or "include"


def _need(holds: object, said: str) -> None:
    if not holds:
        raise Broken(said)


# What holds in each wire format


def _chat(body: Body) -> None:
    check_openai(body["messages"])
    for call in _calls(body):
        _need(_NAME.fullmatch(call["function"]["name"]), f"'name' does not match {_NAME.pattern}")
        _need(len(call["id"]) > 0, "empty id")
        json.loads(call["function"]["arguments"])
    for one in body["messages"]:
        _need(
            one["content"] or one.get("tool_calls"),
            f"message with role {one['role']} must not be empty",
        )


def _responses(body: Body) -> None:
    calls = [item for item in body["input"] if item.get("type") == "function_call"]
    answers = [item for item in body["input"] if item.get("type") == "function_call_output"]
    _need(
        [one["call_id"] for one in calls] == [one["call_id"] for one in answers],
        "no tool output found",
    )
    for call in calls:
        _need(_NAME.fullmatch(call["name"]), f"'name' does not match {_NAME.pattern}")
        _need(len(call["call_id"]) <= 64, "call_id: string too long")
    for item in body["input"]:
        _need("status" not in item, "Unknown parameter: 'status'")


def _anthropic(body: Body) -> None:
    check_anthropic(body["messages"])
    _need(body["messages"][-1]["role"] == "user", "does not support assistant message prefill")
    for turn in body["messages"]:
        kinds = [block["type"] for block in turn["content"]]
        last = max((i for i, kind in enumerate(kinds) if kind == "tool_result"), default=-1)
        _need("text" not in kinds[: last + 1], "tool_result blocks must come first")
        for block in turn["content"]:
            if block["type"] == "text":
                _need(block["text"].strip(), "text content blocks must be non-empty")
            if block["type"] == "tool_use":
                _need(_NAME.fullmatch(block["name"]), "name: String should match pattern")
                _need(
                    re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]), "id: String should match pattern"
                )
        _need(
            kinds[-1] not in ("thinking", "redacted_thinking"),
            "the final block cannot be `thinking`",
        )


# The rules of the data


def _calls(body: Body) -> list[Body]:
    return [call for one in body["messages"] for call in one.get("tool_calls", ())]


def _calling(body: Body) -> list[Body]:
    return [one for one in body["messages"] if one.get("tool_calls")]


def _sent_with(one: Body, model: RuledModel) -> Body | None:
    """Return what the model sent with a message of its own."""
    return model.sent.get(one["tool_calls"][0]["id"])


def _own_field(name: str, said: str, *, always: bool = True) -> Callable[[Body, RuledModel], None]:
    """Return a rule: messages with calls have a field, those of the provider itself as
    it was sent.
    """

    def check(body: Body, model: RuledModel) -> None:
        for one in _calling(body):
            sent = _sent_with(one, model)
            _need(name in one or not (always or sent), said)
            _need(not sent or one.get(name) == sent["message"][name], said)

    return check


def _reasoning_not_empty(body: Body, model: RuledModel) -> None:
    for place, one in enumerate(body["messages"]):
        said = "thinking is enabled but reasoning_content is missing in assistant tool call message at index"
        _need(not one.get("tool_calls") or one.get("reasoning_content"), f"{said} {place}")


def _thought_signature(body: Body, model: RuledModel) -> None:
    for one in _calling(body):
        call = one["tool_calls"][0]
        sent = _sent_with(one, model)
        given = call.get("extra_content", {}).get("google", {}).get("thought_signature")
        said = (
            "Function call is missing a thought_signature in functionCall parts: "
            f"{call['function']['name']}"
        )
        _need(given, said)
        real = sent["call"]["extra_content"]["google"]["thought_signature"] if sent else _DUMMY
        _need(given == real, "Corrupted thought signature.")


def _ids(pattern: str, said: str) -> Callable[[Body, RuledModel], None]:
    def check(body: Body, model: RuledModel) -> None:
        for call in _calls(body):
            _need(re.fullmatch(pattern, call["id"]), said.format(id=call["id"]))

    return check


_AFTER = {
    "system": {"system", "user", "assistant"},
    "user": {"system", "user", "assistant"},
    "assistant": {"assistant", "user", "tool"},
    "tool": {"assistant", "tool"},
}
"""Source: mistral-common, `MistralRequestValidator._validate_message_order`."""


def _mistral_order(body: Body, model: RuledModel) -> None:
    roles = [one["role"] for one in body["messages"]]
    for before, role in itertools.pairwise(roles):
        _need(role in _AFTER[before], f"Unexpected role '{role}' after role '{before}'")
    said = f"Expected last role User or Tool (or Assistant with prefix True) for serving but got {roles[-1]}"
    _need(roles[-1] in ("user", "tool"), said)


def _alternating(body: Body, model: RuledModel) -> None:
    said = "After the optional system message, conversation roles must alternate user/assistant/user/..."
    roles = [
        one["role"]
        for one in body["messages"]
        if one["role"] != "tool" and not one.get("tool_calls")
    ]
    roles = roles[roles[:1] == ["system"] :]
    _need("system" not in roles and roles[:1] == ["user"], said)
    # Notes follow tool results; calls in between count as the assistant's.
    _need(all(pair != ("assistant", "assistant") for pair in itertools.pairwise(roles)), said)


def _system_first(body: Body, model: RuledModel) -> None:
    _need(
        all(one["role"] != "system" for one in body["messages"][1:]),
        "System message must be at the beginning.",
    )


def _without(*names: str) -> Callable[[Body, RuledModel], None]:
    def check(body: Body, model: RuledModel) -> None:
        for place, one in enumerate(body["messages"]):
            for name in names:
                said = f"'messages.{place}' : for 'role:assistant' the following must be satisfied"
                _need(
                    name not in one,
                    f"{said}[('messages.{place}' : property '{name}' is unsupported)]",
                )

    return check


def _thinking_in_every_call(body: Body, model: RuledModel) -> None:
    for turn in body["messages"]:
        kinds = [block["type"] for block in turn["content"]]
        said = "The `content[].thinking` in the thinking mode must be passed back to the API."
        _need("tool_use" not in kinds or "thinking" in kinds, said)


def _own_thinking(body: Body, model: RuledModel) -> None:
    """Thinking stands before the call it came with, unchanged, and no other model's is there."""
    for turn in body["messages"]:
        kept: list[Body] = []
        for block in turn["content"]:
            if block["type"] in ("thinking", "redacted_thinking"):
                kept.append(block)
            elif block["type"] == "tool_use":
                said = "Invalid `signature` in `thinking` block"
                _need(kept == model.sent.get(block["id"], []), said)
                kept = []


def _reasoning_items(body: Body, model: RuledModel) -> None:
    _need("reasoning.encrypted_content" in body.get("include", ()), "reasoning is not included")
    kept: list[Body] = []
    for item in body["input"]:
        if item.get("type") == "reasoning":
            kept.append(item)
        elif item.get("type") == "function_call":
            said = "of type 'function_call' was provided without its required 'reasoning' item"
            _need(kept == model.sent.get(item["call_id"], []), said)
            kept = []
    _need(not kept, "Item of type 'reasoning' was provided without its required following item")


def _no_encrypted_content(body: Body, model: RuledModel) -> None:
    _need("include" not in body, "Encrypted content is not supported with this model.")


def _no_max_tokens(body: Body, model: RuledModel) -> None:
    said = "Unsupported parameter: 'max_tokens' is not supported with this model."
    _need("max_tokens" not in body, f"{said} Use 'max_completion_tokens' instead.")


_BACK = "The `reasoning_content` in the thinking mode must be passed back to the API."
RULES: dict[str, Callable[[Body, RuledModel], None]] = {
    "reasoning_content": _own_field("reasoning_content", _BACK),
    "reasoning_not_empty": _reasoning_not_empty,
    "reasoning_details": _own_field(
        "reasoning_details", "reasoning blocks were changed", always=False
    ),
    "thinking_blocks": _own_field(
        "thinking_blocks", "expected `thinking`, found `tool_use`", always=False
    ),
    "thought_signature": _thought_signature,
    "nine_characters": _ids(
        "[a-zA-Z0-9]{9}", "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
    ),
    "forty_characters": _ids(
        "[a-zA-Z0-9_-]{1,40}", "Invalid 'messages[2].tool_calls[0].id': string too long: {id}"
    ),
    "mistral_order": _mistral_order,
    "alternating": _alternating,
    "system_first": _system_first,
    "no_reasoning_content": _without("reasoning_content"),
    "no_reasoning": _without("reasoning", "reasoning_content"),
    "thinking_in_every_call": _thinking_in_every_call,
    "own_thinking": _own_thinking,
    "reasoning_items": _reasoning_items,
    "no_encrypted_content": _no_encrypted_content,
    "no_max_tokens": _no_max_tokens,
}
