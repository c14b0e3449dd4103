"""Reads a list of messages: the question, its language, and what was answered for it.

Nothing is kept between two calls of the provider: all that is known stands in the messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datasources.text import fold
from graphrag.i18n import LANGUAGES, Language
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from graphrag.rules.normalized_text import READ_CHARS
from graphrag.rules.patterns import grammar
from tools.answer_tables import ToolTables, parse_answer

_WORD = re.compile(r"[a-z]+")
_GRAPH_NAME = re.compile(r"^name: (.+)$", re.MULTILINE)

Signature = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCall:
    """A tool and the arguments to call it with."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def signature(self) -> Signature:
        """Its name and its arguments as they are written, by which its answer is found."""
        return self.name, json.dumps(
            self.arguments, sort_keys=True, ensure_ascii=False, default=str
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages, read. `rounds` counts the answers of this turn that called tools.

    `answered` are the calls of this turn, None where no answer came. `texts` are all that was
    answered. `graph_name` is as the instructions write it. `pointed_at` are the keys of the nodes
    that blocks of the question point at.
    """

    question: str
    pointed_at: tuple[str, ...]
    graph_name: str
    language: Language
    answered: Mapping[Signature, ToolTables | None]
    rounds: int
    texts: tuple[str, ...]


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Return what the messages say."""
    last = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=-1)
    turn = messages[last + 1 :]
    question, pointed_at = _asked(messages[last]) if last >= 0 else ("", ())
    system = [m.content for m in messages if isinstance(m, SystemMessage)][:1]
    named = _GRAPH_NAME.search("\n".join(system))
    return Conversation(
        question=question,
        pointed_at=pointed_at,
        graph_name=named[1] if named else "",
        language=_language(question, system),
        answered=_answered(turn),
        rounds=sum(isinstance(m, AssistantMessage) and bool(m.tool_calls) for m in turn),
        texts=tuple(
            m.content for m in messages if isinstance(m, AssistantMessage) and m.content.strip()
        ),
    )


def _asked(message: Message) -> tuple[str, tuple[str, ...]]:
    """Return the words of a question and the nodes that it points at; with other blocks,
    its linear text.
    """
    parts = message.segments if isinstance(message, UserMessage) else ()
    blocks = [part["block"] for part in parts if "block" in part]
    keys = [
        b["target"]["key"]
        for b in blocks
        if b["type"] == "POINTER" and b["target"]["kind"] == "node"
    ]
    if not keys or len(keys) < len(blocks):
        return message.content, ()
    return " ".join("".join(str(part.get("text", "")) for part in parts).split()), tuple(keys)


def _language(question: str, system: Sequence[str]) -> Language:
    """Returns the language that most common words of the question are of.

    Where several have as many, it is the one of these in which the instructions are.
    """
    words = set(_WORD.findall(fold(question[:READ_CHARS])))
    counts = {name: len(words.intersection(grammar(name).listed("common"))) for name in LANGUAGES}
    likely: list[Language] = [name for name in LANGUAGES if counts[name] == max(counts.values())]
    if len(likely) > 1:
        likely.sort(key=lambda name: not _is_prompt_in(name, system))
    return likely[0]


def _is_prompt_in(language: Language, system: Sequence[str]) -> bool:
    instructions = re.compile(grammar(language).words["instructions"], re.MULTILINE)
    return any(instructions.search(text) for text in system)


def _answered(turn: Sequence[Message]) -> Mapping[Signature, ToolTables | None]:
    """Return the calls of a turn with their answers, without those that broke off and
    are made again.
    """
    messages = [m for m in turn if isinstance(m, ToolMessage)]
    answers = {
        m.call_id: parse_answer(m.content, is_error=m.is_error, outcome=m.outcome) for m in messages
    }
    broken_off = {
        key for key, answer in answers.items() if answer.text.startswith("ERROR interrupted")
    }
    calls = [call for m in turn if isinstance(m, AssistantMessage) for call in m.tool_calls]
    return {(c.name, c.arguments): answers.get(c.id) for c in calls if c.id not in broken_off}
