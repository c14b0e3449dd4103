"""The knowledge format of this project: one JSON document with passages, entities, facts, questions."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

from graphrag.evaluation.formats.parsing import Text, decode, parse_json
from graphrag.evaluation.formats.shapes import (
    Entity,
    Fact,
    Knowledge,
    Passage,
    Question,
    UnreadableKnowledge,
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Passage(_Part):
    id: Text
    title: Text
    text: str = ""
    mentions: tuple[Text, ...] = ()


class _Entity(_Part):
    name: Text
    text: str = ""


class _Question(_Part):
    question: Text
    passages: tuple[Text, ...] = ()
    answers: tuple[Text, ...] = ()
    topics: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.passages) == bool(self.answers):
            raise ValueError("a question names either the passages or the answers that it wants")
        return self


class _Document(_Part):
    passages: tuple[_Passage, ...] = ()
    entities: tuple[_Entity, ...] = ()
    facts: tuple[tuple[Text, Text, Text], ...] = ()
    questions: tuple[_Question, ...] = ()


_DOCUMENT = TypeAdapter(_Document)
_QUESTIONS = TypeAdapter(tuple[_Question, ...])


def read_native(raw: bytes, file: str, questions: bytes | None, questions_file: str) -> Knowledge:
    """Read a document; questions may stand in it, in a file of their own, or in both.

    Raises: UnreadableKnowledge.
    """
    document = parse_json(decode(raw, file), _DOCUMENT, file)
    asked = document.questions
    if questions is not None:
        asked += parse_json(decode(questions, questions_file), _QUESTIONS, questions_file)
    _unique([passage.id for passage in document.passages], file, "passages", "id")
    _unique([entity.name for entity in document.entities], file, "entities", "name")
    return Knowledge(
        passages=tuple(Passage(**passage.model_dump()) for passage in document.passages),
        entities=tuple(Entity(**entity.model_dump()) for entity in document.entities),
        facts=tuple(Fact(subject=s, relation=r, object=o) for s, r, o in document.facts),
        questions=tuple(
            Question(text=q.question, passages=q.passages, answers=q.answers, topics=q.topics) for q in asked
        ),
    )


def _unique(names: list[str], file: str, section: str, field: str) -> None:
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            reason = f"the {field} {name!r} is that of {section}.{seen[name]} already"
            raise UnreadableKnowledge(file=file, where=f"{section}.{i}", reason=reason)
        seen[name] = i
