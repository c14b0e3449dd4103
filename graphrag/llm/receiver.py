"""Adapts a conversation to the API that receives it: ids and names of calls, roles, extra fields.

A conversation may continue with another provider than it began with, and contains text of models.
An API refuses a request if any part of its history is invalid, so all of it is adapted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphrag.llm import base as llm

EMPTY = "(empty)"  # Replaces an empty text where an API allows none.
# The model's message between a tool result and a user message, for APIs that require one.
BRIDGE = "(noted)"

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")
# Longest tool name that every API accepts. Source: the references of OpenAI, Anthropic and Gemini.
NAME_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRules:
    """The requirements of an API on the history, beyond its format.

    `call_ids`: a pattern of the ids of calls. `late_system`: the role of a system message after the
    first turn; with `user`, roles alternate, as some chat templates require. `bridged`: a message
    of the model is required between a tool result and a user message. `message_extra`: fields that
    each message of the model must have, and `call_extra` its first call, with the values for
    messages of other providers. `without`: fields that are not sent back.
    """

    call_ids: str = r"[a-zA-Z0-9_-]{1,40}"
    late_system: llm.LateSystem = "system"
    bridged: bool = False
    message_extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    call_extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    without: frozenset[str] = frozenset()


# Ids in Mistral's format. Source: mistral-common, `protocol/instruct/validator.py`.
NINE_CHARS = r"[a-zA-Z0-9]{9}"
# For calls of another model. Source: https://ai.google.dev/gemini-api/docs/thought-signatures
SIGNATURE: Mapping[str, Any] = {
    "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}
}
# For answers of another model. The text is not empty, as some servers treat empty as missing.
NO_REASONING: Mapping[str, Any] = {"reasoning_content": "."}
# Field of a message's `extra` for Anthropic's blocks of thinking, each with its position.
BLOCKS = "blocks"
ITEMS = "items"  # Field of a message's `extra` for the reasoning items of OpenAI's Responses.
NO_THINKING: Mapping[str, Any] = {
    BLOCKS: [{"at": 0, "block": {"type": "thinking", "thinking": ".", "signature": ""}}]
}

_FIELD = (
    r"\b(?P<field>reasoning_content|reasoning_details|reasoning|extra_content|thinking_blocks)\b"
)


def _without(rules: HistoryRules, *fields: str) -> HistoryRules:
    return replace(rules, without=rules.without | set(fields))


# Patterns of an API's refusals, and the change of the rules that each requires.
# For a server behind a general address, refusals are the only way to learn its requirements.
_RULE_CHANGES: Sequence[tuple[str, Callable[[HistoryRules, re.Match[str]], HistoryRules]]] = (
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
        lambda rules, match: _without(rules, match["field"]),
    ),
    (
        rf"(?:extra|unknown|unexpected|unrecognized|unsupported).{{0,60}}{_FIELD}",
        lambda rules, match: _without(rules, match["field"]),
    ),
    (
        r"invalid.{0,3}signature.{0,40}thinking|encrypted.?content.{0,80}(?:verif|decrypt)",
        lambda rules, _: _without(rules, BLOCKS, ITEMS),
    ),
)


def rules_after_refusal(rules: HistoryRules, refusal: str) -> HistoryRules | None:
    """Returns the rules changed according to a refusal; None if it requires no change."""
    for pattern, change in _RULE_CHANGES:
        match = re.search(pattern, refusal, re.IGNORECASE | re.DOTALL)
        if match is not None and (changed := change(rules, match)) != rules:
            return changed
    return None


def fitted_to(
    messages: Sequence[llm.Message], rules: HistoryRules, origin: str
) -> list[llm.Message]:
    """Returns the messages as the API `origin` accepts them. Unchanged messages remain the same
    objects.
    """
    ids = _Ids(rules.call_ids)
    lead = 0
    while lead < len(messages) and llm.is_stable(messages[lead]):
        lead += 1
    fitted: list[llm.Message] = list(messages[:lead])
    for message in messages[lead:]:
        match message:
            case llm.AssistantMessage():
                if message.content.strip() or message.tool_calls:
                    fitted.append(_fitted_answer(message, rules, origin, ids))
            case llm.ToolMessage():
                call_id = ids.id_of_result(message.call_id)
                content = message.content or EMPTY
                fitted.append(
                    replace(message, call_id=call_id, name=api_name(message.name), content=content)
                )
            case llm.UserMessage():
                fitted.append(
                    message if message.content.strip() else replace(message, content=EMPTY)
                )
            case llm.SystemMessage():
                if message.content.strip():
                    fitted.append(message)
    return (
        fitted
        if rules.late_system == "system"
        else _alternating(fitted, lead, bridged=rules.bridged)
    )


def api_name(name: str) -> str:
    """Returns a tool's name with the characters that every API accepts."""
    return _NOT_NAME.sub("_", name)[:NAME_CHARS] or "unnamed"


def with_kept(parts: list[dict[str, Any]], kept: Any, name: str) -> list[dict[str, Any]]:
    """Returns the parts of an answer with the kept ones inserted at their positions.

    `at`: the number of parts before a kept one. Kept parts at the end are left out, as no API
    accepts them.
    """
    merged = list(parts)
    for number, kept_part in enumerate(kept or ()):
        position = min(int(kept_part["at"]) + number, len(merged))
        merged.insert(position, dict(kept_part[name]))
    while merged and merged[-1] not in parts:
        merged.pop()
    return merged


def _fitted_answer(
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
            id=ids.id_of_call(call.id),
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
    """Returns the messages with alternating roles, from user to user, none of them empty."""
    turns: list[llm.Message] = list(messages[:lead])
    for message in messages[lead:]:
        if isinstance(message, llm.SystemMessage):
            message = llm.UserMessage(content=message.content)
        before = turns[-1] if len(turns) > lead else None
        match before, message:
            case None, llm.AssistantMessage():
                turns.append(llm.UserMessage(content=EMPTY))
            case llm.UserMessage(), llm.UserMessage():
                turns[-1] = llm.UserMessage(content=f"{before.content}\n\n{message.content}")
                continue
            case llm.AssistantMessage(tool_calls=()), llm.AssistantMessage():
                content = "\n\n".join(filter(None, (before.content, message.content)))
                turns[-1] = replace(message, content=content)
                continue
            case llm.ToolMessage(), llm.UserMessage() if bridged:
                turns.append(llm.AssistantMessage(content=BRIDGE))
            case _:
                pass
        turns.append(message)
    if len(turns) == lead or isinstance(turns[-1], llm.AssistantMessage):
        turns.append(llm.UserMessage(content=EMPTY))
    return turns


class _Ids:
    """Assigns ids to calls in the API's format; a call and its result get the same id."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self._current: dict[str, str] = {}
        self._assigned: set[str] = set()

    def id_of_call(self, call_id: str) -> str:
        assigned = call_id
        again = 0
        while assigned in self._assigned or not self._pattern.fullmatch(assigned):
            # Every known API accepts nine letters and digits. The hash is the same in each request.
            text = f"{again}:{call_id}".encode(errors="surrogatepass")
            assigned = hashlib.sha256(text).hexdigest()[:9]
            again = again + 1
        self._assigned.add(assigned)
        self._current[call_id] = assigned
        return assigned

    def id_of_result(self, call_id: str) -> str:
        return self._current.get(call_id) or self.id_of_call(call_id)
