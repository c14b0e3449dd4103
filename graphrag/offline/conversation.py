"""What a list of messages tells: the question, its language, the context and what was read for it.

Nothing is kept between two calls: all that is known stands in the messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from graphrag.context import CONTEXT_MARKER
from graphrag.messages import Language
from graphrag.offline.outlines import Outline, read_outline
from graphrag.offline.readings import Reading, Row, read_answer
from graphrag.offline.wording import Wording, read_wording, words
from graphrag.providers.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage

CITED = re.compile(r"\{\{node:([^{}]{1,400})\}\}")

_FRENCH = words(
    "le la les un une des du de au aux et ou est sont quel quelle quels quelles que qui quoi combien "
    "comment pourquoi apres avant entre vers avec dans sur sous sans noeud noeuds arete aretes lien "
    "liens feuille feuilles graphe ce cette ces mon ma mes fait decris explique montre liste ajoute "
    "cree supprime efface retire relie connecte renomme deplace mets remplace range reorganise "
    "bonjour merci aide moi il elle se cherche trouve chemin y en"
)
_ENGLISH = words(
    "the a an of to and or is are what which who where how many why when does do after before "
    "between with in on at from into node nodes edge edges link sheet sheets graph this that these "
    "my it describe explain show list add create delete remove connect rename move set change tidy "
    "hello thanks help me there find path"
)
_WORD = re.compile(r"[a-z]+")
_FRENCH_PROMPT = re.compile(r"^Tu es l'assistant|# Règles$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A call of this turn and what came back; None where nothing did."""

    name: str
    arguments: Mapping[str, Any]
    reading: Reading | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTables:
    """The rows of the retrieved context: nodes most relevant first, edges among them, types; and the
    outline of the whole graph, where the question is about that."""

    nodes: tuple[Row, ...] = ()
    edges: tuple[Row, ...] = ()
    types: tuple[Row, ...] = ()
    outline: Outline | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages, read. `rounds` counts the answers of this turn that called tools.

    `last_question` and `last_answer` came before; `last_cited` are the keys that answer cited, in order.
    """

    question: Wording
    language: Language
    context: ContextTables
    answered: tuple[Answered, ...]
    rounds: int
    earlier_texts: tuple[str, ...]
    last_question: str
    last_answer: str
    last_cited: tuple[str, ...]


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Return what the messages tell."""
    last = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=-1)
    wording = read_wording(messages[last].content if last >= 0 else "")
    turn = messages[last + 1 :]
    said = [m.content for m in messages if isinstance(m, AssistantMessage) and m.content.strip()]
    before = [
        m.content for m in messages[: max(last, 0)] if isinstance(m, AssistantMessage) and m.content.strip()
    ]
    return Conversation(
        question=wording,
        language=_language(messages),
        context=_context(messages),
        answered=_answered(turn),
        rounds=sum(isinstance(m, AssistantMessage) and bool(m.tool_calls) for m in turn),
        earlier_texts=tuple(said),
        last_question=_last_question(messages[: max(last, 0)]),
        last_answer=before[-1] if before else "",
        last_cited=tuple(dict.fromkeys(CITED.findall(before[-1]))) if before else (),
    )


def _last_question(messages: Sequence[Message]) -> str:
    return next((m.content for m in reversed(messages) if isinstance(m, UserMessage)), "")


def canonical(arguments: Mapping[str, Any]) -> str:
    """Return arguments in one form, to tell whether two calls are the same."""
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False, default=str)


def _language(messages: Sequence[Message]) -> Language:
    """Return the language of the last message of the person that shows one, else the system prompt's."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            french = _frenchness(read_wording(message.content))
            if french:
                return "fr" if french > 0 else "en"
    system = next((m.content for m in messages if isinstance(m, SystemMessage)), "")
    return "fr" if _FRENCH_PROMPT.search(system) else "en"


def _frenchness(wording: Wording) -> int:
    """Return how many words and letters of a text are French rather than English."""
    said = _WORD.findall(wording.folded)
    french = sum(word in _FRENCH for word in said)
    accents = sum(char in "éèêàùçœî" for char in wording.original.lower())
    return french + min(accents, 1) - sum(word in _ENGLISH for word in said)


def _answered(turn: Sequence[Message]) -> tuple[Answered, ...]:
    answers = {m.call_id: m for m in turn if isinstance(m, ToolMessage)}
    found: list[Answered] = []
    for message in turn:
        if not isinstance(message, AssistantMessage):
            continue
        for call in message.tool_calls:
            answer = answers.get(call.id)
            reading = read_answer(answer.content, is_error=answer.is_error) if answer else None
            found.append(Answered(name=call.name, arguments=_arguments(call.arguments), reading=reading))
    return tuple(found)


def _arguments(raw: str) -> Mapping[str, Any]:
    try:
        value: Any = json.loads(raw or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def _context(messages: Sequence[Message]) -> ContextTables:
    """Read the last context block. Only a system message holds one: what a person types is not believed."""
    block = next(
        (
            m.content
            for m in reversed(messages)
            if isinstance(m, SystemMessage) and m.content.startswith(CONTEXT_MARKER)
        ),
        "",
    )
    nodes: tuple[Row, ...] = ()
    edges: tuple[Row, ...] = ()
    types: tuple[Row, ...] = ()
    for part in block.split("\n\n"):
        rows = read_answer(part).rows("")
        if not rows:
            continue
        if "_key" in rows[0]:
            nodes = nodes or rows
        elif "from" in rows[0]:
            edges = edges or rows
        elif "type" in rows[0]:
            types = types or rows
    return ContextTables(nodes=nodes, edges=edges, types=types, outline=read_outline(block))
