"""Reads what the words of a question say: which nodes they name, and for which edge
labels they speak.

A word speaks for the labels that have its stem, else for those of a near meaning. In a
graph with edges that have no label, words of flow (`receives`, `before`) speak for every
edge, in their direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from datasources.hits import Vector
from datasources.text import Word, spelled, stems_among, tokenize
from languages.reading import all_words

MAX_WORDS = 40
MAX_NAME_CHARS = 300
"""A longer name is in no question."""
MAX_STARTS = 10
LEAST = 0.02
"""A word that says less for a relation does not speak for it."""

GATE = 0.5
"""A word speaks for the relations whose cosine is at least this share of its best one."""

DOMAIN = 0.7
"""So much of its nearness to the mean of all labels a word that is about the whole graph loses."""


def _stems(name: str) -> frozenset[str]:
    return frozenset(tokenize(" ".join(all_words("relations", name))))


SHARING = _stems("sharing")
AFTER = _stems("after")
BEFORE = _stems("before")
BOTH = _stems("both")
FLOWS = {True: BOTH | AFTER, False: BOTH | BEFORE}  # by whether they follow an edge to its target
AGENTS = all_words("relations", "agents")
ASKING = {
    stem: _stems(labels)
    for asking, labels in (("asks_time", "time_labels"), ("asks_kind", "kind_labels"))
    for stem in _stems(asking)
}  # words of questions, and the stems of the labels that they ask for
INTERROGATIVES = all_words("relations", "interrogatives")
STOP = all_words("relations", "stop")


class Named(NamedTuple):
    """Nodes that are called alike, and where the question names them: places of words."""

    keys: tuple[str, ...]
    first: int
    end: int


class Relation(NamedTuple):
    """An edge label (empty: none) and whether it is followed from source to target."""

    label: str
    forward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedWords:
    """The words of a question that may say something: their places, what they name, where an agent
    is announced (`by`), and whether it asks by its form.
    """

    words: Sequence[Word]
    places: Sequence[int]
    named: Sequence[Named]
    agents: Sequence[int]
    asks: bool


def read_question(text: str, names: Mapping[str, Iterable[str]]) -> AskedWords:
    """Return what a question says, given the names of nodes that it may name; the
    longest names win.
    """
    said = spelled(text)[:MAX_WORDS]
    stems = [word.stem for word in said]
    known = frozenset(stems)
    spans: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key, called in names.items():
        for name in called:
            if len(name) > MAX_NAME_CHARS:
                continue
            tokens = stems_among(name, known)
            if not STOP.issuperset(tokens) and spans[tokens][-1:] != [key]:
                spans[tokens].append(key)
    taken: set[int] = set()
    found: list[Named] = []
    for tokens, keys in sorted(spans.items(), key=lambda span: (-len(span[0]), span[0])):
        for i in [place for place, stem in enumerate(stems) if stem == tokens[0]]:
            end = i + len(tokens)
            if tuple(stems[i:end]) == tokens and taken.isdisjoint(range(i, end)):
                taken.update(range(i, end))
                found.append(Named(tuple(sorted(keys)[:MAX_STARTS]), i, end))
    kept = [i for i, word in enumerate(said) if i in taken or word.text not in STOP]
    agents = [i for i, word in enumerate(said) if word.text in AGENTS]
    asks = "?" in text or any(word.text in INTERROGATIVES for word in said)
    return AskedWords(
        words=[said[i] for i in kept], places=kept, named=found, agents=agents, asks=asks
    )


def label_text(label: str) -> str:
    """Return a label as it is embedded: `directed_by` and `directedBy` are words."""
    return " ".join(word.text for word in spelled(label))


Strengths = Mapping[Relation, Sequence[float]]
"""How much each word of a question speaks for a relation, from 0 to 1."""


def strengths(asked: AskedWords, labels: Iterable[str], vectors: Mapping[str, Vector]) -> Strengths:
    """Return what the words speak for. `vectors` are those of words and label texts, as far as
    there are any.

    A word with the stem of some label speaks for that one alone, and words for sharing for none but
    theirs. Cosines are taken from the mean of all labels: what they share says nothing. A word near
    to that mean is about the graph, not about a relation: it says `LEAST`.
    """
    known = sorted({label for label in labels if label})
    flows = "" in set(labels)
    found = _of_labels(asked, known, vectors, whole=flows) if known else {}
    if flows:
        for relation in [*found, Relation("", True), Relation("", False)]:
            own = found.get(relation, [0.0] * len(asked.words))
            way = FLOWS[relation.forward]
            found[relation] = [
                max(s, float(w.stem in way)) for s, w in zip(own, asked.words, strict=True)
            ]
    return {relation: row for relation, row in found.items() if max(row, default=0.0) >= LEAST}


def _of_labels(
    asked: AskedWords, known: Sequence[str], vectors: Mapping[str, Vector], *, whole: bool
) -> dict[Relation, Sequence[float]]:
    """Return what the words speak for among labels; `whole`: also those that none speaks for."""
    meant = {word.stem: ASKING.get(word.stem, frozenset[str]()) for word in asked.words}
    sought = frozenset(meant).union(*meant.values())
    having: dict[str, list[int]] = defaultdict(list)
    for column, label in enumerate(known):
        for stem in sought.intersection(tokenize(label)):
            having[stem].append(column)
    table = np.zeros((len(asked.words), len(known)))
    for row, word in zip(table, asked.words, strict=True):
        own = having.get(word.stem, [])
        row[own or [column for stem in meant[word.stem] for column in having.get(stem, ())]] = 1.0
    near = _cosines(asked.words, known, vectors)
    if near is not None:
        sharing = np.array([[word.stem in SHARING] for word in asked.words])
        table = np.where(table.any(axis=1, keepdims=True) | sharing, table, near)
    found: dict[Relation, Sequence[float]] = {}
    for i in range(len(known)) if whole else np.flatnonzero(table.any(axis=0)).tolist():
        row = table[:, i].tolist()
        found.update((Relation(known[i], forward), row) for forward in (True, False))
    return found


def _cosines(
    words: Sequence[Word], labels: Sequence[str], vectors: Mapping[str, Vector]
) -> NDArray[np.float64] | None:
    try:
        rows = np.array([vectors[label_text(label)] for label in labels], dtype=np.float64)
        columns = np.array([vectors[word.text] for word in words], dtype=np.float64)
    except KeyError:
        return None
    if len(labels) < 2 or not len(words):
        return None
    mean = rows.mean(axis=0)
    domain = np.maximum(_unit(columns) @ _unit(mean[None])[0], 0.0)[:, None]
    cosines = np.maximum(_unit(columns - mean) @ _unit(rows - mean).T, 0.0)
    best = np.maximum(cosines.max(axis=1, keepdims=True), 1e-6)
    kept = np.maximum(cosines * (1.0 - np.minimum(DOMAIN * domain / best, 1.0)), LEAST)
    return np.where(cosines >= GATE * best, kept, 0.0) * (cosines > LEAST)


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)
