"""Reads knowledge graphs (passages, entities, facts) and questions about them. No I/O.

A new format is a module with a reader, and one entry in `FORMATS`. From
outside: `knowledge_graph`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphrag.evaluation.formats.knowledge_graph import Knowledge, UnreadableKnowledge, read_native
from graphrag.evaluation.formats.openie import read_openie
from graphrag.evaluation.formats.triples import read_triples

NATIVE = "knowledge"
"""The format whose files may hold their questions; those of others are in a file of their own."""

FORMATS: Mapping[str, Callable[[bytes, str, bytes, str], Knowledge]] = {
    NATIVE: read_native,
    "openie": read_openie,
    "triples": read_triples,
}
"""Readers: `read(raw, file, questions, questions_file)` raises UnreadableKnowledge."""


def read_knowledge(
    form: str, raw: bytes, file: str, questions: bytes | None = None, questions_file: str = ""
) -> Knowledge:
    """Return the knowledge with at least one question about it. Raises: UnreadableKnowledge."""
    if questions is None and form != NATIVE:
        raise UnreadableKnowledge(
            file=file, where="", reason="its questions are in a file of their own"
        )
    read = FORMATS[form](raw, file, b"[]" if questions is None else questions, questions_file)
    if not read.questions:
        raise UnreadableKnowledge(
            file=questions_file or file, where="", reason="it holds no question"
        )
    return read
