"""The text index of a large graph: a file of postings beside the database, mapped into memory.

It holds counts of words, not weights: a search weighs them with the statistics that the database
keeps at every write, so scores are exact, whatever changed since. Nodes that changed are scored
from their stored words instead. FTS5 answers until the file is there.

The query's rarest words are gone through, up to a number of postings; the nodes that do best are
then looked up in the postings of the remaining, common words, which cost most and tell least.

Source: Turtle & Flood, "Query evaluation: strategies and optimizations" (1995), for the order of
terms and the look-up of common ones.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasources.lexical import K1, B, idf
from datasources.sqlite import statements as sql
from datasources.sqlite.array_file import ArrayWriter, read_arrays, write_arrays
from datasources.sqlite.change_log import TEXT_LOG
from datasources.sqlite.index_manager import IndexKind, Older
from datasources.sqlite.node_table import NodeTable, write_nodes
from datasources.sqlite.rows import GraphRow, best_among, likely_bound
from datasources.sqlite.words import NAME_COLUMNS
from datasources.types import SearchField

BLOCK = 4_000
POSTINGS = 200_000
"""Postings gone through of the rarest words; the rarest one is always gone through."""

SPARE = 3
REPAIR_AT = 1_000
_FIELDS: tuple[SearchField, ...] = ("content", "name")
_PARTS = ("lengths", "starts", "rows", "counts")
_LAST_COLUMN: Mapping[SearchField, int | None] = {"content": None, "name": 2 + NAME_COLUMNS}

Ints = NDArray[np.int32]
Scores = NDArray[np.float32]
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What weighs words now: number of nodes, their mean length in words, nodes that have each word."""

    nodes: int
    average: float
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Postings:
    """One field. Shapes: word w has `rows[starts[w]:starts[w + 1]]`, ascending, and as many `counts`."""

    lengths: Ints
    starts: NDArray[np.int64]
    rows: Ints
    counts: NDArray[np.uint16]
    _norms: dict[float, Floats] = field(default_factory=dict[float, Floats], init=False)

    def norms(self, average: float) -> Floats:
        """Return what a node's length adds to each count of a word, for a mean length that seldom changes."""
        known = self._norms.get(average)
        if known is None:
            known = (K1 * (1.0 - B + B * self.lengths / (average or 1.0))).astype(np.float32)
            self._norms.clear()
            self._norms[average] = known
        return known


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextIndex:
    """Shapes: `words` uint64[v], ascending hashes; row i of the postings is row i of `nodes`."""

    number: int
    nodes: NodeTable
    words: NDArray[np.uint64]
    fields: Mapping[SearchField, Postings]

    def search(
        self, statistics: Statistics, search_field: SearchField, limit: int, hidden: Sequence[int]
    ) -> tuple[NDArray[np.int64], Scores]:
        """Return the best nodes that are not `hidden`, in no order: rows and their exact BM25."""
        p = self.fields[search_field]
        norms = p.norms(statistics.average)
        found = self._weighted_postings(p, statistics)
        split = _affordable([part.stop - part.start for _, part in found])
        scores = _sums(p, found[:split], norms, len(self.nodes))
        if hidden:
            scores[self.nodes.rows(hidden)] = 0
        best = _best(scores, limit * SPARE if split < len(found) else limit)
        total = scores[best]
        for weight, part in found[split:]:
            rows = p.rows[part]
            place = np.minimum(np.searchsorted(rows, best), len(rows) - 1)
            has = rows[place] == best
            tf = p.counts[part][place[has]]
            total[has] += weight * (tf / (tf + norms[best[has]]))
        kept = _best(total, limit)
        return best[kept], total[kept].astype(np.float32)

    def _weighted_postings(self, p: Postings, statistics: Statistics) -> list[tuple[float, slice]]:
        """Return where the postings of each word are and what the word weighs, rarest word first."""
        if not len(self.words):
            return []
        ordered = sorted((count, word) for word, count in statistics.counts.items())
        wanted = np.array([word_hash(word) for _, word in ordered], dtype=np.uint64)
        places = np.searchsorted(self.words, wanted)
        known = np.flatnonzero(self.words[np.minimum(places, len(self.words) - 1)] == wanted)
        counts = np.array([count for count, _ in ordered])
        weights = idf(statistics.nodes, counts) * (K1 + 1.0)
        starts, ends = p.starts[places[known]].tolist(), p.starts[places[known] + 1].tolist()
        return [
            (weight, slice(start, end))
            for weight, start, end in zip(weights[known].tolist(), starts, ends, strict=True)
        ]


def word_hash(word: str) -> np.uint64:
    """Return the 64 bits that stand for a word (two of a million words share them once in 10⁷ graphs)."""
    return np.frombuffer(hashlib.blake2b(word.encode(), digest_size=8).digest(), dtype=np.uint64)[0]


