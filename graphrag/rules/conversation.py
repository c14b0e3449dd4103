"""Reads a list of messages: the question, its language, the context, and what was answered for it.

Nothing is kept between two calls of the provider: all that is known stands in the messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from graphrag.i18n import Language
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from graphrag.retrieval.context import CONTEXT_MARKER
from graphrag.rules.normalized_text import read_wording
from graphrag.rules.patterns import grammar
from graphrag.rules.tool_tables import Row, ToolTables, parse_answer

CITED = re.compile(r"\{\{node:([^{}]{1,400})\}\}")
_WORD = re.compile(r"[a-z]+")
_FRENCH_PROMPT = re.compile(r"^Tu es l'assistant|# Règles$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool and the arguments to call it with."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def signature(self) -> tuple[str, str]:
        """The call in one form, to compare it with another."""
        return self.name, json.dumps(self.arguments, sort_keys=True, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages, read. `rounds` counts the answers of this turn that called tools.

    `answered` are the calls of this turn, None where no answer came. `last_question` and `last_answer`
    came before; `last_cited` are the keys of nodes in that answer, in order.
    """

    question: str
    language: Language
    nodes: tuple[Row, ...]
    edges: tuple[Row, ...]
    answered: tuple[tuple[Call, ToolTables | None], ...]
    rounds: int
    earlier_texts: tuple[str, ...]
    last_question: str
    last_answer: str
    last_cited: tuple[str, ...]


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Return what the messages say."""
    last = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=-1)
    turn, before = messages[last + 1 :], messages[: max(last, 0)]
    texts = [m.content for m in messages if isinstance(m, AssistantMessage) and m.content.strip()]
    answers = [m.content for m in before if isinstance(m, AssistantMessage) and m.content.strip()]
    nodes, edges = _context(messages)
    return Conversation(
        question=messages[last].content if last >= 0 else "",
        language=_language(messages),
        nodes=nodes,
        edges=edges,
        answered=_answered(turn),
        rounds=sum(isinstance(m, AssistantMessage) and bool(m.tool_calls) for m in turn),
        earlier_texts=tuple(texts),
        last_question=next((m.content for m in reversed(before) if isinstance(m, UserMessage)), ""),
        last_answer=answers[-1] if answers else "",
        last_cited=tuple(dict.fromkeys(CITED.findall(answers[-1]))) if answers else (),
    )


def _language(messages: Sequence[Message]) -> Language:
    """Return the language of the person's last message that shows one, else the system prompt's."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            french = _frenchness(message.content)
            if french:
                return "fr" if french > 0 else "en"
    system = next((m.content for m in messages if isinstance(m, SystemMessage)), "")
    return "fr" if _FRENCH_PROMPT.search(system) else "en"


def _frenchness(text: str) -> int:
    """Return how many words of a text are French rather than English; accents count as one."""
    wording = read_wording(text)
    words = _WORD.findall(wording.folded)
    french, english = (grammar(language).listed("common_list") for language in ("fr", "en"))
    accents = any(char in "éèêàùçœî" for char in wording.original.lower())
    return sum(word in french for word in words) + accents - sum(word in english for word in words)


def _answered(turn: Sequence[Message]) -> tuple[tuple[Call, ToolTables | None], ...]:
    answers = {m.call_id: m for m in turn if isinstance(m, ToolMessage)}
    found: list[tuple[Call, ToolTables | None]] = []
    for message in turn:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            answer = answers.get(call.id)
            parsed = parse_answer(answer.content, is_error=answer.is_error) if answer else None
            found.append((Call(name=call.name, arguments=_arguments(call.arguments)), parsed))
    return tuple(found)


def _arguments(raw: str) -> Mapping[str, Any]:
    try:
        value: Any = json.loads(raw or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def _context(messages: Sequence[Message]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return nodes and edges of the last context: of a system message, never of a person's text."""
    contexts = [
        m.content for m in messages if isinstance(m, SystemMessage) and m.content.startswith(CONTEXT_MARKER)
    ]
    nodes: tuple[Row, ...] = ()
    edges: tuple[Row, ...] = ()
    for part in contexts[-1].split("\n\n") if contexts else ():
        rows = parse_answer(part).rows("")
        if rows and "_key" in rows[0]:
            nodes = nodes or rows
        elif rows and "from" in rows[0]:
            edges = edges or rows
    return nodes, edges
