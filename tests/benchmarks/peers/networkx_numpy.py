"""The plain baseline: a NetworkX graph, a NumPy matrix, nearest vectors
and breadth-first neighbours.

Source: what many start with; NetworkX reference, "Breadth First Search";
NumPy reference, `argpartition`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import networkx as nx
import numpy as np

from tests.benchmarks.peers.peer import CONTEXT_NODES, Answer, Data, Question

SEEDS = 10
MAX_DEPTH = 2


@dataclass(frozen=True, slots=True)
class _Loaded:
    graph: Any
    keys: list[str]
    matrix: np.ndarray


class NetworkxNumpy:
    """Seeds by cosine, then their surroundings until the context is full."""

    def __init__(self) -> None:
        self._graphs: dict[str, _Loaded] = {}

    async def load(self, data: Data, folder: Path) -> None:
        for given in data.graphs:
            graph: Any = nx.DiGraph()
            for node, name, text in zip(given.nodes, given.names, given.texts, strict=True):
                graph.add_node(node.key, name=name, text=text)
            graph.add_edges_from((edge.source, edge.target) for edge in given.edges)
            keys = [node.key for node in given.nodes]
            self._graphs[given.key] = _Loaded(graph, keys, np.array(given.content))

    async def ask(self, question: Question) -> Answer:
        loaded = self._graphs[question.graph]
        scores = loaded.matrix @ question.vector  # vectors have length 1
        count = min(SEEDS, len(scores))
        best = np.argpartition(-scores, count - 1)[:count]
        seeds = [loaded.keys[i] for i in best[np.argsort(-scores[best])]]
        keys = _around(loaded.graph, seeds)
        return Answer(found=keys, write=lambda: _text(loaded.graph, keys))

    def ranking(self, question: Question, answer: Answer) -> list[str]:
        return cast("list[str]", answer.found)

    async def aclose(self) -> None:
        self._graphs.clear()


def _text(graph: Any, keys: Sequence[str]) -> str:
    rows = [json.dumps({"key": key, **graph.nodes[key]}) for key in keys]
    return "\n".join([*rows, *(f"{a} -> {b}" for a, b in graph.subgraph(keys).edges)])


def _around(graph: Any, seeds: Sequence[str]) -> list[str]:
    found = dict.fromkeys(seeds)
    queue = deque((key, 0) for key in seeds)
    while queue and len(found) < CONTEXT_NODES:
        key, depth = queue.popleft()
        if depth == MAX_DEPTH:
            continue
        for other in (*graph.successors(key), *graph.predecessors(key)):
            if other not in found and len(found) < CONTEXT_NODES:
                found[other] = None
                queue.append((other, depth + 1))
    return list(found)