def _sums(p: Postings, found: Sequence[tuple[float, slice]], norms: Floats, count: int) -> Floats:
    """Return the BM25 of every node for these words: `lexical.saturation`, for all postings at once."""
    if not found:
        return np.zeros(count)
    rows = np.concatenate([p.rows[part] for _, part in found])
    tf = np.concatenate([p.counts[part] for _, part in found]).astype(np.float32)
    total = norms.take(rows)
    total += tf
    tf /= total
    weights = np.array([weight for weight, _ in found], dtype=np.float32)
    tf *= np.repeat(weights, [part.stop - part.start for _, part in found])
    return np.bincount(rows, tf, minlength=count).astype(np.float64, copy=False)


def _affordable(sizes: Sequence[int]) -> int:
    """Return how many of the words, rarest first, are gone through."""
    gone = np.cumsum(sizes)
    return max(1, int(np.searchsorted(gone, POSTINGS, side="right")))


def _best(scores: Floats, limit: int) -> NDArray[np.int64]:
    """Return the rows of the best scores, ascending, and those that tie with the last, within bounds."""
    bound = likely_bound(scores, limit)
    rows = np.flatnonzero(scores >= bound if bound > 0 else scores > 0)
    if bound > 0 and len(rows) < limit:
        rows = np.flatnonzero(scores > 0)
    return best_among(rows, scores[rows], limit)


def open_text_index(path: Path, number: int) -> TextIndex | None:
    """Open a file; None when it is damaged."""
    arrays = read_arrays(path)
    if arrays is None:
        return None
    try:
        fields: dict[SearchField, Postings] = {
            name: Postings(**{part: arrays[f"{name}.{part}"] for part in _PARTS}) for name in _FIELDS
        }
        return TextIndex(number=number, nodes=NodeTable.of(arrays), words=arrays["words"], fields=fields)
    except KeyError:
        return None


def write_text_index(
    connection: sqlite3.Connection,
    row: GraphRow,
    path: Path,
    _older: Older,
    stop: Callable[[], None],
) -> None:
    """Make the index of a graph as it is. Memory: about 10 bytes a posting while it is made."""
    vocabulary: dict[str, int] = {}
    rids: list[int] = []
    keys: list[str] = []
    blocks: dict[SearchField, list[_Block]] = {name: [] for name in _FIELDS}
    cursor = connection.execute(sql.WORDS_IN_ORDER, row.range)
    while rows := cursor.fetchmany(BLOCK):
        stop()
        for name, last in _LAST_COLUMN.items():
            texts = [" ".join(found[2:last]).split() for found in rows]
            blocks[name].append(_Block.of(texts, len(rids), vocabulary))
        rids.extend(found[0] for found in rows)
        keys.extend(found[1] for found in rows)
    hashes = np.array([word_hash(word) for word in vocabulary], dtype=np.uint64)
    order = np.argsort(hashes)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    with write_arrays(path) as writer:
        write_nodes(writer, np.array(rids, dtype=np.int64), keys)
        writer.add("words", hashes[order])
        for name in _FIELDS:
            stop()
            _write_merged(writer, name, blocks.pop(name), place)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """The postings of some nodes, by word number and then by row."""

    lengths: Ints
    words: Ints
    rows: Ints
    counts: NDArray[np.uint16]

    @staticmethod
    def of(texts: Sequence[Sequence[str]], first: int, vocabulary: dict[str, int]) -> _Block:
        lengths = np.fromiter(map(len, texts), dtype=np.int32, count=len(texts))
        numbers = [vocabulary.setdefault(word, len(vocabulary)) for text in texts for word in text]
        pairs = np.array(numbers, dtype=np.int64) * BLOCK + np.repeat(np.arange(len(texts)), lengths)
        pairs.sort()
        new = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]])) if len(pairs) else pairs
        counts = np.diff(np.append(new, len(pairs)))
        words, rows = np.divmod(pairs[new], BLOCK)
        return _Block(
            lengths,
            words.astype(np.int32),
            (rows + first).astype(np.int32),
            np.minimum(counts, np.iinfo(np.uint16).max).astype(np.uint16),
        )


def _write_merged(
    writer: ArrayWriter, name: SearchField, blocks: list[_Block], place: NDArray[np.int64]
) -> None:
    """Put the postings of all blocks together, word by word in the order of their hashes."""
    sizes = np.zeros(len(place), dtype=np.int64)
    for block in blocks:
        np.add.at(sizes, place[block.words], 1)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.empty(starts[-1], dtype=np.int32)
    counts = np.empty(starts[-1], dtype=np.uint16)
    cursor = starts[:-1].copy()
    for block in blocks:
        words, first, size = np.unique(block.words, return_index=True, return_counts=True)
        target = np.repeat(cursor[place[words]] - first, size) + np.arange(len(block.words))
        rows[target], counts[target] = block.rows, block.counts
        cursor[place[words]] += size
    lengths = [block.lengths for block in blocks] or [np.zeros(0, dtype=np.int32)]
    writer.add(f"{name}.lengths", np.concatenate(lengths))
    writer.add(f"{name}.starts", starts)
    writer.add(f"{name}.rows", rows)
    writer.add(f"{name}.counts", counts)


TEXT_INDEX = IndexKind(
    name="text",
    open=open_text_index,
    write=write_text_index,
    version=lambda row: row.text_version,
    log=TEXT_LOG,
    repair_at=REPAIR_AT,
)
