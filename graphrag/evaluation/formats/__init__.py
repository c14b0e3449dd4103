"""Reads knowledge graphs (passages, entities, facts) and questions about them. No I/O.

A new format is a module with a reader, and one entry in `FORMATS`. Other packages also import
`knowledge_graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphrag.evaluation.formats.knowledge_graph import Knowledge, UnreadableKnowledge, read_native
from graphrag.evaluation.formats.openie import read_openie
from graphrag.evaluation.formats.triples import read_triples

# The format whose files may contain the questions; other formats have a separate file of questions.
NATIVE = "knowledge"

# Readers: `read(raw, file, questions, questions_file)` raises UnreadableKnowledge.
FORMATS: Mapping[str, Callable[[bytes, str, bytes, str], Knowledge]] = {
    NATIVE: read_native,
    "openie": read_openie,
    "triples": read_triples,
}


def read_knowledge(
    form: str, raw: bytes, file: str, questions: bytes | None = None, questions_file: str = ""
) -> Knowledge:
    """Returns knowledge with at least one question. Raises: UnreadableKnowledge."""
    if questions is None and form != NATIVE:
        raise UnreadableKnowledge(
            file=file, where="", reason="this format needs a separate file of questions"
        )
    knowledge = FORMATS[form](raw, file, b"[]" if questions is None else questions, questions_file)
    if not knowledge.questions:
        raise UnreadableKnowledge(
            file=questions_file or file, where="", reason="it contains no question"
        )
    return knowledge
