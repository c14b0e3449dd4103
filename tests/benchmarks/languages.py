"""What the stems of a language are worth: short descriptions of packages, asked of their long ones.

Source of the texts: the translations that `apt-get update` fetches with `-o
Acquire::Languages=de,es,fr`.
Run: `python -m tests.benchmarks.languages FOLDER`, with the folder of
apt's lists (`/var/lib/apt/lists`).
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from datasources.mock import MemoryDatabase
from datasources.text import STEMMERS
from datasources.types import Graph, Mutation, Node
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from tests.benchmarks.synthetic import WORKSPACE

CAT = ("/usr/lib/apt/apt-helper", "cat-file")
QUESTIONS = 1_500
MOST = 100


def read_translations(file: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield the short and the long description of each package."""
    text = subprocess.run([*CAT, str(file)], capture_output=True, check=True).stdout.decode()
    entry = re.compile(rf"^Description-{language}: (.+)\n((?: .*\n?)+)", re.MULTILINE)
    yield from (
        (found[1].strip(), found[2].replace("\n .\n", "\n").strip())
        for found in entry.finditer(text)
    )


async def places(
    rows: Sequence[tuple[str, str]], asked: Sequence[int], language: str | None
) -> list[int]:
    """Return the place at which each question's own node comes, 0 where it is not
    among the best.
    """
    source = MemoryDatabase().source(WORKSPACE)
    graph = Graph(key="packages", name="Packages", workspace=WORKSPACE, language=language)
    nodes = [
        Node(key=f"{i:06}", graph_key=graph.key, type="package", handles={}, data=long)
        for i, (_, long) in enumerate(rows)
    ]
    await source.create_graph(graph, Mutation(graph_key=graph.key, put_nodes=nodes))
    retriever = Retriever(source, None, options=RetrievalOptions(mode="text", max_nodes=MOST))
    found: list[int] = []
    for i in asked:
        keys = [
            scored.node.key for scored in (await retriever.retrieve(graph.key, rows[i][0])).nodes
        ]
        found.append(keys.index(f"{i:06}") + 1 if f"{i:06}" in keys else 0)
    return found


async def main(files: Mapping[str, Path | None]) -> None:
    for language, file in files.items():
        if file is None:
            print(f"{language}: left out, apt has no translations into it there")
            continue
        rows = sorted(set(read_translations(file, language)))
        asked = np.random.default_rng(7).permutation(len(rows))[:QUESTIONS].tolist()
        figures: list[str] = []
        for stems in (None, language):
            at = np.array(await places(rows, asked, stems))
            mrr = np.where(at > 0, 1 / np.maximum(at, 1), 0).mean()
            ten = ((at > 0) & (at <= 10)).mean()
            figures.append(f"stems {stems or 'en'}: recall@10 {ten:.3f}, MRR {mrr:.3f}")
        print(
            f"{language}, {len(rows):,} packages, {len(asked):,} questions: {'; '.join(figures)}",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.benchmarks.languages FOLDER")
    lists = Path(sys.argv[1])
    asyncio.run(main({code: next(lists.glob(f"*Translation-{code}*"), None) for code in STEMMERS}))
