"""OpenIE outputs: passages with the entities and triples that a model extracted from them.

The layout is that of HippoRAG's `openie_results_*.json`: `docs` of `passage` (or `title` and
`text`), `extracted_entities` and `extracted_triples`. Models spell names inconsistently, so names
that differ only in case and punctuation are one entity, under its first spelling. Source: Gutiérrez
et al., "HippoRAG" (NeurIPS 2024) and its repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from graphrag.evaluation.formats.knowledge_graph import (
    Fact,
    Knowledge,
    Passage,
    Question,
    Text,
    UnreadableKnowledge,
    decode,
    folded,
    parse_json,
)


class _OpenieForm(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _OpenieDocument(_OpenieForm):
    title: str = ""
    text: str = ""
    passage: str = ""
    extracted_entities: tuple[Any, ...] = ()
    extracted_triples: tuple[Any, ...] = ()


class _OpenieFile(_OpenieForm):
    docs: tuple[_OpenieDocument, ...] = Field(min_length=1)


class _OpenieQuestion(_OpenieForm):
    question: Text
    gold_passages: tuple[int | str, ...] = Field(min_length=1)


_FILE = TypeAdapter(_OpenieFile)
_QUESTIONS = TypeAdapter(tuple[_OpenieQuestion, ...])


def read_openie(raw: bytes, file: str, questions: bytes, questions_file: str) -> Knowledge:
    """Reads the outputs, and questions with the numbers (from 0) or titles of their gold passages.

    Models write some triples without three parts, which are skipped and counted.
    Raises: UnreadableKnowledge.
    """
    documents = parse_json(decode(raw, file), _FILE, file).docs
    spellings: dict[str, str] = {}
    passages: list[Passage] = []
    facts: list[Fact] = []
    broken = 0
    for number, document in enumerate(documents):
        title, text = _texts(document)
        triples = [_triple(value) for value in document.extracted_triples]
        valid = [triple for triple in triples if triple is not None]
        broken += len(triples) - len(valid)
        names = [
            *_names(document.extracted_entities),
            *(end for s, _, o in valid for end in (s, o)),
        ]
        mentions = _spelled((title, *names) if names else (), spellings)
        passages.append(Passage(id=str(number), title=title, text=text, mentions=mentions))
        facts += [
            Fact(subject=spellings[folded(s)], relation=r, object=spellings[folded(o)])
            for s, r, o in valid
            if folded(s) and folded(o)
        ]
    question_rows = parse_json(decode(questions, questions_file), _QUESTIONS, questions_file)
    left_out = (f"{file}: {broken:,} triples that have not three parts",) if broken else ()
    return Knowledge(
        passages=tuple(passages),
        facts=tuple(facts),
        questions=_questions(question_rows, passages, questions_file),
        left_out=left_out,
    )


def _texts(document: _OpenieDocument) -> tuple[str, str]:
    first, _, rest = document.passage.partition("\n")
    return document.title.strip() or first.strip(), (
        document.text or rest or document.passage
    ).strip()


def _triple(value: object) -> tuple[str, str, str] | None:
    if not isinstance(value, list | tuple):
        return None
    parts = [str(part).strip() for part in value if isinstance(part, str | int | float)]  # pyright: ignore[reportUnknownVariableType]
    return (parts[0], parts[1], parts[2]) if len(parts) == len(value) == 3 else None  # pyright: ignore[reportUnknownArgumentType]


def _names(values: Iterable[object]) -> list[str]:
    return [str(value).strip() for value in values if isinstance(value, str | int | float)]


def _spelled(names: Iterable[str], spellings: dict[str, str]) -> tuple[str, ...]:
    """Returns each entity once, in its first spelling, without names that have no letter or
    digit.
    """
    entities: dict[str, None] = {}
    for name in names:
        spelling = folded(name)
        if spelling:
            entities[spellings.setdefault(spelling, name)] = None
    return tuple(entities)


def _questions(
    rows: Sequence[_OpenieQuestion], passages: Sequence[Passage], file: str
) -> tuple[Question, ...]:
    ids_by_title: dict[str, list[str]] = {}
    for passage in passages:
        ids_by_title.setdefault(passage.title, []).append(passage.id)
    questions: list[Question] = []
    for i, row in enumerate(rows):
        gold: list[str] = []
        for reference in row.gold_passages:
            if isinstance(reference, int):
                ids = [str(reference)] if 0 <= reference < len(passages) else []
            else:
                ids = ids_by_title.get(reference.strip(), [])
            if not ids:
                reason = f"there is no passage {reference!r} among the {len(passages):,}"
                raise UnreadableKnowledge(file=file, where=f"{i}.gold_passages", reason=reason)
            gold += ids
        questions.append(Question(text=row.question, passages=tuple(dict.fromkeys(gold))))
    return tuple(questions)
