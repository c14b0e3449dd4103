"""Codes of vectors: what they find is what the vectors themselves would have found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from datasources.sqlite.array_file import read_arrays, write_arrays
from datasources.sqlite.node_table import NodeTable, write_nodes
from datasources.sqlite.vector_codes import PackedHalves, halves_of
from datasources.sqlite.vector_index import VectorIndex
from datasources.types import Vector
from datasources.vectors import normalize

vectors = st.tuples(st.integers(1, 9), st.integers(1, 70)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-1, 1, width=32))
)


def index_of(unit: Vector, path: Path) -> VectorIndex:
    """Return an index of these vectors as it is read from a file."""
    with write_arrays(path) as writer:
        write_nodes(writer, np.arange(len(unit)) + 5, [f"n{i}" for i in range(len(unit))])
    read = read_arrays(path)
    assert read is not None
    halves, scales = halves_of(unit)
    return VectorIndex(
        number=1, nodes=NodeTable.of(read), unit=unit, halves=PackedHalves.of(halves, scales), walk=None
    )


def clustered(count: int, dim: int) -> Vector:
    """Return vectors in groups, as those of real texts are."""
    random = np.random.default_rng(dim)
    centres = random.normal(size=(count // 30, dim))
    return normalize(
        (centres[np.arange(count) % len(centres)] + random.normal(size=(count, dim))).astype(np.float32)
    )


def decoded(halves: NDArray[np.uint8], dim: int) -> NDArray[np.int8]:
    """Return the codes that were put two in a byte."""
    both = np.stack([halves & 15, halves >> 4], axis=2).reshape(len(halves), -1)[:, :dim].astype(np.int8)
    return np.where(both > 7, both - 16, both)


@given(vectors)
def test_a_code_is_near_its_component(found: Vector) -> None:
    halves, scales = halves_of(found)
    peak = np.abs(found).max(axis=1, keepdims=True)
    away = np.abs(decoded(halves, found.shape[1]) * scales[:, None] - found)
    assert np.all(away <= np.maximum(np.abs(found) - 0.8 * peak, 0.8 / 14 * peak) + 1e-6)


@given(vectors)
def test_scores_are_the_products_of_codes(found: Vector) -> None:
    halves, scales = halves_of(found)
    packed = PackedHalves.of(halves, scales)
    assert packed is not None
    codes = decoded(halves, found.shape[1]).astype(np.int64)
    for one, code in zip(found, codes, strict=True):
        np.testing.assert_allclose(packed.scores(one), (codes @ code) * scales, rtol=1e-5)


@pytest.mark.parametrize("dim", [64, 65, 256, 384])
def test_the_nearest_of_ten_thousand_are_among_the_candidates(tmp_path: Path, dim: int) -> None:
    unit = clustered(10_000, dim)
    index = index_of(unit, tmp_path / "index")
    none = np.zeros(0, dtype=np.int64)
    for query in clustered(11_000, dim)[-20:]:
        best = np.argsort(-(unit @ query))[:50]
        assert set(best.tolist()) <= set(index.nearest(query, 182, none).tolist())


def test_what_is_hidden_is_no_candidate(tmp_path: Path) -> None:
    unit = clustered(9_000, 64)
    index = index_of(unit, tmp_path / "index")
    best = np.argsort(-(unit @ unit[7]))[:40]
    for count in (40, 20_000):
        found = index.nearest(unit[7], count, best[:20])
        assert not set(best[:20].tolist()) & set(found.tolist())
        assert set(best[20:].tolist()) <= set(found.tolist()) or count == 40


def test_vectors_of_zeros_and_of_one_component_are_scored() -> None:
    unit = np.zeros((3, 64), dtype=np.float32)
    unit[1, 5] = 1.0
    unit[2, 5] = -1.0
    packed = PackedHalves.of(*halves_of(unit))
    assert packed is not None
    scores = packed.scores(unit[1])
    assert scores[1] > scores[0] == 0 > scores[2]


def test_no_vectors_need_no_codes() -> None:
    assert PackedHalves.of(*halves_of(np.zeros((0, 64), dtype=np.float32))) is None


@given(
    st.lists(st.text(min_size=1).filter(lambda key: key.isprintable()), unique=True, max_size=20), st.data()
)
def test_a_node_table_gives_back_every_key(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("table") / "nodes"
    rids = np.arange(len(keys), dtype=np.int64) * 3 + 7
    with write_arrays(path) as writer:
        write_nodes(writer, rids, keys)
    table = NodeTable.of(read_arrays(path) or {})
    asked = data.draw(st.lists(st.integers(0, 80)))
    rows = table.rows(asked)
    known = [rid for rid in asked if rid in set(rids.tolist())]
    assert table.rids[rows].tolist() == known
    assert table.keys(rows) == [keys[(rid - 7) // 3] for rid in known]
