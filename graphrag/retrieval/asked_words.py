"""Matches the words of a question with node names and edge labels.

A word matches the labels that contain its stem; if there are none, the labels with a similar
meaning. In a graph that has edges without labels, words of flow (`receives`, `before`) match every
edge in their direction.
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
MAX_NAME_CHARS = 300  # longer names are not looked for in questions
MAX_STARTS = 10  # nodes with the same name
LEAST = 0.02  # smallest strength with which a word matches a relation
GATE = 0.5  # a word matches the relations whose cosine is at least this share of its best cosine

# Share of a word's similarity to the mean of all labels that is subtracted from its cosines. Words
# about the subject of the whole graph are similar to that mean.
DOMAIN = 0.7


def _stems(name: str) -> frozenset[str]:
    return frozenset(tokenize(" ".join(all_words("relations", name))))


SHARING = _stems("sharing")
AFTER = _stems("after")
BEFORE = _stems("before")
BOTH = _stems("both")
FLOWS = {True: BOTH | AFTER, False: BOTH | BEFORE}  # True: from the source to the target
AGENTS = all_words("relations", "agents")
ASKING = {
    stem: _stems(labels)
    for asking, labels in (("asks_time", "time_labels"), ("asks_kind", "kind_labels"))
    for stem in _stems(asking)
}  # stems of question words, with the stems of the labels they ask for
INTERROGATIVES = all_words("relations", "interrogatives")
STOP = all_words("relations", "stop")


class Named(NamedTuple):
    """Nodes with the same name, and the range of words in the question that names them."""

    keys: tuple[str, ...]
    first: int
    end: int


class Relation(NamedTuple):
    """An edge label (empty for edges without a label) and the direction in which it is followed."""

    label: str
    forward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedWords:
    """The words of a question without stop words.

    `places` are the positions of `words` in the question, `agents` the positions of words such as
    `by` that introduce an agent. `asks` is True if the text has the form of a question.
    """

    words: Sequence[Word]
    places: Sequence[int]
    named: Sequence[Named]
    agents: Sequence[int]
    asks: bool


def read_question(text: str, names: Mapping[str, Iterable[str]]) -> AskedWords:
    """Returns the words of a question and the nodes that it names. Longer names are matched first.

    `names` are the names of the candidate nodes by node key.
    """
    words = spelled(text)[:MAX_WORDS]
    stems = [word.stem for word in words]
    question_stems = frozenset(stems)
    spans: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key, node_names in names.items():
        for name in node_names:
            if len(name) > MAX_NAME_CHARS:
                continue
            tokens = stems_among(name, question_stems)
            if not STOP.issuperset(tokens) and spans[tokens][-1:] != [key]:
                spans[tokens].append(key)
    used_places: set[int] = set()
    named: list[Named] = []
    for tokens, keys in sorted(spans.items(), key=lambda span: (-len(span[0]), span[0])):
        for i in [place for place, stem in enumerate(stems) if stem == tokens[0]]:
            end = i + len(tokens)
            if tuple(stems[i:end]) == tokens and used_places.isdisjoint(range(i, end)):
                used_places.update(range(i, end))
                named.append(Named(tuple(sorted(keys)[:MAX_STARTS]), i, end))
    kept = [i for i, word in enumerate(words) if i in used_places or word.text not in STOP]
    agents = [i for i, word in enumerate(words) if word.text in AGENTS]
    asks = "?" in text or any(word.text in INTERROGATIVES for word in words)
    return AskedWords(
        words=[words[i] for i in kept], places=kept, named=named, agents=agents, asks=asks
    )


def label_text(label: str) -> str:
    """Returns the text to embed for a label: `directed_by` and `directedBy` become words."""
    return " ".join(word.text for word in spelled(label))


# For each relation, how well each word of a question matches it, from 0 to 1.
Strengths = Mapping[Relation, Sequence[float]]


def strengths(asked: AskedWords, labels: Iterable[str], vectors: Mapping[str, Vector]) -> Strengths:
    """Returns how well the words of a question match the relations with these labels.

    `vectors` are those of words and label texts; without them only stems are compared. A word whose
    stem is in a label matches no other label by its meaning, and neither do words for sharing. The
    mean of all labels is subtracted before cosines are computed, because it does not tell labels
    apart. A word close to that mean is about the whole graph and gets the strength `LEAST`.
    """
    label_names = sorted({label for label in labels if label})
    flows = "" in set(labels)
    rows = _of_labels(asked, label_names, vectors, whole=flows) if label_names else {}
    if flows:
        for relation in [*rows, Relation("", True), Relation("", False)]:
            own_row = rows.get(relation, [0.0] * len(asked.words))
            flow_stems = FLOWS[relation.forward]
            rows[relation] = [
                max(s, float(w.stem in flow_stems))
                for s, w in zip(own_row, asked.words, strict=True)
            ]
    return {relation: row for relation, row in rows.items() if max(row, default=0.0) >= LEAST}


def _of_labels(
    asked: AskedWords, labels: Sequence[str], vectors: Mapping[str, Vector], *, whole: bool
) -> dict[Relation, Sequence[float]]:
    """Returns the strengths for labels. With `whole`, also for labels that no word matches."""
    asked_labels = {word.stem: ASKING.get(word.stem, frozenset[str]()) for word in asked.words}
    stems = frozenset(asked_labels).union(*asked_labels.values())
    columns_by_stem: dict[str, list[int]] = defaultdict(list)
    for column, label in enumerate(labels):
        for stem in stems.intersection(tokenize(label)):
            columns_by_stem[stem].append(column)
    table = np.zeros((len(asked.words), len(labels)))
    for row, word in zip(table, asked.words, strict=True):
        columns = columns_by_stem.get(word.stem) or [
            column for stem in asked_labels[word.stem] for column in columns_by_stem.get(stem, ())
        ]
        row[columns] = 1.0
    cosines = _cosines(asked.words, labels, vectors)
    if cosines is not None:
        sharing = np.array([[word.stem in SHARING] for word in asked.words])
        table = np.where(table.any(axis=1, keepdims=True) | sharing, table, cosines)
    rows: dict[Relation, Sequence[float]] = {}
    for i in range(len(labels)) if whole else np.flatnonzero(table.any(axis=0)).tolist():
        row = table[:, i].tolist()
        rows.update((Relation(labels[i], forward), row) for forward in (True, False))
    return rows


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
