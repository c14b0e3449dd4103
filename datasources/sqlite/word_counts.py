"""Counts the words of documents: how many documents have each word, and how many words there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Document = tuple[Sequence[str], Sequence[str]]
"""The tokens of a node's name, and those of the rest of its text."""

CHUNK = 5_000
_END = "\x00"
"""Stands between two lists of tokens: no token contains it."""


class _Numbers(dict[str, int]):
    """Numbers words in the order in which they are met."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class WordCounts:
    """Counts in two fields: `name`, and `content` (the name and the rest)."""

    def __init__(self) -> None:
        self._numbers = _Numbers({_END: 0})
        self._content: Counts = np.zeros(1, dtype=np.int64)
        self._name: Counts = np.zeros(1, dtype=np.int64)
        self.content_words = 0
        self.name_words = 0

    def add(self, documents: Iterable[Document], sign: int = 1) -> None:
        """Count documents; `sign` -1 takes them away."""
        rest = iter(documents)
        while chunk := list(islice(rest, CHUNK)):
            self._add(chunk, sign)

    def _add(self, documents: Sequence[Document], sign: int) -> None:
        tokens = chain.from_iterable((*name, _END, *other, _END) for name, other in documents)
        found = np.fromiter(map(self._numbers.__getitem__, tokens), dtype=np.int64)
        size = len(self._numbers)
        ends = found == 0
        part = np.cumsum(ends)[~ends]  # twice the document's place, and one more after its name
        found = found[~ends]
        in_name = part % 2 == 0
        self._content = _grown(self._content, size) + sign * _containing(part >> 1, found, size)
        self._name = _grown(self._name, size) + sign * _containing(part[in_name], found[in_name], size)
        self.content_words += sign * len(found)
        self.name_words += sign * int(np.count_nonzero(in_name))

    def rows(self) -> Iterator[tuple[str, int, int]]:
        """Yield words with the documents that have them: in all of their text, and in their names."""
        rows = zip(self._numbers, self._content.tolist(), self._name.tolist(), strict=True)
        return (row for row in rows if row[1] or row[2])


def _containing(document: Counts, word: Counts, size: int) -> Counts:
    """Return in how many documents each word occurs. Shapes: `document` and `word` are [tokens]."""
    pairs = document * size + word
    pairs.sort()
    first = np.concatenate([pairs[:1] >= 0, pairs[1:] != pairs[:-1]])
    return np.bincount(pairs[first] % size, minlength=size)


def _grown(counts: Counts, size: int) -> Counts:
    return np.pad(counts, (0, size - len(counts)))
