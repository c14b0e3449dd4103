"""The seam to a peer: what a way of retrieving is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from datasources.hits import Vector
from datasources.types import Edge, Node, NodeTypeConfig

CONTEXT_NODES = 20
"""Nodes of a context, where a peer does not say itself how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphData:
    """One graph with vectors. Shapes: `content` and `name_vectors` are float32[n, dim], as `nodes`.

    `names` are unique in the graph, for peers that know a node by its name; `texts` are what a
    context may show of a node (the vectors are of the whole text).
    """

    key: str
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    configs: Sequence[NodeTypeConfig]
    names: Sequence[str]
    texts: Sequence[str]
    content: Vector
    name_vectors: Vector
    hashes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of a graph, its vector (float32[dim]), and the keys of the nodes
    that answer it.
    """

    graph: str
    text: str
    vector: Vector
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What every peer is given. `model` names the embedder of all vectors.

    Only nodes of `answer_type` are counted in a ranking, of whichever peer (None: all).
    """

    title: str
    model: str
    graphs: Sequence[GraphData]
    questions: Sequence[Question]
    answer_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a peer found, in its own shape, and how its text for a model is written.

    Both the finding and the writing are timed; a peer that writes while it finds has
    done so already.
    """

    found: object = field(repr=False)
    write: Callable[[], str] = field(repr=False)


class Peer(Protocol):
    """A way of retrieving. `load` makes it ready; `ask` is what is timed."""

    async def load(self, data: Data, folder: Path) -> None: ...

    async def ask(self, question: Question) -> Answer: ...

    def ranking(self, question: Question, answer: Answer) -> list[str]:
        """Return the keys of the nodes found, best first."""
        ...

    async def aclose(self) -> None: ...
