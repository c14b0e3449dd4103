"""Queries and hits of a search in one graph, and the vectors that it compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

SearchField = Literal["content", "name"]
FIELDS: tuple[SearchField, ...] = ("content", "name")
Vector = NDArray[np.float32]


class Hit(NamedTuple):
    """A node found by one search. Higher scores are better; scales differ between searches."""

    key: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorQuery:
    """A search for the nodes of greatest cosine ≥ `min_score`. Shapes: `vector` is float32[dim].

    Vectors of another model or length are ignored.
    """

    vector: Vector
    model: str
    limit: int
    min_score: float = 0.0
    field: SearchField = "content"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeVector:
    """The embeddings of one node: of its whole text and, optionally, of its name alone.

    Shapes: `content` and `name` are float32[dim]. `hash` is the hash of the embedded text.
    """

    key: str
    model: str
    hash: str
    content: Vector
    name: Vector | None = None


class VectorInfo(NamedTuple):
    """The model and text hash of a stored vector."""

    model: str
    hash: str
