"""Fits a conversation to the API that is sent it: ids and names of calls, order of roles, and what
came with an earlier answer.

A conversation outlives the provider it began with, and holds what models wrote. Every API refuses a
request for one word of its history that it does not take, so nothing of it is sent as it stands.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphrag.llm import base as llm

EMPTY = "(empty)"
"""Stands where an API allows no empty text."""
BRIDGE = "(noted)"
"""What the model says between a tool's result and the next message, where an API wants it
to speak there.
"""

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")
NAME_CHARS = 64
"""Longest name of a tool that every API takes. Source: the references of OpenAI,
Anthropic and Gemini.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRules:
    """What an API wants of the history that it is sent, beyond its format.

    `call_ids`: a pattern of the ids of calls. `late_system`: as what a system message after the
    first turn is sent; as `user` roles alternate, as some chat templates want. `bridged`: after a
    tool's result the model speaks before the person does. `message_extra`: fields that each message
    of the model must have, and `call_extra` of its first call, with the value for those of other
    providers. `without`: fields that are not taken back.
    """

    call_ids: str = r"[a-zA-Z0-9_-]{1,40}"
    late_system: llm.LateSystem = "system"
    bridged: bool = False
    message_extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    call_extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    without: frozenset[str] = frozenset()


NINE_CHARS = r"[a-zA-Z0-9]{9}"
"""Ids of Mistral's format. Source: mistral-common, `protocol/instruct/validator.py`."""
SIGNATURE: Mapping[str, Any] = {
    "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}
}
"""For a call of another model. Source: https://ai.google.dev/gemini-api/docs/thought-signatures"""
NO_REASONING: Mapping[str, Any] = {"reasoning_content": "."}
"""For an answer of another model: some servers take an empty text for a missing one."""
BLOCKS = "blocks"
"""Field of a message's `extra` that holds Anthropic's blocks of thinking, each with its place."""
ITEMS = "items"
"""Field of a message's `extra` that holds the reasoning items of OpenAI's Responses."""
NO_THINKING: Mapping[str, Any] = {
    BLOCKS: [{"at": 0, "block": {"type": "thinking", "thinking": ".", "signature": ""}}]
}

_FIELD = (
    r"\b(?P<field>reasoning_content|reasoning_details|reasoning|extra_content|thinking_blocks)\b"
)


def _without(rules: HistoryRules, *fields: str) -> HistoryRules:
    return replace(rules, without=rules.without | set(fields))


_LESSONS: Sequence[tuple[str, Callable[[HistoryRules, re.Match[str]], HistoryRules]]] = (
    (
        r"content\[\]\.thinking.{0,80}must be passed",
        lambda rules, _: replace(rules, message_extra=NO_THINKING),
    ),
    (
        r"reasoning_content.{0,80}(?:must be passed|missing|required)",
        lambda rules, _: replace(rules, message_extra=NO_REASONING),
    ),
    (r"missing a.{0,3}thought_?signature", lambda rules, _: replace(rules, call_extra=SIGNATURE)),
    (
        r"(?:invalid|corrupted) thought.?signature",
        lambda rules, _: _without(replace(rules, call_extra=SIGNATURE), *SIGNATURE),
    ),
    (
        r"length of 9\b|9 (?:alphanumeric )?characters",
        lambda rules, _: replace(rules, call_ids=NINE_CHARS),
    ),
    (
        r"unexpected role|roles must alternate|after role ",
        lambda rules, _: replace(rules, late_system="user", bridged=True),
    ),
    (
        rf"{_FIELD}.{{0,40}}(?:unsupported|not (?:supported|permitted|allowed)|unknown|unexpected)",
        lambda rules, found: _without(rules, found["field"]),
    ),
    (
        rf"(?:extra|unknown|unexpected|unrecognized|unsupported).{{0,60}}{_FIELD}",
        lambda rules, found: _without(rules, found["field"]),
    ),
    (
        r"invalid.{0,3}signature.{0,40}thinking|encrypted.?content.{0,80}(?:verif|decrypt)",
        lambda rules, _: _without(rules, BLOCKS, ITEMS),
    ),
)
"""What an API's refusal teaches about the histories it takes: a pattern of its words, and the
rules it makes.

A server behind a general address is known by its refusals alone.
"""


def learned(rules: HistoryRules, refusal: str) -> HistoryRules | None:
    """Return the rules with what an API's refusal teaches; None where it teaches nothing new."""
    for pattern, learn in _LESSONS:
        found = re.search(pattern, refusal, re.IGNORECASE | re.DOTALL)
        if found is not None and (changed := learn(rules, found)) != rules:
            return changed
    return None


