"""The result of every reader (passages, entities, facts, questions), and the graph built from it.

Passages and entities become nodes, mentions and facts become edges. The constraints of the fields
are checked only when this project's own format is read; other readers check their input themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple, Self, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from datasources.types import Edge, Mutation, Node

T = TypeVar("T")
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
PASSAGE, ENTITY = "passage", "entity"
MENTIONS = "mentions"
# A title shared by more passages than this identifies none of them.
MAX_NAMESAKES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text with the names of the entities that it mentions. `id` is unique among passages."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    id: Text
    title: Text
    text: str = ""
    mentions: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A subject or object of facts, identified by its name."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Text
    text: str = ""


class Fact(NamedTuple):
    """A relation between two entities, by their names."""

    subject: Text
    relation: Text
    object: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the nodes that answer it: either passages by id, or entities by name.

    `topics` are entities named in the question, which are no answers.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    text: Annotated[Text, Field(validation_alias="question")]
    passages: tuple[Text, ...] = ()
    answers: tuple[Text, ...] = ()
    topics: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """A knowledge graph. Entities named by facts or passages need no entry in `entities`.

    `left_out` lists the parts of the files that were not used, with reasons.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    passages: tuple[Passage, ...] = ()
    entities: tuple[Entity, ...] = ()
    facts: tuple[Fact, ...] = ()
    questions: tuple[Question, ...] = ()
    left_out: tuple[str, ...] = ()

    def passages_alone(self) -> Self:
        """Returns the passages without the graph, the baseline for graph walking."""
        texts = tuple(replace(passage, mentions=()) for passage in self.passages)
        return replace(self, passages=texts, entities=(), facts=())


def build_mutation(knowledge: Knowledge, graph_key: str) -> Mutation:
    """Returns the nodes and edges. Equal facts become one edge; a fact of an entity about itself
    none.

    A passage that mentions the title of another passage is connected to it directly, too: over an
    entity it would be one step further.
    """
    nodes: dict[str, Node] = {}
    edges: dict[str, Edge] = {}

    def entity(name: str, text: str = "") -> str:
        key = entity_key(name)
        if key not in nodes:
            data = {"name": name, "text": text} if text else {"name": name}
            nodes[key] = Node(key=key, graph_key=graph_key, type=ENTITY, data=data)
        return key

    def join(source: str, target: str, label: str) -> None:
        if source != target:
            key = _digest(source, target, label)
            edges[key] = Edge(
                key=key, graph_key=graph_key, source=source, target=target, label=label
            )

    for passage in knowledge.passages:
        key = passage_key(passage.id)
        data = {"name": passage.title, "text": passage.text}
        nodes[key] = Node(key=key, graph_key=graph_key, type=PASSAGE, data=data)
    for declared in knowledge.entities:
        entity(declared.name, declared.text)
    passages_by_title = _by_title(knowledge.passages)
    for passage in knowledge.passages:
        key = passage_key(passage.id)
        for name in passage.mentions:
            join(key, entity(name), MENTIONS)
            for other in passages_by_title.get(folded(name), ()):
                join(key, other, MENTIONS)
    for fact in knowledge.facts:
        join(entity(fact.subject), entity(fact.object), fact.relation)
    return Mutation(
        graph_key=graph_key, put_nodes=list(nodes.values()), put_edges=list(edges.values())
    )


def _by_title(passages: Sequence[Passage]) -> dict[str, list[str]]:
    """Returns the keys of passages by title, without titles of more than MAX_NAMESAKES passages."""
    by_title: dict[str, list[str]] = {}
    for passage in passages:
        if title := folded(passage.title):
            by_title.setdefault(title, []).append(passage_key(passage.id))
    return {title: keys for title, keys in by_title.items() if len(keys) <= MAX_NAMESAKES}


def folded(name: str) -> str:
    """Returns a name without case and punctuation, equal for different spellings of it."""
    return " ".join("".join(c if c.isalnum() else " " for c in name.casefold()).split())


def passage_key(identity: str) -> str:
    return f"{PASSAGE}-{_digest(identity)}"


def entity_key(name: str) -> str:
    return f"{ENTITY}-{_digest(name)}"


def _digest(*parts: str) -> str:
    return hashlib.blake2b(
        "\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=10
    ).hexdigest()


class UnreadableKnowledge(Exception):
    """A file of knowledge or questions cannot be used; `where` is a line or a path in its JSON."""

    def __init__(self, *, file: str, where: str, reason: str) -> None:
        self.file = file
        self.where = where
        self.reason = reason
        super().__init__(": ".join(part for part in (file, where, reason) if part))


def decode(raw: bytes, file: str) -> str:
    """Returns the text of a file. Raises UnreadableKnowledge with the line that is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        raise UnreadableKnowledge(
            file=file, where=f"line {line}", reason="it is not UTF-8 text"
        ) from exc


def parse_json(text: str, shape: TypeAdapter[T], file: str, where: str = "") -> T:
    """Returns a parsed document. Raises UnreadableKnowledge with the first error."""
    try:
        return shape.validate_json(text)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        at = ", ".join(part for part in (where, place) if part)
        raise UnreadableKnowledge(file=file, where=at, reason=first["msg"]) from exc


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines that are not blank, with their numbers from 1."""
    # Not splitlines(): a name may contain a Unicode line separator, which ends no line here.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


_DOCUMENT = TypeAdapter(Knowledge)
_QUESTIONS = TypeAdapter(tuple[Question, ...])


def read_native(raw: bytes, file: str, questions: bytes, questions_file: str) -> Knowledge:
    """Reads a document. Questions may be in it, in a separate file, or in both.

    Raises: UnreadableKnowledge.
    """
    knowledge = parse_json(decode(raw, file), _DOCUMENT, file)
    more = parse_json(decode(questions, questions_file), _QUESTIONS, questions_file)
    _check_questions(knowledge.questions, file, "questions.")
    _check_questions(more, questions_file, "")
    _check_unique([passage.id for passage in knowledge.passages], file, "passages", "id")
    _check_unique([entity.name for entity in knowledge.entities], file, "entities", "name")
    return replace(knowledge, questions=(*knowledge.questions, *more))


def _check_questions(questions: Iterable[Question], file: str, prefix: str) -> None:
    for i, question in enumerate(questions):
        if bool(question.passages) == bool(question.answers):
            reason = "a question must have either passages or answers"
            raise UnreadableKnowledge(file=file, where=f"{prefix}{i}", reason=reason)


def _check_unique(names: Iterable[str], file: str, section: str, field: str) -> None:
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            reason = f"the {field} {name!r} is already used by {section}.{seen[name]}"
            raise UnreadableKnowledge(file=file, where=f"{section}.{i}", reason=reason)
        seen[name] = i
