"""Ranks hits: fuses the scores of several searches and spreads them over the edges.

Independent of any store.

Fusion adds scores normalised to the best score of each search, because ranks alone lose the
distances between nodes. If a search was cut at its limit, the score of its last hit is subtracted
first, so that a node just behind the cut does not lose more than the small difference in score.

A search of names always has a best hit, even in a graph whose names say little. The vectors of
names and of all text come from the same model, so their cosines are comparable: hits of names are
weighted by their agreement with the search of all text, the projection of one list of scores on the
other. No constant is fitted. Word scores of names and of all text are comparable as well, both are
sums of the information of matching words. They are normalised together, so that a name with one
word of the question counts less than a description with all of them.

Spreading is a personalised PageRank on the symmetrically normalised adjacency, so that a hub does
not collect what its many neighbours are worth; its restart vector is the fused score raised to
`sharpness`, so that a few good seeds lead and a long tail of weak ones does not.

A reference by name ties nodes as an edge does, at a tenth of its weight: on 805 annotated questions
(`nodius eval`) recall@5/recall@10/MRR are .8117/.9317/.7997 so, .8088/.9286/.7992 at the full
weight, .8084/.9309/.7993 at three tenths and .8116/.9303/.7988 without.

Source: Zhou et al., "Learning with Local and Global Consistency" (NIPS 2003) for the operator;
Haveliwala, "Topic-Sensitive PageRank" (WWW 2002) for the restart vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from datasources.hits import Hit
from datasources.links import Link, LinkTable
from datasources.search import FURTHER_SHARE
from graphrag.retrieval.signals.reference_signal import NO_REFERENCES, ReferenceLinks

Scores = NDArray[np.float64]
Integers = NDArray[np.int64]

SAME = 1e-6  # scores that differ by a smaller share of their value are equal
TINY = 1e-290  # smallest divisor of a weight; dividing by less would overflow
DIGITS = 12  # scores are rounded, so that they do not depend on the order of edges
MAX_REFERENCES = 5_000

TRUST = 2.0  # typed paths weigh the share of the question that the best one uses, to this power
KEPT = 0.1  # smallest weight of the other searches if there are typed paths
NEEDING = 3  # number of best nodes whose references are always shown
PARTNER_SHARE = 5  # these references take at most one of every PARTNER_SHARE places

REASON_SHARE = 0.5  # smallest share of a search's best score at which it is named as a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOptions:
    """Weights of the searches and of spreading, without unit.

    `candidates` is the maximum number of hits of each search; a list of this length is taken as
    cut. `damping` is the share of a score that is passed on along edges (0 turns spreading off);
    `reference` is the weight of a reference by name, relative to an edge.
    """

    weights: Mapping[str, float] = field(
        default_factory=lambda: {"text": 0.6, "name": 0.6, "vector": 0.4, "name-vector": 1.0}
    )
    candidates: int = 100
    damping: float = 0.5
    sharpness: float = 4.0
    iterations: int = 10
    reference: float = 0.1


class Ranked(NamedTuple):
    """One ranked node: its score (best: 1) and its reasons, strongest first."""

    key: str
    score: float
    reasons: tuple[str, ...]


def fuse(
    signals: Mapping[str, Sequence[Hit]],
    weights: Mapping[str, float],
    candidates: int | None = None,
) -> dict[str, float]:
    """Returns the weighted sum of each node's scores, each signal normalised to its best score.

    Hits are best first. A signal with `candidates` hits or more is taken as cut, and its lowest
    score is subtracted. The weight of name vectors is scaled by their agreement with the vectors of
    all text, the weight of name words by their best score relative to that of all words.
    """
    fused: dict[str, float] = {}
    both = weights.get("vector", 0.0) > 0 and weights.get("name-vector", 0.0) > 0
    share = (
        name_vector_agreement(signals.get("name-vector", ()), signals.get("vector", ()))
        if both
        else 1.0
    )
    most = _best(signals.get("text", ())) if weights.get("text", 0.0) > 0 else 0.0
    unit = min(1.0, _best(signals.get("name", ())) / most) if most > 0 else 1.0
    trust = {"name": unit, "name-vector": share}
    for name, hits in signals.items():
        best = _best(hits)
        weight = weights.get(name, 0.0) * trust.get(name, 1.0)
        if best <= 0 or weight <= 0:
            continue
        cut = candidates is not None and len(hits) >= candidates
        least = max(0.0, hits[-1].score) if cut else 0.0
        if best - least < SAME * best:  # all scores are equal: there are no differences to keep
            least = 0.0
        factor = weight / max(best - least, TINY)
        before = fused.get
        for key, score in hits:
            if score > least:
                fused[key] = before(key, 0.0) + (score - least) * factor
    return fused


def name_vector_agreement(names: Sequence[Hit], whole: Sequence[Hit]) -> float:
    """Returns the agreement of name hits with the search of all text, from 0 to 1.

    It is 1 if the same nodes score at least as well by name as by all text, or if there is nothing
    to compare. It is small if names score low or favour other nodes.
    """
    scores = {key: score for key, score in whole if score > 0}
    most = sum([score * score for score in scores.values()])
    if most <= 0 or _best(names) <= 0:
        return 1.0
    agreement = sum([score * scores[key] for key, score in names if key in scores])
    return min(1.0, max(0.0, agreement / most))


def _best(hits: Sequence[Hit]) -> float:
    return hits[0].score if hits else 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adjacency:
    """A symmetric sparse matrix of undirected pairs, as returned by `adjacency`.

    Shapes: `rows`, `columns` int64[cells]; `weights` float64[cells], None if all are 1.
    """

    size: int
    rows: Integers
    columns: Integers
    weights: Scores | None

    def times(self, values: Scores) -> Scores:
        """Returns the product with a vector. Shapes: float64[size] → float64[size]."""
        reached = values[self.columns]
        if self.weights is not None:
            reached *= self.weights
        return np.bincount(self.rows, reached, self.size).astype(np.float64, copy=False)

    def neighbours(self, rows: Sequence[int]) -> dict[int, list[tuple[int, float]]]:
        """Returns the columns of the cells of some rows, and their weights."""
        is_asked = np.zeros(self.size, dtype=np.bool_)
        is_asked[rows] = True
        cells = np.flatnonzero(is_asked[self.rows])
        columns: list[int] = self.columns[cells].tolist()
        weights: list[float] = (
            [1.0] * len(columns) if self.weights is None else self.weights[cells].tolist()
        )
        cells_by_row: dict[int, list[tuple[int, float]]] = {row: [] for row in rows}
        for row, column, weight in zip(self.rows[cells].tolist(), columns, weights, strict=True):
            cells_by_row[row].append((column, weight))
        return cells_by_row


def adjacency(
    size: int,
    pairs: Integers | Sequence[tuple[int, int]],
    weak: Integers | None = None,
    weight: float = 1.0,
) -> Adjacency:
    """Returns the symmetric matrix of undirected pairs, without self loops.

    The weight of `pairs` is 1, of `weak` pairs `weight`; a pair in both has weight 1.
    Shapes: int64[k, 2] → size×size.
    """
    strong = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    sources, targets = (strong if weak is None else np.concatenate([strong, weak])).T
    # Each pair is encoded as one number: lower end, higher end, weak bit. After sorting, the strong
    # one of two equal pairs comes first.
    bits = size.bit_length()
    numbers = (np.minimum(sources, targets) << bits | np.maximum(sources, targets)) << 1
    if weak is not None:
        numbers[len(strong) :] |= 1
    numbers.sort()
    places = numbers >> 1
    low = places >> bits
    high = places & (1 << bits) - 1
    is_kept = low != high
    is_kept[1:] &= places[1:] != places[:-1]  # keep the first of equal pairs
    low = low[is_kept]
    high = high[is_kept]
    return Adjacency(
        size=size,
        rows=np.concatenate([low, high]),
        columns=np.concatenate([high, low]),
        weights=None if weak is None else np.tile(np.where(numbers[is_kept] & 1, weight, 1.0), 2),
    )


def spread(seeds: Scores, links: Adjacency, options: RankOptions) -> Scores:
    """Returns the scores after walking the edges.

    Shapes: seeds float64[n], not negative; links n×n of weights from 0 to 1.
    A node without edges keeps its own share, as if the walk returned to it at once.
    """
    best = float(seeds.max(initial=0.0))
    if best <= 0:
        return seeds
    restart = (seeds / best) ** options.sharpness  # scaled first: powers of tiny scores underflow
    restart /= restart.sum()
    degrees = np.maximum(links.times(np.ones(len(seeds))), 1.0)
    scale = np.sqrt(degrees)  # scaling the scores avoids a second matrix with scaled weights
    score: Scores = restart / scale
    start = (1.0 - options.damping) * score
    share = options.damping / degrees
    for _ in range(options.iterations):
        score = start + share * links.times(score)
    return score * scale


def frontier(
    links: LinkTable, fused: Mapping[str, float], walked: int, options: RankOptions
) -> list[str]:
    """Returns the best nodes whose edges were not read yet, at most a third of `candidates`.

    Reading their edges makes a second step possible: passage, entity, passage. They are scored by
    one step over `links`, the edges of the first `walked` nodes. `links` begins with the nodes of
    `fused`.
    """
    best = max(fused.values())
    if options.damping <= 0 or links.ends.max(initial=-1) < walked or best <= 0:
        return []
    seeds = _seeds(len(links.keys), fused)
    seeds = (seeds / best) ** options.sharpness
    sources, targets = links.ends.T
    scores: Scores = seeds + np.bincount(targets, seeds[sources], len(seeds))
    scores += np.bincount(sources, seeds[targets], len(seeds))
    keys = links.keys[walked:]
    return [keys[i] for i in _order(keys, scores[walked:], options.candidates // FURTHER_SHARE)]


def _seeds(size: int, fused: Mapping[str, float]) -> Scores:
    """Returns the fused scores, padded with 0 to `size`. Shapes: float64[size]."""
    seeds = np.zeros(size)
    seeds[: len(fused)] = np.fromiter(fused.values(), dtype=np.float64, count=len(fused))
    return seeds


def rank(
    signals: Mapping[str, Sequence[Hit]],
    links: Sequence[Link] | LinkTable,
    options: RankOptions,
    limit: int,
    fused: Mapping[str, float] | None = None,
    references: ReferenceLinks = NO_REFERENCES,
    paths: Mapping[str, float] | None = None,
    spare: int = 0,
) -> list[Ranked]:
    """Returns the best nodes of all searches and their neighbours, at most `limit`.

    Ties are in key order, so equal input gives equal output. `fused` are the fused scores, if they
    were computed before; a table of links begins with their nodes. Nodes that the best ones refer
    to, or that refer to them, get the last places if they would be missing. `paths` are the ends of
    typed paths with their scores, best first. Up to `spare` further nodes follow, to fill places
    that become free.
    """
    fused = fuse(signals, options.weights, options.candidates) if fused is None else fused
    if not fused or limit <= 0:
        return []
    table = links if isinstance(links, LinkTable) else LinkTable.of(links, fused)
    if options.damping <= 0:
        references = NO_REFERENCES
    named = references.around(fused, limit=MAX_REFERENCES)
    paths = paths or {}
    row = (
        dict(zip(table.keys, range(len(table.keys)), strict=True))
        if references.keys or paths
        else {}
    )
    weak = _rows(named, row) if named.keys else None
    for key in paths:
        row.setdefault(key, len(row))
    keys = list(row) if row else table.keys
    matrix = adjacency(len(keys), table.ends, weak, options.reference)
    walked = spread(_seeds(len(keys), fused), matrix, options)
    walked /= float(walked.max())
    _add_paths(walked, row, paths, options.sharpness)
    scores: Scores = np.round(walked / float(walked.max()), DIGITS)
    best = _order(keys, scores, limit + spare)
    order = _with_partners(best[:limit], keys, row, references)
    order = list(dict.fromkeys((*order, *best)))
    if paths:
        signals = {**signals, "path": [Hit(key, score) for key, score in paths.items()]}
    names = _reasons(signals, {**options.weights, "path": 1.0}, {keys[i] for i in order})
    values: list[float] = scores.tolist()
    beside = matrix.neighbours([i for i in order if keys[i] not in names])
    return [
        Ranked(
            key=keys[i],
            score=values[i],
            reasons=names.get(keys[i])
            or _nearest(i, keys, values, beside[i], references)
            or ("graph",),
        )
        for i in order
        if values[i] > 0
    ]


def _add_paths(
    scores: Scores, row: Mapping[str, int], paths: Mapping[str, float], sharpness: float
) -> None:
    """Adds the scores of path ends. The best score is the share of the question that is used."""
    best = max(paths.values(), default=0.0)
    trust = (1.0 - KEPT) * best**TRUST
    scores *= 1.0 - trust
    for key, score in paths.items():
        scores[row[key]] += trust * (score / best) ** sharpness


def _rows(table: LinkTable, row: dict[str, int]) -> Integers:
    """Returns the edges as rows of nodes; a node without a row gets the next one."""
    return np.array([row.setdefault(key, len(row)) for key in table.keys], dtype=np.int64)[
        table.ends
    ]


def _with_partners(
    order: list[int], keys: Sequence[str], row: Mapping[str, int], references: ReferenceLinks
) -> list[int]:
    """Returns the order with missing partners of the best nodes in the last places."""
    ranked_rows = set(order)
    partners = (
        row[key] for i in order[:NEEDING] for key in references.partners(keys[i]) if key in row
    )
    missing = [i for i in dict.fromkeys(partners) if i not in ranked_rows]
    missing = missing[: len(order) // PARTNER_SHARE]
    return [*order[: len(order) - len(missing)], *missing]


def _order(keys: Sequence[str], scores: Scores, limit: int) -> list[int]:
    """Returns the rows of the best scores, ties in key order."""
    rows = np.arange(len(keys))
    if len(keys) > limit:
        rows = np.flatnonzero(scores >= np.partition(scores, len(keys) - limit)[len(keys) - limit])
    candidates: list[int] = rows.tolist()
    values: list[float] = (-scores[rows]).tolist()
    ordered = sorted(zip(values, [keys[i] for i in candidates], candidates, strict=True))
    return [i for _, _, i in ordered[:limit]]


def _reasons(
    signals: Mapping[str, Sequence[Hit]], weights: Mapping[str, float], wanted: Set[str]
) -> dict[str, tuple[str, ...]]:
    strong: dict[str, list[tuple[float, str]]] = {}
    for name, hits in signals.items():
        best = _best(hits)
        if best <= 0 or weights.get(name, 0.0) <= 0:
            continue
        least = REASON_SHARE * best
        for key, score in hits:
            if score < least:
                break
            if key in wanted:
                strong.setdefault(key, []).append((-score / best, name))
    return {key: tuple(name for _, name in sorted(pairs)) for key, pairs in strong.items()}


def _nearest(
    i: int,
    keys: Sequence[str],
    scores: Sequence[float],
    neighbours: Sequence[tuple[int, float]],
    references: ReferenceLinks,
) -> tuple[str, ...]:
    """Returns the best neighbour as the reason for a node without a reason of its own."""
    if not neighbours:
        return ()
    _, best, weight = min((-scores[j] * weight, keys[j], weight) for j, weight in neighbours)
    if weight == 1:
        return (f"near:{best}",)
    ways = ("refers-to", references.refers_to), ("referred-by", references.referred_by)
    way = next((name for name, by in ways if best in by.get(keys[i], ())), "beside")
    return (f"{way}:{best}",)
