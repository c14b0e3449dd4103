"""Words and vectors in memory: what is found is exactly what BM25 and cosines, written
out plainly, find.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from datasources.lexical import K1, B, LexicalIndex, best_hits
from datasources.vectors import nearest, normalize

words = st.sampled_from(["fetch", "sort", "filter", "node", "a", "発送", ""])
documents = st.dictionaries(st.text(max_size=3), st.lists(words, max_size=8), max_size=12)
queries = st.lists(words | st.just("unknown"), max_size=6)


def brute_force(documents: Mapping[str, Sequence[str]], query: Sequence[str]) -> dict[str, float]:
    """BM25 as in the book: a sum over the distinct words of the query."""
    average = sum(map(len, documents.values())) / len(documents) if documents else 0
    scores: dict[str, float] = {}
    for key, tokens in documents.items():
        counts = Counter(tokens)
        for term in set(query) & set(tokens):
            df = sum(term in other for other in documents.values())
            weight = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            norm = K1 * (1 - B + B * len(tokens) / average)
            scores[key] = scores.get(key, 0) + weight * counts[term] * (K1 + 1) / (
                counts[term] + norm
            )
    return scores


@given(documents, queries, st.integers(0, 15))
def test_search_equals_brute_force(
    documents: dict[str, list[str]], query: list[str], limit: int
) -> None:
    hits = LexicalIndex.build(documents.items()).search(query, limit)
    expected = brute_force(documents, query)
    assert len(hits) == min(limit, len(expected))
    for hit, best in zip(hits, sorted(expected.values(), reverse=True), strict=False):
        assert hit.score == pytest.approx(expected[hit.key], rel=1e-5)
        assert hit.score == pytest.approx(best, rel=1e-5)


@given(documents, queries, st.randoms())
def test_the_order_of_documents_and_words_does_not_matter(
    documents: dict[str, list[str]], query: list[str], random: Random
) -> None:
    pairs = list(documents.items())
    shuffled = list(query)
    random.shuffle(pairs)
    expected = LexicalIndex.build(documents.items()).search(query, 100)
    found = LexicalIndex.build(pairs).search(query + shuffled, 100)
    assert [hit.key for hit in found] == [hit.key for hit in expected]


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        LexicalIndex.build([("a", ["x"]), ("a", ["y"])])


def test_nothing_is_found_in_nothing() -> None:
    empty = LexicalIndex.build([])
    assert empty.search(["x"], 5) == []
    wordless = LexicalIndex.build([("a", []), ("b", [])])
    assert wordless.search(["x"], 5) == []
    assert LexicalIndex.build([("a", ["x"])]).search([], 5) == []


@given(st.lists(st.floats(0, 4, width=16), max_size=30), st.integers(-1, 40))
def test_best_hits_are_those_of_a_full_stable_sort(values: list[float], limit: int) -> None:
    scores = np.array(values, dtype=np.float32)
    keys = [f"{i:02}" for i in range(len(values))]
    candidates = np.flatnonzero(scores > 1)
    expected = sorted(((keys[i], values[i]) for i in candidates), key=lambda hit: (-hit[1], hit[0]))
    assert best_hits(keys, scores, limit, candidates=candidates) == expected[: max(0, limit)]


changes = st.dictionaries(st.text(max_size=3), st.none() | st.lists(words, max_size=8), max_size=6)


@given(documents, st.lists(changes, max_size=4), queries)
def test_a_changed_index_is_as_one_built_again(
    documents: dict[str, list[str]], edits: list[dict[str, list[str] | None]], query: list[str]
) -> None:
    index = LexicalIndex.build(documents.items())
    for edit in edits:
        before = index.search(query, 100)
        index, old = index.changed(edit), index
        assert old.search(query, 100) == before
        documents = {
            key: tokens for key, tokens in {**documents, **edit}.items() if tokens is not None
        }
    again = LexicalIndex.build(documents.items())
    assert index.keys == again.keys
    assert index.search(query, 100) == again.search(query, 100)
    assert index.search(query, 2) == again.search(query, 2)
    assert index.unused == len(index.vocabulary) - len(again.vocabulary)


DIM = 4
components = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e-3])
matrices = st.integers(0, 12).flatmap(lambda n: arrays(np.float32, (n, DIM), elements=components))
vectors = arrays(np.float32, DIM, elements=components)
any_finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


def keys_for(matrix: np.ndarray) -> list[str]:
    return [f"k{i:02}" for i in range(len(matrix))]


def cosines(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    wide = matrix.astype(float)
    other = vector.astype(float)
    lengths = np.linalg.norm(wide, axis=1) * np.linalg.norm(other)
    return np.divide(wide @ other, lengths, out=np.zeros(len(wide)), where=lengths > 0)


@given(matrices, vectors, st.integers(0, 15), st.sampled_from([-1.0, -0.35, 0.05, 0.45]))
def test_search_of_vectors_equals_brute_force(
    matrix: np.ndarray, vector: np.ndarray, limit: int, min_score: float
) -> None:
    keys = keys_for(matrix)
    hits = nearest(dict(zip(keys, matrix, strict=True)), vector, limit, min_score)
    exact = dict(zip(keys, cosines(matrix, vector).tolist(), strict=True))
    sure = sorted((s for s in exact.values() if s > min_score + 1e-5), reverse=True)
    possible = [s for s in exact.values() if s > min_score - 1e-5]
    assert min(limit, len(sure)) <= len(hits) <= min(limit, len(possible))
    assert len({hit.key for hit in hits}) == len(hits)
    for hit, best in zip(hits, sure, strict=False):
        assert hit.score == pytest.approx(exact[hit.key], abs=1e-5)
        assert hit.score == pytest.approx(best, abs=1e-5)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.key))


@given(arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(0, 6)), elements=any_finite))
def test_normalised_rows_have_length_one_or_zero_and_keep_their_direction(
    matrix: np.ndarray,
) -> None:
    unit = normalize(matrix)
    assert unit.dtype == np.float32
    assert unit.shape == matrix.shape
    for row, original in zip(unit, matrix, strict=True):
        if original.any():
            assert np.linalg.norm(row.astype(float)) == pytest.approx(1.0, abs=1e-5)
            assert (np.sign(row) * np.sign(original) >= 0).all()
        else:
            assert not row.any()


@pytest.mark.parametrize(
    "vector",
    [
        np.ones(DIM + 1, dtype=np.float32),
        np.zeros(0, dtype=np.float32),
        np.ones((1, DIM), dtype=np.float32),
        np.array([1, np.nan, 0, 0], dtype=np.float32),
        np.array([1, np.inf, 0, 0], dtype=np.float32),
    ],
)
def test_a_vector_that_cannot_be_compared_finds_nothing(vector: np.ndarray) -> None:
    assert nearest({"a": np.ones(DIM, dtype=np.float32), "b": None}, vector, 5, -1.0) == []
