"""OpenIE outputs: passages with the entities and triples that a model read in them.

The layout is that of HippoRAG's `openie_results_*.json`: `docs` of `passage` (or `title` and
`text`), `extracted_entities` and `extracted_triples`. A model writes one name in several ways, so
spellings that differ in case and punctuation alone are one entity, called as it was first.
Source: Gutiérrez et al., "HippoRAG" (NeurIPS 2024) and its repository.
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
    """Read the outputs, and questions with the numbers (from 0) or titles of their gold passages.

    Triples that have not three parts are left out and counted: models write such.
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
        whole = [triple for triple in triples if triple is not None]
        broken += len(triples) - len(whole)
        named = [
            *_names(document.extracted_entities),
            *(end for s, _, o in whole for end in (s, o)),
        ]
        mentions = _spelled((title, *named) if named else (), spellings)
        passages.append(Passage(id=str(number), title=title, text=text, mentions=mentions))
        facts += [
            Fact(subject=spellings[folded(s)], relation=r, object=spellings[folded(o)])
            for s, r, o in whole
            if folded(s) and folded(o)
        ]
    asked = parse_json(decode(questions, questions_file), _QUESTIONS, questions_file)
    left_out = (f"{file}: {broken:,} triples that have not three parts",) if broken else ()
    return Knowledge(
        passages=tuple(passages),
        facts=tuple(facts),
        questions=_questions(asked, passages, questions_file),
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
    """Return each entity once, as it was first spelled; names without a letter or
    digit are none.
    """
    found: dict[str, None] = {}
    for name in names:
        spelling = folded(name)
        if spelling:
            found[spellings.setdefault(spelling, name)] = None
    return tuple(found)


def _questions(
    asked: Sequence[_OpenieQuestion], passages: Sequence[Passage], file: str
) -> tuple[Question, ...]:
    titled: dict[str, list[str]] = {}
    for passage in passages:
        titled.setdefault(passage.title, []).append(passage.id)
    made: list[Question] = []
    for i, row in enumerate(asked):
        gold: list[str] = []
        for wanted in row.gold_passages:
            if isinstance(wanted, int):
                ids = [str(wanted)] if 0 <= wanted < len(passages) else []
            else:
                ids = titled.get(wanted.strip(), [])
            if not ids:
                reason = f"there is no passage {wanted!r} among the {len(passages):,}"
                raise UnreadableKnowledge(file=file, where=f"{i}.gold_passages", reason=reason)
            gold += ids
        made.append(Question(text=row.question, passages=tuple(dict.fromkeys(gold))))
    return tuple(made)
