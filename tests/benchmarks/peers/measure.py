"""Measures one peer on one data set in a process of its own; `python -m
tests.benchmarks.peers.measure`.

Prints one JSON object. Asking is timed from a question with its vector to the text for a model;
counting tokens and ranking are not. Memory is the growth of the resident set since the data, which
every peer is given in memory, was read, libraries included.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphrag.evaluation.workflows import CUTS
from graphrag.llm.tokens import count_tokens, tokenizer_name
from tests.benchmarks.peers import fixtures
from tests.benchmarks.peers.peer import Answer, Data, Peer, Question

WARM_UP = 10
HERE = "tests.benchmarks.peers"

PEERS: Mapping[str, tuple[str, str, tuple[Any, ...]]] = {
    "this service, hybrid": ("ours", "Ours", ("hybrid",)),
    "this service, vector mode": ("ours", "Ours", ("vector",)),
    "LlamaIndex property graph": ("llama_index_graph", "LlamaIndexGraph", ()),
    "LightRAG, local mode": ("light_rag", "LightRag", ()),
    "NetworkX + NumPy": ("networkx_numpy", "NetworkxNumpy", ()),
    "Chroma, vectors only": ("chroma", "Chroma", ()),
}
"""Peers by name: module, class, arguments. A module is imported in its own process alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """One question asked. Units: milliseconds until the nodes were found, and until
    the text stood.
    """

    question: Question
    answer: Answer
    text: str
    found_ms: float
    written_ms: float


async def measure(name: str, data: Data, folder: Path, limit_s: float) -> dict[str, Any]:
    """Load a peer, ask it the questions within the time, and return its figures."""
    gc.collect()
    before = _resident()
    module, kind, arguments = PEERS[name]
    make: Callable[..., Peer] = getattr(importlib.import_module(f"{HERE}.{module}"), kind)
    peer = make(*arguments)
    started = time.perf_counter()
    await peer.load(data, folder)
    load_s = time.perf_counter() - started
    asked = await _ask(peer, data.questions, limit_s)
    gc.collect()
    grown = _resident() - before
    counted = _counted(data)
    rows = [
        [
            *CUTS.measures(
                [key for key in peer.ranking(a.question, a.answer) if key in counted],
                set(a.question.relevant),
            ).values()
        ]
        for a in asked
    ]
    await peer.aclose()
    recall5, recall10, mrr = (float(value) for value in np.mean(rows, axis=0))
    timed = asked[WARM_UP:] if len(asked) > 2 * WARM_UP else asked[1:] or asked
    found = [a.found_ms for a in timed]
    written = [a.written_ms for a in timed]
    return {
        "peer": name,
        "data": data.title,
        "nodes": sum(len(graph.nodes) for graph in data.graphs),
        "graphs": len(data.graphs),
        "asked": len(asked),
        "questions": len(data.questions),
        "search_p50_ms": float(np.percentile(found, 50)),
        "p50_ms": float(np.percentile(written, 50)),
        "p95_ms": float(np.percentile(written, 95)),
        "recall_5": recall5,
        "recall_10": recall10,
        "mrr": mrr,
        "tokens": float(np.mean([count_tokens(a.text) for a in asked])),
        "memory_mb": grown / 1e6,
        "load_s": load_s,
        "tokenizer": tokenizer_name(),
    }


async def _ask(peer: Peer, questions: Sequence[Question], limit_s: float) -> list[ScoredQuestion]:
    """Ask until all is asked or the time is over. The first questions warm up;
    their answers count.
    """
    asked: list[ScoredQuestion] = []
    began = time.process_time()  # not of a clock on the wall: others may hold the machine
    for question in questions:
        started = time.perf_counter()
        answer = await peer.ask(question)
        found = time.perf_counter()
        text = answer.write()
        now = time.perf_counter()
        asked.append(
            ScoredQuestion(
                question=question,
                answer=answer,
                text=text,
                found_ms=(found - started) * 1e3,
                written_ms=(now - started) * 1e3,
            )
        )
        if time.process_time() - began > limit_s:
            break
    return asked


def _counted(data: Data) -> set[str]:
    wanted = data.answer_type
    return {
        n.key for graph in data.graphs for n in graph.nodes if wanted is None or n.type == wanted
    }


def _resident() -> int:
    """Return the resident memory of this process. Units: bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, choices=PEERS)
    parser.add_argument("--data", required=True, type=Path, help="a data set that the runner wrote")
    parser.add_argument(
        "--folder", required=True, type=Path, help="where the peer may keep its files"
    )
    parser.add_argument(
        "--limit-seconds",
        type=float,
        default=60.0,
        help="stop asking after so long (of its own time)",
    )
    given = parser.parse_args()
    data = fixtures.load(given.data)
    print(json.dumps(asyncio.run(measure(given.peer, data, given.folder, given.limit_seconds))))


if __name__ == "__main__":
    main()
