"""Reads knowledge graphs (passages, entities, facts) and questions about them into graphs. No I/O.

A new format is a module with a reader, and one entry in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from graphrag.evaluation.formats.knowledge_graph import (
    ENTITY,
    PASSAGE,
    Entity,
    Fact,
    Knowledge,
    Passage,
    Question,
    UnreadableKnowledge,
    build_mutation,
    entity_key,
    passage_key,
    read_native,
)
from graphrag.evaluation.formats.openie import read_openie
from graphrag.evaluation.formats.triples import read_triples

__all__ = [
    "ENTITY",
    "FORMATS",
    "PASSAGE",
    "Entity",
    "Fact",
    "Knowledge",
    "KnowledgeFormat",
    "Passage",
    "Question",
    "UnreadableKnowledge",
    "build_mutation",
    "entity_key",
    "passage_key",
    "read_knowledge",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeFormat:
    """A format. `read(raw, file, questions, questions_file)` raises UnreadableKnowledge.

    `has_questions` tells whether a file may hold its questions itself; else they need a file of their own.
    """

    read: Callable[[bytes, str, bytes, str], Knowledge]
    has_questions: bool = False


FORMATS: Mapping[str, KnowledgeFormat] = {
    "knowledge": KnowledgeFormat(read=read_native, has_questions=True),
    "openie": KnowledgeFormat(read=read_openie),
    "triples": KnowledgeFormat(read=read_triples),
}


def read_knowledge(
    form: str, raw: bytes, file: str, questions: bytes | None = None, questions_file: str = ""
) -> Knowledge:
    """Return the knowledge with at least one question about it. Raises: UnreadableKnowledge."""
    if questions is None and not FORMATS[form].has_questions:
        raise UnreadableKnowledge(file=file, where="", reason="its questions are in a file of their own")
    read = FORMATS[form].read(raw, file, b"[]" if questions is None else questions, questions_file)
    if not read.questions:
        raise UnreadableKnowledge(file=questions_file or file, where="", reason="it holds no question")
    return read
