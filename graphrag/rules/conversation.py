"""Reads a list of messages: the question, its language, and the tool results for it.

The provider has no state between calls: everything it needs is in the messages.
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
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def signature(self) -> Signature:
        """The name and the serialized arguments, which identify the result of the call."""
        return self.name, json.dumps(
            self.arguments, sort_keys=True, ensure_ascii=False, default=str
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The parts of the messages that the rules use.

    `rounds`: the number of answers in this turn that called tools. `answered`: the calls of this
    turn with their results, None without one. `texts`: all answers. `graph_name`: as in the
    instructions. `pointed_at`: keys of the nodes that blocks of the question refer to.
    """

    question: str
    pointed_at: tuple[str, ...]
    graph_name: str
    language: Language
    answered: Mapping[Signature, ToolTables | None]
    rounds: int
    texts: tuple[str, ...]


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Returns the parts of the messages that the rules use."""
    last = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=-1)
    turn = messages[last + 1 :]
    question, pointed_at = _question_of(messages[last]) if last >= 0 else ("", ())
    system = [m.content for m in messages if isinstance(m, SystemMessage)][:1]
    named = _GRAPH_NAME.search("\n".join(system))
    return Conversation(
        question=question,
        pointed_at=pointed_at,
        graph_name=named[1] if named else "",
        language=_language(question, system),
        answered=_results(turn),
        rounds=sum(isinstance(m, AssistantMessage) and bool(m.tool_calls) for m in turn),
        texts=tuple(
            m.content for m in messages if isinstance(m, AssistantMessage) and m.content.strip()
        ),
    )


def _question_of(message: Message) -> tuple[str, tuple[str, ...]]:
    """Returns the words of a question and the nodes that its blocks refer to.

    With other kinds of blocks it returns the message's linear text instead, without nodes.
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
    """Returns the language with the most common words in the question.

    If several languages have the same number, that of the instructions is preferred.
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


def _results(turn: Sequence[Message]) -> Mapping[Signature, ToolTables | None]:
    """Returns the calls of a turn with their results, without interrupted calls that
    are repeated.
    """
    messages = [m for m in turn if isinstance(m, ToolMessage)]
    answers = {
        m.call_id: parse_answer(m.content, is_error=m.is_error, outcome=m.outcome) for m in messages
    }
    interrupted = {
        key for key, answer in answers.items() if answer.text.startswith("ERROR interrupted")
    }
    calls = [call for m in turn if isinstance(m, AssistantMessage) for call in m.tool_calls]
    return {(c.name, c.arguments): answers.get(c.id) for c in calls if c.id not in interrupted}