def fitted_to(
    messages: Sequence[llm.Message], rules: HistoryRules, origin: str
) -> list[llm.Message]:
    """Return the messages as the API `origin` takes them; what it takes as it is stays
    the same object.
    """
    ids = _Ids(rules.call_ids)
    lead = 0
    while lead < len(messages) and llm.is_stable(messages[lead]):
        lead += 1
    made: list[llm.Message] = list(messages[:lead])
    for message in messages[lead:]:
        match message:
            case llm.AssistantMessage():
                if message.content.strip() or message.tool_calls:
                    made.append(_said(message, rules, origin, ids))
            case llm.ToolMessage():
                call_id = ids.of_answer(message.call_id)
                content = message.content or EMPTY
                made.append(
                    replace(message, call_id=call_id, name=api_name(message.name), content=content)
                )
            case llm.UserMessage():
                made.append(message if message.content.strip() else replace(message, content=EMPTY))
            case llm.SystemMessage():
                if message.content.strip():
                    made.append(message)
    return (
        made if rules.late_system == "system" else _alternating(made, lead, bridged=rules.bridged)
    )


def api_name(name: str) -> str:
    """Return a tool's name as every API takes it."""
    return _NOT_NAME.sub("_", name)[:NAME_CHARS] or "unnamed"


def with_kept(parts: list[dict[str, Any]], kept: Any, name: str) -> list[dict[str, Any]]:
    """Return the parts of an answer with those that were kept of it, each in its place: `at` says
    how many parts stood before it. One with nothing after it is left out: no API takes it.
    """
    made = list(parts)
    for number, one in enumerate(kept or ()):
        place = min(int(one["at"]) + number, len(made))
        made.insert(place, dict(one[name]))
    while made and made[-1] not in parts:
        made.pop()
    return made


def _said(
    message: llm.AssistantMessage, rules: HistoryRules, origin: str, ids: _Ids
) -> llm.AssistantMessage:
    is_own = bool(origin) and message.origin == origin

    def kept(extra: llm.Fact) -> dict[str, Any]:
        return {
            name: value for name, value in extra.items() if is_own and name not in rules.without
        }

    extra = kept(message.extra)
    extra |= {name: value for name, value in rules.message_extra.items() if not extra.get(name)}
    calls = [
        llm.ToolCall(
            id=ids.of_call(call.id),
            name=api_name(call.name),
            arguments=call.arguments,
            extra=kept(call.extra),
        )
        for call in message.tool_calls
    ]
    if calls and not any(name in call.extra for name in rules.call_extra for call in calls):
        calls[0] = replace(calls[0], extra={**calls[0].extra, **rules.call_extra})
    return replace(message, extra=extra, tool_calls=tuple(calls))


def _alternating(messages: Sequence[llm.Message], lead: int, *, bridged: bool) -> list[llm.Message]:
    """Return the messages with turns that alternate from the person's to the person's, none
    of them empty.
    """
    made: list[llm.Message] = list(messages[:lead])
    for message in messages[lead:]:
        if isinstance(message, llm.SystemMessage):
            message = llm.UserMessage(content=message.content)
        before = made[-1] if len(made) > lead else None
        match before, message:
            case None, llm.AssistantMessage():
                made.append(llm.UserMessage(content=EMPTY))
            case llm.UserMessage(), llm.UserMessage():
                made[-1] = llm.UserMessage(content=f"{before.content}\n\n{message.content}")
                continue
            case llm.AssistantMessage(tool_calls=()), llm.AssistantMessage():
                said = "\n\n".join(filter(None, (before.content, message.content)))
                made[-1] = replace(message, content=said)
                continue
            case llm.ToolMessage(), llm.UserMessage() if bridged:
                made.append(llm.AssistantMessage(content=BRIDGE))
            case _:
                pass
        made.append(message)
    if len(made) == lead or isinstance(made[-1], llm.AssistantMessage):
        made.append(llm.UserMessage(content=EMPTY))
    return made


class _Ids:
    """Gives calls the ids that an API takes, the same to a call and its answer."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self._current: dict[str, str] = {}
        self._given: set[str] = set()

    def of_call(self, call_id: str) -> str:
        given = call_id
        again = 0
        while given in self._given or not self._pattern.fullmatch(given):
            # Nine letters and digits are an id to every API that is known. Of the same id it
            # is the same.
            text = f"{again}:{call_id}".encode(errors="surrogatepass")
            given = hashlib.sha256(text).hexdigest()[:9]
            again = again + 1
        self._given.add(given)
        self._current[call_id] = given
        return given

    def of_answer(self, call_id: str) -> str:
        return self._current.get(call_id) or self.of_call(call_id)
