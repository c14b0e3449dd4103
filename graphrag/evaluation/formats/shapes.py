"""Knowledge as every reader gives it: passages, entities, facts, and questions with their answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text, and the names of the entities it mentions. `id` is unique among passages."""

    id: str
    title: str
    text: str
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A thing that facts are about; its name is its identity."""

    name: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A relation between two entities, by their names."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the nodes that answer it: passages by id, or entities by name, never both.

    `topics` are entities that the question gives away, so that they are no answer.
    """

    text: str
    passages: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """A knowledge graph. An entity that only a fact or a passage names needs no entry of its own.

    `left_out` says what of the files was not used, and why.
    """

    passages: tuple[Passage, ...] = ()
    entities: tuple[Entity, ...] = ()
    facts: tuple[Fact, ...] = ()
    questions: tuple[Question, ...] = ()
    left_out: tuple[str, ...] = ()

    def passages_alone(self) -> Self:
        """Return what is left without a graph: what walking it is measured against."""
        bare = tuple(replace(passage, mentions=()) for passage in self.passages)
        return replace(self, passages=bare, entities=(), facts=())


class UnreadableKnowledge(Exception):
    """A file of knowledge or questions cannot be used; `where` is a line or a place in its JSON."""

    def __init__(self, *, file: str, where: str, reason: str) -> None:
        self.file, self.where, self.reason = file, where, reason
        super().__init__(": ".join(part for part in (file, where, reason) if part))
