"""An exact BM25 index of the words of one graph, in memory. Independent of any store.

Postings are stored by term in flat arrays with precomputed weights, so that a search needs only a
few slices and additions. After a change only the words of changed documents are counted again. The
two functions at the top are the formula itself; sources with statistics of their own use them too,
so that all sources compute the same scores.

Source: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasources.hits import Hit

K1 = 1.2
B = 0.75

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
_as_hit: Callable[[tuple[str, float]], Hit] = partial(tuple.__new__, Hit)


def idf(documents: int, containing: NDArray[Any] | int) -> NDArray[np.float64]:
    """Returns the weight of a term that occurs in `containing` of all documents; always > 0."""
    df = np.asarray(containing, dtype=np.float64)
    return np.log1p((documents - df + 0.5) / (df + 0.5))


def saturation(
    counts: NDArray[Any] | float, lengths: NDArray[Any] | float, average_length: float
) -> NDArray[np.float64]:
    """Returns the weight of `counts` occurrences in documents of these lengths, 0 to K1 + 1."""
    tf = np.asarray(counts, dtype=np.float64)
    norm = 1.0 - B + B * np.asarray(lengths, dtype=np.float64) / (average_length or 1.0)
    return tf * (K1 + 1.0) / (tf + K1 * norm)


def score_texts(
    texts: Sequence[Sequence[str]], counts: Mapping[str, int], documents: int, average_length: float
) -> NDArray[np.float64]:
    """Returns the BM25 scores of documents given as words; 0 for a document without any term.

    `counts` is the number of all `documents` with each term. Shapes: float64[len(texts)].
    """
    place = {term: column for column, term in enumerate(counts)}
    cells = [
        row * len(place) + place[w] for row, text in enumerate(texts) for w in text if w in place
    ]
    occurrences = np.bincount(cells, minlength=len(texts) * len(place)).reshape(
        len(texts), len(place)
    )
    lengths = np.array([len(text) for text in texts], dtype=np.float64)
    weights = idf(documents, np.array(list(counts.values())))
    return saturation(occurrences, lengths[:, None], average_length) @ weights


def best_hits(
    keys: Sequence[str], scores: Floats, limit: int, *, candidates: NDArray[np.intp]
) -> list[Hit]:
    """Returns the best of the candidate rows: greatest score first, ties in row order.

    Shapes: `scores` is float32[len(keys)]; `candidates` are ascending row numbers.
    """
    if limit <= 0 or not candidates.size:
        return []
    found_scores = scores[candidates]
    if candidates.size > limit:
        least = np.partition(found_scores, candidates.size - limit)[candidates.size - limit]
        # This may keep more than `limit` rows: ties are cut in row order below.
        kept = found_scores >= least
        candidates = candidates[kept]
        found_scores = found_scores[kept]
    order = np.argsort(-found_scores, kind="stable")[:limit]
    rows: list[int] = candidates[order].tolist()
    values: list[float] = found_scores[order].tolist()
    # Like `Hit(key, value)`, without a Python call for each of some hundred hits.
    return list(map(_as_hit, zip(map(keys.__getitem__, rows), values, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Postings:
    """The words of documents: one (term, row, count) per distinct word of a document, ordered by
    term and then row.

    Shapes: `lengths` is int64[documents], in words; the others are int64[postings].
    """

    terms: NDArray[np.int64]
    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @staticmethod
    def of(documents: Iterable[Sequence[str]], vocabulary: dict[str, int]) -> _Postings:
        """Counts the words of documents and adds them to the vocabulary. Row i is document i."""
        texts = list(documents)
        ids = [
            vocabulary.setdefault(token, len(vocabulary)) for tokens in texts for token in tokens
        ]
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        # One number per (term, row) pair, so that one sort groups postings by term and counts them.
        places = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
        pairs = np.asarray(ids, dtype=np.int64) * max(1, len(texts)) + places
        distinct, counts = np.unique(pairs, return_counts=True)
        terms, rows = np.divmod(distinct, max(1, len(texts)))
        return _Postings(terms=terms, rows=rows, counts=counts, lengths=lengths)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LexicalIndex:
    """BM25 over the words of a graph's nodes. `keys` ascend; a node's row is its position in them.

    Shapes: postings of term t are `rows[starts[t]:starts[t + 1]]` with the same slices of `counts`
    and `weights`; `lengths` is int64[len(keys)].
    """

    keys: list[str]
    vocabulary: dict[str, int]
    starts: list[int]
    rows: Ints
    counts: Ints
    weights: Floats
    lengths: NDArray[np.int64]

    @staticmethod
    def build(documents: Iterable[tuple[str, Sequence[str]]]) -> LexicalIndex:
        """Returns an index of documents given as (key, tokens), in any order.

        Raises: ValueError if a key is given twice.
        """
        ordered = sorted(documents, key=lambda document: document[0])
        keys = [key for key, _ in ordered]
        if len(set(keys)) != len(keys):
            raise ValueError("a key was given twice")
        vocabulary: dict[str, int] = {}
        return LexicalIndex._weighed(
            keys, vocabulary, _Postings.of((tokens for _, tokens in ordered), vocabulary)
        )

    @staticmethod
    def _weighed(keys: list[str], vocabulary: dict[str, int], p: _Postings) -> LexicalIndex:
        containing = np.bincount(p.terms, minlength=len(vocabulary))
        average = float(p.lengths.mean()) if len(keys) else 0.0
        weights = idf(len(keys), containing)[p.terms] * saturation(
            p.counts, p.lengths[p.rows], average
        )
        return LexicalIndex(
            keys=keys,
            vocabulary=vocabulary,
            starts=[0, *np.cumsum(containing).tolist()],
            rows=p.rows.astype(np.int32),
            counts=p.counts.astype(np.int32),
            weights=weights.astype(np.float32),
            lengths=p.lengths,
        )

    def changed(self, documents: Mapping[str, Sequence[str] | None]) -> LexicalIndex:
        """Returns the index with these documents added or replaced; None removes a document.

        The result equals a newly built index, for a fraction of the work.
        """
        put = {key: tokens for key, tokens in documents.items() if tokens is not None}
        keys = sorted({*self.keys, *put} - (documents.keys() - put.keys()))
        place = {key: row for row, key in enumerate(keys)}
        kept = np.array([key not in documents for key in self.keys], dtype=np.bool_)
        moved = np.array([place.get(key, 0) for key in self.keys], dtype=np.int64)
        vocabulary = dict(self.vocabulary)
        new = _Postings.of(put.values(), vocabulary)
        new_rows = np.array([place[key] for key in put], dtype=np.int64)
        lengths = np.zeros(len(keys), dtype=np.int64)
        lengths[moved[kept]] = self.lengths[kept]
        lengths[new_rows] = new.lengths
        stay = kept[self.rows]
        terms = np.concatenate(
            [np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))[stay], new.terms]
        )
        rows = np.concatenate([moved[self.rows[stay]], new_rows[new.rows]])
        counts = np.concatenate([self.counts[stay], new.counts], dtype=np.int64)
        # nearly sorted, so that sorting is fast
        order = np.argsort(terms * max(1, len(keys)) + rows, kind="stable")
        merged = _Postings(
            terms=terms[order], rows=rows[order], counts=counts[order], lengths=lengths
        )
        return LexicalIndex._weighed(keys, vocabulary, merged)

    @property
    def unused(self) -> int:
        """The number of words in the vocabulary that no node contains any more."""
        return len(self.vocabulary) - int(np.count_nonzero(np.diff(self.starts)))

    @property
    def nbytes(self) -> int:
        """An estimate of the bytes in memory, which bounds a cache."""
        words = sum(map(len, self.vocabulary)) + sum(map(len, self.keys))
        arrays = self.rows.nbytes + self.counts.nbytes + self.weights.nbytes + self.lengths.nbytes
        return arrays + words + 120 * (len(self.vocabulary) + len(self.keys))

    def scores(self, terms: Iterable[str]) -> Floats:
        """Returns the BM25 score of each row for the distinct terms; unknown terms add nothing.

        Shapes: float32[len(keys)].
        """
        total = np.zeros(len(self.keys), dtype=np.float32)
        for term in dict.fromkeys(terms):
            number = self.vocabulary.get(term)
            if number is not None:
                low = self.starts[number]
                high = self.starts[number + 1]
                # A row occurs only once in the postings of a term.
                total[self.rows[low:high]] += self.weights[low:high]
        return total

    def search(self, terms: Iterable[str], limit: int) -> list[Hit]:
        """Returns the rows with any of the terms, best first, ties by key."""
        scores = self.scores(terms)
        return best_hits(self.keys, scores, limit, candidates=np.flatnonzero(scores > 0))
