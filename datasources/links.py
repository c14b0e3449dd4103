"""Edges as walks and ranking see them, without their documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Direction = Literal["out", "in", "any"]


class Link(NamedTuple):
    """An edge as ranking sees it: keys of the nodes at its two ends."""

    source: str
    target: str


class TypedLink(NamedTuple):
    """An edge with its label; an empty one where it has none."""

    source: str
    target: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkWalk:
    """A walk along the edges of the nodes `keys` and of those they lead to, up to `steps` (3) far.

    Only along edges of these labels (an empty one: without label), at most `limit` of each step,
    first those with the least keys. Nodes with more than `limit` edges are passed over; from the
    second step on, those with more than `max_degree`, and of more than
    `datasources.held_reads.WIDTH` nodes those with the most.
    """

    keys: Sequence[str]
    labels: Sequence[str] | None = None
    steps: int = 1
    limit: int
    max_degree: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkTable:
    """Edges as ranking computes with them. Shapes: `ends` is int64[k, 2], places in `keys`;
    no key twice.

    The nodes that somebody asked for lead `keys`, in their order, with edges or without.
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
        """Return the same edges with these nodes in the lead."""
        place = {key: i for i, key in enumerate(dict.fromkeys(chain(asked, self.keys)))}
        rows = np.fromiter(map(place.__getitem__, self.keys), dtype=np.int64, count=len(self.keys))
        return LinkTable(keys=list(place), ends=rows[self.ends])

    def joined(self, other: LinkTable) -> LinkTable:
        """Return the edges of both; an edge of both is there twice."""
        if not len(other.ends):
            return self
        more = other.led_by(self.keys)
        return LinkTable(keys=more.keys, ends=np.concatenate([self.ends, more.ends]))
