"""Questions whose answers are entities, as question-answering sets over knowledge bases write them.

Three ways, told apart line by line: `question with [topic]<tab>answer|answer` (MetaQA);
`question<tab>answer(answer/answer)<tab>topic#relation#entity…` (PathQuestion); and JSON, a list or one
object a line, of `question`, `answers` and perhaps `topics` (`entities`), each a name or an object
with `kb_id` and `text` (WebQSP).
Source: Zhang et al., "Variational Reasoning for Question Answering with Knowledge Graph" (AAAI 2018);
Zhou et al., "An Interpretable Reasoning Network" (COLING 2018); Yih et al., "The Value of Semantic
Parse Labeling" (ACL 2016).
"""

from __future__ import annotations

import re
from collections.abc import Set

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter

from graphrag.evaluation.formats.parsing import Text, numbered_lines, parse_json
from graphrag.evaluation.formats.shapes import Question, UnreadableKnowledge

_TOPIC = re.compile(r"\[([^\[\]]+)\]")
_JSON_LIST = re.compile(r"\s*\[\s*\{")


class _Named(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    kb_id: str = ""
    text: str | None = ""


class _Asked(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    question: Text
    answers: tuple[Text | _Named, ...] = Field(min_length=1)
    topics: tuple[Text | _Named, ...] = Field(default=(), validation_alias=AliasChoices("topics", "entities"))


_ONE = TypeAdapter(_Asked)
_LIST = TypeAdapter(tuple[_Asked, ...])


def read_questions(text: str, file: str, names: Set[str]) -> tuple[Question, ...]:
    """Return the questions; `names` are the entities there are. Raises: UnreadableKnowledge."""
    if _JSON_LIST.match(text):
        return tuple(_of_json(asked, names) for asked in parse_json(text, _LIST, file))
    return tuple(_of_line(number, line, file, names) for number, line in numbered_lines(text))


def _of_line(number: int, line: str, file: str, names: Set[str]) -> Question:
    where = f"line {number}"
    if line.lstrip().startswith("{"):
        return _of_json(parse_json(line, _ONE, file, where), names)
    parts = [part.strip() for part in line.split("\t")]
    if len(parts) not in (2, 3) or not all(parts):
        reason = "expected a question, a tab and its answers (answer|answer), or a JSON object"
        raise UnreadableKnowledge(file=file, where=where, reason=reason)
    question, answers = parts[0], parts[1]
    topics = tuple(_TOPIC.findall(question))
    if len(parts) == 3:  # the path to the answer starts at the topic
        topics = (parts[2].partition("#")[0],)
        found = _in_brackets(answers)
    else:
        question = _TOPIC.sub(r"\1", question)
        found = tuple(name.strip() for name in answers.split("|") if name.strip())
    if not found:
        raise UnreadableKnowledge(file=file, where=where, reason="it names no answer")
    return Question(text=question, answers=found, topics=topics)


def _in_brackets(answers: str) -> tuple[str, ...]:
    """Return the names of `name(name/name/)`. A name may hold brackets itself."""
    for cut in (i for i, c in enumerate(answers) if c == "("):
        name, inside = answers[:cut], answers[cut + 1 :]
        if inside.endswith(")") and (inside == f"{name})" or inside.startswith(f"{name}/")):
            return tuple(dict.fromkeys(part for part in inside[:-1].split("/") if part))
    return (answers,)


def _of_json(asked: _Asked, names: Set[str]) -> Question:
    return Question(
        text=asked.question,
        answers=_known(asked.answers, names),
        topics=_known(asked.topics, names),
    )


def _known(values: tuple[str | _Named, ...], names: Set[str]) -> tuple[str, ...]:
    """Return each entity by the name that a fact has for it: its id in the base, else its text."""
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found.append(value)
        else:
            found.append(value.kb_id if value.kb_id in names else value.text or value.kb_id)
    return tuple(dict.fromkeys(found))
