"""Triple files: lines of `subject|relation|object` (or with tabs), and questions whose answers are
entities.

Three forms of questions are recognised, line by line: `question with [topic]<tab>answer|answer`
(MetaQA); `question<tab>answer(answer/answer)<tab>topic#relation#entity…` (PathQuestion); and JSON,
as a list or one object a line, with `question`, `answers` and optional `topics` (`entities`), each
a name or an object with `kb_id` and `text` (WebQSP). Source: Zhang et al., "Variational Reasoning
for Question Answering with Knowledge Graph" (AAAI 2018); Zhou et al., "An Interpretable Reasoning
Network" (COLING 2018); Yih et al., "The Value of Semantic Parse Labeling" (ACL 2016).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter

from graphrag.evaluation.formats.knowledge_graph import (
    Entity,
    Fact,
    Knowledge,
    Question,
    Text,
    UnreadableKnowledge,
    decode,
    numbered_lines,
    parse_json,
)

# Maximum number of facts in an entity's text. The text of a hub with thousands would no longer
# describe it.
MAX_ENTITY_FACTS = 50

_TOPIC = re.compile(r"\[([^\[\]]+)\]")
_JSON_LIST = re.compile(r"\s*\[\s*\{")


class _NamedEntity(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    kb_id: str = ""
    text: str | None = ""


class _EntityQuestion(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    question: Text
    answers: tuple[Text | _NamedEntity, ...] = Field(min_length=1)
    topics: tuple[Text | _NamedEntity, ...] = Field(
        default=(), validation_alias=AliasChoices("topics", "entities")
    )


_QUESTION = TypeAdapter(_EntityQuestion)
_QUESTIONS = TypeAdapter(tuple[_EntityQuestion, ...])


def read_triples(raw: bytes, file: str, questions: bytes, questions_file: str) -> Knowledge:
    """Reads facts and questions. The text of an entity lists its facts, so that searches find them.

    Raises: UnreadableKnowledge with the line.
    """
    facts = tuple(_fact(number, line, file) for number, line in numbered_lines(decode(raw, file)))
    if not facts:
        raise UnreadableKnowledge(
            file=file, where="", reason="it contains no subject|relation|object"
        )
    entities = _entities(facts)
    names = {entity.name for entity in entities}
    text = decode(questions, questions_file)
    file = questions_file
    if _JSON_LIST.match(text):
        question_list = [
            _of_json(question, names) for question in parse_json(text, _QUESTIONS, file)
        ]
    else:
        question_list = [
            _of_line(number, line, file, names) for number, line in numbered_lines(text)
        ]
    return Knowledge(entities=entities, facts=facts, questions=tuple(question_list))


def _fact(number: int, line: str, file: str) -> Fact:
    # Several tabs may align columns; an empty part after a bar is an error.
    raw = re.split(r"\t+", line.strip()) if "\t" in line else line.split("|")
    parts = [part.strip() for part in raw]
    if len(parts) != 3 or not all(parts):
        reason = f"expected subject|relation|object, found {line.strip()[:80]!r}"
        raise UnreadableKnowledge(file=file, where=f"line {number}", reason=reason)
    return Fact(subject=parts[0], relation=parts[1], object=parts[2])


def _entities(facts: Iterable[Fact]) -> tuple[Entity, ...]:
    lines: dict[str, list[str]] = {}
    for fact in facts:
        subject_lines = lines.setdefault(fact.subject, [])
        if len(subject_lines) < MAX_ENTITY_FACTS:
            subject_lines.append(f"{fact.relation} {fact.object}")
        lines.setdefault(fact.object, [])
    return tuple(Entity(name=name, text="\n".join(texts)) for name, texts in lines.items())


def _of_line(number: int, line: str, file: str, names: Set[str]) -> Question:
    where = f"line {number}"
    if line.lstrip().startswith("{"):
        return _of_json(parse_json(line, _QUESTION, file, where), names)
    parts = [part.strip() for part in line.split("\t")]
    if len(parts) not in (2, 3) or not all(parts):
        reason = "expected a question, a tab and its answers (answer|answer), or a JSON object"
        raise UnreadableKnowledge(file=file, where=where, reason=reason)
    question = parts[0]
    answers = parts[1]
    topics = tuple(_TOPIC.findall(question))
    if len(parts) == 3:  # the path to the answer starts at the topic
        topics = (parts[2].partition("#")[0],)
        answer_names = _in_brackets(answers)
    else:
        question = _TOPIC.sub(r"\1", question)
        answer_names = tuple(name.strip() for name in answers.split("|") if name.strip())
    if not answer_names:
        raise UnreadableKnowledge(file=file, where=where, reason="it names no answer")
    return Question(text=question, answers=answer_names, topics=topics)


def _in_brackets(answers: str) -> tuple[str, ...]:
    """Returns the names in `name(name/name/)`. A name may contain brackets itself."""
    for cut in (i for i, c in enumerate(answers) if c == "("):
        name = answers[:cut]
        inside = answers[cut + 1 :]
        if inside.endswith(")") and (inside == f"{name})" or inside.startswith(f"{name}/")):
            return tuple(dict.fromkeys(part for part in inside[:-1].split("/") if part))
    return (answers,)


def _of_json(parsed: _EntityQuestion, names: Set[str]) -> Question:
    return Question(
        text=parsed.question,
        answers=_fact_names(parsed.answers, names),
        topics=_fact_names(parsed.topics, names),
    )


def _fact_names(values: tuple[str | _NamedEntity, ...], names: Set[str]) -> tuple[str, ...]:
    """Returns the name of each entity in the facts: its id if a fact has it, otherwise its text."""
    entity_names: list[str] = []
    for value in values:
        if isinstance(value, str):
            entity_names.append(value)
        else:
            entity_names.append(value.kb_id if value.kb_id in names else value.text or value.kb_id)
    return tuple(dict.fromkeys(entity_names))
