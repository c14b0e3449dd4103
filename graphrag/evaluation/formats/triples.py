"""Triple files: `subject|relation|object` lines (or tabs), and questions whose answers are entities."""

from __future__ import annotations

import re

from graphrag.evaluation.formats.answers import read_questions
from graphrag.evaluation.formats.parsing import decode, numbered_lines
from graphrag.evaluation.formats.shapes import Entity, Fact, Knowledge, UnreadableKnowledge

TOLD_FACTS = 50
"""Facts written into an entity's text; a hub with thousands would say nothing of itself any more."""


def read_triples(raw: bytes, file: str, questions: bytes, questions_file: str) -> Knowledge:
    """Read facts and questions. An entity's text says the facts about it, so that a search can find them.

    Raises: UnreadableKnowledge naming the line.
    """
    facts = tuple(_fact(number, line, file) for number, line in numbered_lines(decode(raw, file)))
    if not facts:
        raise UnreadableKnowledge(file=file, where="", reason="it holds no subject|relation|object")
    entities = _entities(facts)
    names = {entity.name for entity in entities}
    asked = read_questions(decode(questions, questions_file), questions_file, names)
    return Knowledge(entities=entities, facts=facts, questions=asked)


def _fact(number: int, line: str, file: str) -> Fact:
    # Tabs may come in rows, to line columns up; a bar with nothing after it is a mistake.
    raw = re.split(r"\t+", line.strip()) if "\t" in line else line.split("|")
    parts = [part.strip() for part in raw]
    if len(parts) != 3 or not all(parts):
        reason = f"expected subject|relation|object, found {line.strip()[:80]!r}"
        raise UnreadableKnowledge(file=file, where=f"line {number}", reason=reason)
    return Fact(subject=parts[0], relation=parts[1], object=parts[2])


def _entities(facts: tuple[Fact, ...]) -> tuple[Entity, ...]:
    told: dict[str, list[str]] = {}
    for fact in facts:
        of_subject = told.setdefault(fact.subject, [])
        if len(of_subject) < TOLD_FACTS:
            of_subject.append(f"{fact.relation} {fact.object}")
        told.setdefault(fact.object, [])
    return tuple(Entity(name=name, text="\n".join(lines)) for name, lines in told.items())
