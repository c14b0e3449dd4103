"""Hands a knowledge file and its questions to the reader of their format."""

from __future__ import annotations

from typing import Literal, get_args

from graphrag.evaluation.formats.native import read_native
from graphrag.evaluation.formats.openie import read_openie
from graphrag.evaluation.formats.shapes import Knowledge, UnreadableKnowledge
from graphrag.evaluation.formats.triples import read_triples

KnowledgeFormat = Literal["knowledge", "openie", "triples"]
FORMATS: tuple[KnowledgeFormat, ...] = get_args(KnowledgeFormat)


def read_knowledge(
    form: KnowledgeFormat,
    raw: bytes,
    file: str,
    questions: bytes | None = None,
    questions_file: str = "",
) -> Knowledge:
    """Return the knowledge with at least one question about it. Raises: UnreadableKnowledge."""
    if form == "knowledge":
        read = read_native(raw, file, questions, questions_file)
    elif questions is None:
        raise UnreadableKnowledge(file=file, where="", reason="its questions are in a file of their own")
    elif form == "openie":
        read = read_openie(raw, file, questions, questions_file)
    else:
        read = read_triples(raw, file, questions, questions_file)
    if not read.questions:
        raise UnreadableKnowledge(file=questions_file or file, where="", reason="it holds no question")
    return read
