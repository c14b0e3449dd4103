"""The knowledge format of this project: one JSON document with passages, entities, facts, questions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pydantic import TypeAdapter

from graphrag.evaluation.formats.knowledge_graph import Knowledge, Question
from graphrag.evaluation.formats.parsing import UnreadableKnowledge, decode, parse_json

_DOCUMENT = TypeAdapter(Knowledge)
_QUESTIONS = TypeAdapter(tuple[Question, ...])


def read_native(raw: bytes, file: str, questions: bytes, questions_file: str) -> Knowledge:
    """Read a document; questions may stand in it, in a file of their own, or in both.

    Raises: UnreadableKnowledge.
    """
    knowledge = parse_json(decode(raw, file), _DOCUMENT, file)
    more = parse_json(decode(questions, questions_file), _QUESTIONS, questions_file)
    _check_questions(knowledge.questions, file, "questions.")
    _check_questions(more, questions_file, "")
    _check_unique([passage.id for passage in knowledge.passages], file, "passages", "id")
    _check_unique([entity.name for entity in knowledge.entities], file, "entities", "name")
    return replace(knowledge, questions=(*knowledge.questions, *more))


def _check_questions(questions: Iterable[Question], file: str, prefix: str) -> None:
    for i, question in enumerate(questions):
        if bool(question.passages) == bool(question.answers):
            reason = "a question names either the passages or the answers that it wants"
            raise UnreadableKnowledge(file=file, where=f"{prefix}{i}", reason=reason)


def _check_unique(names: Iterable[str], file: str, section: str, field: str) -> None:
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            reason = f"the {field} {name!r} is that of {section}.{seen[name]} already"
            raise UnreadableKnowledge(file=file, where=f"{section}.{i}", reason=reason)
        seen[name] = i
