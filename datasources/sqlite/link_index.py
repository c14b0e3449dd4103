"""The edges of one revision of a graph as numbers, held in memory: which a node has, where they
lead, and what they are called.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasources.links import Direction, Link, LinkTable, NodeChoice, TypedLink
from datasources.sqlite import statements as sql
from datasources.sqlite.index_manager import Rids
from datasources.sqlite.rows import GraphRow, label_of

Numbers = NDArray[np.int64]
Texts = NDArray[np.object_]
"""Texts, of which many are looked up at once: in a third of the time that a list takes."""
_as_typed_link: Callable[[tuple[str, str, str]], TypedLink] = partial(tuple.__new__, TypedLink)


def _texts(texts: Iterable[str]) -> Texts:
    return np.array(list(texts), dtype=np.object_)


KEY_BYTES = 160
"""What a key takes as a string, in a list and in a dictionary."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkIndex:
    """Edges are numbered in the order they were given in, nodes too.

    Shapes: `keys` [n]; `rids` int64[n] are the nodes' row ids; `ends` int32[k, 2] the nodes of each
    edge, and `label_at` int32[k] which of the `labels` it has; those at node i are
    `numbers[starts[i]:starts[i + 1]]`, int32, ascending, an edge to itself once.
    """

    keys: Texts
    place: dict[str, int]
    rids: Rids
    ends: NDArray[np.int32]
    labels: Texts
    label_at: NDArray[np.int32]
    starts: Numbers
    numbers: NDArray[np.int32]

    @staticmethod
    def of(keys: Sequence[str], rids: Rids, edges: Iterable[tuple[int, int, bytes]]) -> LinkIndex:
        """Number edges, given by the row ids of their nodes and their documents."""
        pairs = array("q")
        label_at = array("i")
        labels = dict[str, int]()
        for source, target, body in edges:
            pairs.extend((source, target))
            label_at.append(labels.setdefault(label_of(body), len(labels)))
        order = np.argsort(rids)
        ends = order[np.searchsorted(rids, np.array(pairs), sorter=order)].reshape(-1, 2)
        count = max(1, len(ends))
        cells = (ends * count + np.arange(len(ends))[:, None]).T
        both = np.sort(np.concatenate([cells[0], cells[1][ends[:, 0] != ends[:, 1]]]))
        return LinkIndex(
            keys=_texts(keys),
            place=dict(zip(keys, range(len(keys)), strict=True)),
            rids=rids,
            ends=ends.astype(np.int32),
            labels=_texts(labels),
            label_at=np.array(label_at),
            starts=np.searchsorted(both, np.arange(len(keys) + 1) * count),
            numbers=(both % count).astype(np.int32),
        )

    @staticmethod
    def load(connection: sqlite3.Connection, row: GraphRow) -> LinkIndex:
        """Read the edges of a graph: 1 s for 100,000 nodes and 300,000 edges."""
        nodes = connection.execute(sql.ALL_KEYS, row.range).fetchall()
        rids = np.fromiter((rid for rid, _ in nodes), dtype=np.int64, count=len(nodes))
        edges = connection.execute(sql.ALL_EDGES, {"graph": row.id})
        return LinkIndex.of([key for _, key in nodes], rids, edges)

    @property
    def nbytes(self) -> int:
        """Roughly what it occupies in memory."""
        numbers = 3 * self.ends.nbytes + 2 * self.rids.nbytes
        return (
            KEY_BYTES * (len(self.keys) + len(self.labels)) + sum(map(len, self.labels)) + numbers
        )

    def degree(self, key: str) -> int:
        """Return how many edges a node has; 0 where there is no such node."""
        place = self.place.get(key)
        return 0 if place is None else int(self.starts[place + 1] - self.starts[place])

    def numbers_at(
        self, keys: Sequence[str], limit: int | None, max_degree: int | None = None
    ) -> Numbers:
        """Return the numbers of the edges of nodes, ascending, but for those of nodes
        with too many.
        """
        found = self.numbers_of(self.rows_of(keys), max_degree)
        return found[: None if limit is None else max(0, limit)]

    def rows_of(self, keys: Sequence[str]) -> Numbers:
        """Return the rows of those of the nodes that there are."""
        place = self.place
        return np.array(
            [row for key in keys if (row := place.get(key)) is not None], dtype=np.int64
        )

    def numbers_of(self, rows: Numbers, max_degree: int | None = None) -> Numbers:
        """Return what `numbers_at` does, of the nodes in some rows."""
        found = self._numbers_by_node(rows, max_degree)
        found.sort()
        is_new = np.ones(len(found), dtype=np.bool_)
        np.not_equal(found[1:], found[:-1], out=is_new[1:])  # what np.unique does, in half the time
        return found.compress(is_new).astype(np.int64)

    def _numbers_by_node(self, rows: Numbers, max_degree: int | None = None) -> NDArray[np.int32]:
        """Return the numbers of the edges at nodes, node by node: of an edge between two
        of them twice.
        """
        firsts = self.starts.take(rows)  # sooner than `starts[rows]`
        counts = self.starts.take(rows + 1) - firsts
        if max_degree is not None:
            counts[counts > max_degree] = 0
        behind = counts.cumsum()
        places = np.arange(behind[-1] if len(behind) else 0) + (firsts - behind + counts).repeat(
            counts
        )
        return self.numbers.take(places)

    def numbers_inside(self, rows: Numbers) -> list[int]:
        """Return the numbers of the edges from one of the nodes in some rows
        to another, ascending.
        """
        numbers = self._numbers_by_node(rows)
        sources, targets = self.are_among(rows).take(self.ends_of(numbers)).T
        # few of those that `numbers_of` orders
        return sorted(set[int](numbers[sources & targets].tolist()))

    def next_to(self, rows: Numbers, direction: Direction) -> NDArray[np.int32]:
        """Return the rows of nodes that edges of some lead to, also of these; a row
        more than once.
        """
        ends = self.ends_of(self._numbers_by_node(rows))
        if direction == "any":
            return ends.ravel()
        source, target = (0, 1) if direction == "out" else (1, 0)
        return ends[self.are_among(rows).take(ends[:, source]), target]

    def ends_of(self, numbers: NDArray[np.signedinteger[Any]]) -> NDArray[np.int32]:
        """Return the nodes of edges. Shapes: int32[k, 2]."""
        return self.ends.take(numbers, axis=0)  # a tenth of the time of `ends[numbers]`

    def are_among(self, rows: Numbers) -> NDArray[np.bool_]:
        """Return for each node whether it is in one of these rows. Shape: bool[n]."""
        found = np.zeros(len(self.keys), dtype=np.bool_)
        found[rows] = True
        return found

    def links(self, numbers: Numbers) -> list[Link]:
        """Return edges as the keys of their nodes."""
        ends: list[list[str]] = self.keys.take(self.ends_of(numbers)).tolist()
        return [Link(source, target) for source, target in ends]

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterator[TypedLink]:
        """Yield the edges of nodes with their labels; see `datasources.held_reads.EdgesOf`."""
        few = sorted(keys, key=self.degree)[:most] if len(keys) > most else keys
        numbers = self.numbers_at(few, None, max_degree)
        sources, targets = self.keys.take(self.ends_of(numbers).T).tolist()
        labels: list[str] = self.labels.take(self.label_at[numbers]).tolist()
        return map(_as_typed_link, zip(sources, targets, labels, strict=True))

    def table(self, wanted: NodeChoice) -> LinkTable:
        """Return the edges of the first nodes, and of those that are named from these."""
        keys = wanted.keys
        first = self.rows_of(wanted.first)
        rows = np.concatenate([first, self.rows_of(keys[wanted.walked :])])
        numbers = self.numbers_of(first)
        if len(numbers) > wanted.limit:
            numbers = self.numbers_of(first, wanted.limit // wanted.walked)
        links = self._table_of(keys, rows, numbers)
        more = self.numbers_at(wanted.further(links), None, wanted.max_degree)
        return self._table_of(keys, rows, np.concatenate([numbers, more])) if len(more) else links

    def _table_of(self, keys: Sequence[str], rows: Numbers, numbers: Numbers) -> LinkTable:
        """Return edges by their numbers, in a table that `keys` lead; `rows` are those
        that there are.
        """
        ends = self.ends_of(numbers)
        is_other = np.zeros(len(self.keys), dtype=np.bool_)
        is_other[ends] = True
        is_other[rows] = False
        nodes = np.concatenate([rows, np.flatnonzero(is_other)])
        place = np.empty(len(self.keys), dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        table = LinkTable(keys=self.keys.take(nodes).tolist(), ends=place[ends])
        return table if len(rows) == len(keys) else table.led_by(keys)
