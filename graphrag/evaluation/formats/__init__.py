"""Reads knowledge graphs (passages, entities, facts) and questions about them into graphs. No I/O."""

from __future__ import annotations

from graphrag.evaluation.formats.knowledge_dispatch import FORMATS, KnowledgeFormat, read_knowledge
from graphrag.evaluation.formats.knowledge_graph import (
    ENTITY,
    PASSAGE,
    build_mutation,
    entity_key,
    passage_key,
)
from graphrag.evaluation.formats.shapes import (
    Entity,
    Fact,
    Knowledge,
    Passage,
    Question,
    UnreadableKnowledge,
)

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
