"""Edges without their documents, for walks and ranking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Direction = Literal["out", "in", "any"]


class Link(NamedTuple):
    """The keys of the nodes at the two ends of an edge."""

    source: str
    target: str


class TypedLink(NamedTuple):
    """An edge with its label, which is empty if the edge has none."""

    source: str
    target: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkWalk:
    """A walk of up to `steps` (3) edges from the nodes `keys`.

    `labels` are the labels of the edges to follow ("" for edges without a label), None for all. At
    most `limit` edges are read in each step, in key order. The first step skips nodes with more
    than `limit` edges. Later steps skip nodes with more than `max_degree` edges and start from at
    most `datasources.held_reads.WIDTH` nodes, those with the fewest edges.
    """

    keys: Sequence[str]
    labels: Sequence[str] | None = None
    steps: int = 1
    limit: int
    max_degree: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkTable:
    """Edges as an array for ranking. Shapes: `ends` is int64[k, 2], positions in `keys`.

    `keys` has no duplicates. It begins with the nodes asked for, in their order, even if they have
    no edges.
    """

    keys: Sequence[str]
    ends: NDArray[np.int64]

    @staticmethod
    def of(links: Sequence[Link], asked: Iterable[str] = ()) -> LinkTable:
        keys = list(dict.fromkeys(chain(asked, chain.from_iterable(links))))
        place = {key: i for i, key in enumerate(keys)}
        ends = map(place.__getitem__, chain.from_iterable(links))
        table = np.fromiter(ends, dtype=np.int64, count=2 * len(links)).reshape(-1, 2)
        return LinkTable(keys=keys, ends=table)

    def led_by(self, asked: Iterable[str]) -> LinkTable:
        """Returns the same edges with keys that begin with these nodes."""
        place = {key: i for i, key in enumerate(dict.fromkeys(chain(asked, self.keys)))}
        rows = np.fromiter(map(place.__getitem__, self.keys), dtype=np.int64, count=len(self.keys))
        return LinkTable(keys=list(place), ends=rows[self.ends])

    def joined(self, other: LinkTable) -> LinkTable:
        """Returns the edges of both tables; an edge in both is repeated."""
        if not len(other.ends):
            return self
        more = other.led_by(self.keys)
        return LinkTable(keys=more.keys, ends=np.concatenate([self.ends, more.ends]))
