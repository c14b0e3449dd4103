"""Answers to notes of the service, which begin and end telephone calls.

Rules follow no instructions: what a note quotes is said, and what is usual where it quotes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphrag.i18n import LANGUAGES, Language, text
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, is_stable
from graphrag.prompts.quoted_words import quoted
from graphrag.retrieval.context import CONTEXT_MARKER
from graphrag.rules.patterns import grammar


def answer_to_note(messages: Sequence[Message], language: Language) -> str | None:
    """Returns the answer to a note at the end of a conversation, None if there is none.

    A note behind a message of the person or a result of a tool belongs to that.
    """
    end = len(messages)
    while end and _is_note(messages[end - 1]):
        end -= 1
    if end == len(messages):
        return None
    before = messages[end - 1] if end else None
    is_answer = isinstance(before, AssistantMessage)
    if before is not None and not is_stable(before) and not is_answer:
        return None
    if isinstance(before, AssistantMessage) and (before.tool_calls or not before.content.strip()):
        return None
    return _said(messages[-1].content, language, is_first=not is_answer)


def _is_note(message: Message) -> bool:
    is_system = isinstance(message, SystemMessage) and not message.stable
    return is_system and not message.content.startswith(CONTEXT_MARKER)


def _said(note: str, language: Language, *, is_first: bool) -> str:
    for known in LANGUAGES:
        if note == text("voice_farewell", known):
            return text("voice_goodbye", known)
        if note == text("voice_silent", known):
            return grammar(known).texts["still_there"]
    quotation = quoted(note)
    is_greeting = is_first and quotation == note
    return grammar(language).texts["greeting"] if is_greeting else quotation
