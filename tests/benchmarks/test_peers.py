"""The comparison with peers: its data, its measuring, and what it says of the figures."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.peers import fixtures, report, results
from tests.benchmarks.peers.__main__ import Limits, left_to_do, run
from tests.benchmarks.peers.measure import measure
from tests.benchmarks.peers.peer import Data

HERE = ("this service, hybrid", "this service, vector mode", "NetworkX + NumPy")
"""The peers that need no library but ours."""


@pytest.fixture(scope="module")
def small() -> Data:
    return asyncio.run(fixtures.synthetic_data(60))


def a_row(peer: str, **more: Any) -> dict[str, Any]:
    figures = {
        "search_p50_ms": 1.0,
        "p50_ms": 2.0,
        "p95_ms": 3.0,
        "recall_5": 0.5,
        "recall_10": 0.6,
        "mrr": 0.4,
    }
    costs = {"tokens": 900.0, "memory_mb": 50.0, "load_s": 1.0}
    about = {"peer": peer, "data": "1,000", "nodes": 1000, "asked": 9, "questions": 9}
    return {**about, **figures, **costs, **more}


@pytest.mark.slow
def test_every_question_names_a_node_that_exists_and_has_its_words(small: Data) -> None:
    graph = small.graphs[0]
    texts = {node.key: text for node, text in zip(graph.nodes, graph.texts, strict=True)}
    assert len(small.questions) == 60
    for question in small.questions:
        (key,) = question.relevant
        own = set(question.text.split()) & set(texts[key].split())
        assert len(own) >= fixtures.OWN_WORDS - 1  # a word may be drawn twice, from name and notes


def test_data_written_for_another_process_is_the_same(small: Data, tmp_path: Path) -> None:
    fixtures.save(small, tmp_path / "data")
    read = fixtures.load(tmp_path / "data")
    assert [q.text for q in read.questions] == [q.text for q in small.questions]
    assert np.array_equal(read.graphs[0].content, small.graphs[0].content)


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
async def test_a_peer_is_measured_whole(name: str, small: Data, tmp_path: Path) -> None:
    row = await measure(name, small, tmp_path, limit_s=60)
    assert (row["peer"], row["asked"], row["questions"], row["nodes"]) == (name, 60, 60, 60)
    assert 0 < row["search_p50_ms"] <= row["p50_ms"] <= row["p95_ms"]
    assert 0.3 < row["recall_5"] <= row["recall_10"] <= 1
    assert row["tokens"] > 100


@pytest.mark.slow
async def test_asking_ends_with_the_time_there_is(small: Data, tmp_path: Path) -> None:
    row = await measure("NetworkX + NumPy", small, tmp_path, limit_s=-1)
    assert row["asked"] == 1


def test_a_row_that_was_left_out_takes_the_place_of_none() -> None:
    rows = results.merged([a_row("a", mrr=0.1)], [a_row(peer, failed=results.LEFT_OUT) for peer in "ab"])
    assert [row.get("failed") for row in rows] == [None, results.LEFT_OUT]


def test_the_table_says_who_wins_and_why() -> None:
    ours = a_row(report.OURS)
    fast = a_row("NetworkX + NumPy", p50_ms=0.5, recall_10=0.7)
    slow = a_row("LlamaIndex property graph", p50_ms=40.0, recall_10=0.61, asked=5, tokens=5000.0)
    text = report.tables([ours, fast, slow])
    assert "**1,000 nodes, synthetic**" in text
    assert "| 20× |" in text
    assert "| 0.25× |" in text
    assert "LlamaIndex property graph (5 asked)" in text
    assert "Ahead of ours in time: NetworkX + NumPy. In recall@10: NetworkX + NumPy." in text  # .61 is even
    assert "- NetworkX + NumPy, time: one product of matrix" in text
    assert "- recall@10 on synthetic graphs: a node's name" in text
    assert "tokens:" not in text


@pytest.mark.slow
def test_a_peer_that_takes_too_long_is_given_up_and_the_row_says_after_how_long(small: Data) -> None:
    limits = Limits(ask_s=0.0, load_s=0.01, end=time.monotonic() + 60)
    [row] = run(small, ["NetworkX + NumPy"], limits)
    assert row["failed"] == "given up after 0 s"
    assert 0 <= row["busy"] <= 1


def test_a_run_goes_on_with_what_it_has_no_figures_of(small: Data) -> None:
    rows = [
        a_row("a", data=small.title, run="now"),
        a_row("b", data=small.title, run="before"),
        a_row("c", data=small.title, run="now", failed="given up after 9 s"),
        a_row("d", data="another", run="now"),
    ]
    assert left_to_do(small, ["a", "b", "c", "d"], rows, "now") == ["b", "c", "d"]
    assert results.last_run(rows) == "now"
    assert results.last_run([a_row("a")]) is None
