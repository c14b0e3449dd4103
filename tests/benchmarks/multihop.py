"""Scores retrieval on passages joined by facts; `python -m tests.benchmarks.multihop DIR`.

DIR holds a MuSiQue sample with the triples that a model extracted from it: all its passages become
one graph, in which passages and the entities they mention are nodes. A question needs two to four
passages that seldom share its words, so it shows whether walking the graph pays where the graph is
not a workflow. Only passages are ranked, with the same options as everywhere else.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from datasources.base import MutableGraphDataSource
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.config import load_settings
from graphrag.embed_nodes import embed_nodes
from graphrag.embeddings import EmbeddingProvider
from graphrag.rank import RankOptions
from graphrag.retriever import RetrievalOptions, Retriever
from graphrag.wiring import open_services

GRAPH = "multihop"
PASSAGE, ENTITY = "passage", "entity"
CUTS = (2, 5, 10)
ASKED = 60
"""Passages asked for: enough for the largest cut, and for what entities take of the ranking."""

QUESTIONS = "*questions.json"
TRIPLES = "openie*.json"

DENSE, TEXT, HYBRID = "dense (vectors, all words)", "text (BM25)", "hybrid (default)"

WAYS: Mapping[str, RetrievalOptions] = {
    DENSE: RetrievalOptions(rank=RankOptions(weights={"vector": 1.0}, damping=0.0)),
    TEXT: RetrievalOptions(mode="text", rank=RankOptions(damping=0.0)),
    "fused, not spread": RetrievalOptions(rank=RankOptions(damping=0.0)),
    HYBRID: RetrievalOptions(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text, and the facts a model read in it as (subject, relation, object)."""

    title: str
    text: str
    entities: tuple[str, ...] = ()
    triples: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the numbers of the passages that together answer it."""

    text: str
    gold: tuple[int, ...]


def read_passages(path: Path) -> list[Passage]:
    """Read a file of extracted facts; a fact that has not three parts is left out."""
    documents: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["docs"]
    return [
        Passage(
            title=document["title"],
            text=document["text"],
            entities=tuple(map(str, document["extracted_entities"])),
            triples=tuple(
                (str(fact[0]), str(fact[1]), str(fact[2]))
                for fact in document["extracted_triples"]
                if len(fact) == 3
            ),
        )
        for document in documents
    ]


def read_questions(path: Path) -> list[Question]:
    return [
        Question(text=row["question"], gold=tuple(row["gold_passages"]))
        for row in json.loads(path.read_text(encoding="utf-8"))
    ]


def without_facts(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages alone: what retrieval is worth without a graph."""
    return [replace(passage, entities=(), triples=()) for passage in passages]


def build_graph(passages: Sequence[Passage]) -> Mutation:
    """Return passages and entities as nodes; edges join a passage to what it mentions, and facts."""
    nodes: dict[str, Node] = {}
    edges: dict[str, Edge] = {}
    for number, passage in enumerate(passages):
        here = passage_key(number)
        data = {"name": passage.title, "text": passage.text}
        nodes[here] = Node(key=here, graph_key=GRAPH, type=PASSAGE, data=data)
        for name in _mentioned(passage):
            key = entity_key(name)
            nodes.setdefault(key, Node(key=key, graph_key=GRAPH, type=ENTITY, data={"name": name}))
            _join(edges, here, key, "mentions")
        for subject, relation, target in passage.triples:
            if entity_key(subject) in nodes and entity_key(target) in nodes:
                _join(edges, entity_key(subject), entity_key(target), relation)
    return Mutation(graph_key=GRAPH, put_nodes=list(nodes.values()), put_edges=list(edges.values()))


def _mentioned(passage: Passage) -> Iterable[str]:
    names = (*passage.entities, *(name for fact in passage.triples for name in (fact[0], fact[2])))
    return (name.strip() for name in ((passage.title, *names) if names else ()) if _folded(name))


def _join(edges: dict[str, Edge], source: str, target: str, label: str) -> None:
    if source != target:
        key = hashlib.blake2b(f"{source}\0{target}\0{label}".encode(), digest_size=12).hexdigest()
        edges.setdefault(key, Edge(key=key, graph_key=GRAPH, source=source, target=target, label=label))


def passage_key(number: int) -> str:
    return f"passage-{number:05d}"


def entity_key(name: str) -> str:
    """Return one key for all spellings of a name that differ in case and punctuation alone."""
    return "entity-" + hashlib.blake2b(_folded(name).encode(), digest_size=8).hexdigest()


def _folded(name: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in name.casefold()).split())


async def store(
    source: MutableGraphDataSource, embedder: EmbeddingProvider | None, passages: Sequence[Passage]
) -> Mutation:
    """Store and embed the graph of the passages."""
    mutation = build_graph(passages)
    await source.create_graph(Graph(key=GRAPH, name="Multi-hop", workspace=source.workspace))
    await source.apply(mutation)
    if embedder is not None:
        await embed_nodes(source, embedder, graph_keys=[GRAPH])
    return mutation


async def score(
    retriever: Retriever, questions: Sequence[Question], options: RetrievalOptions
) -> dict[int, float]:
    """Return the mean recall of gold passages among the first 2, 5 and 10 passages."""
    asked = replace(options, max_nodes=ASKED, exclude_types=(ENTITY,))
    rows: list[list[float]] = []
    for question in questions:
        found = await retriever.retrieve(GRAPH, question.text, asked)
        ranking = [scored.node.key for scored in found.nodes]
        gold = {passage_key(number) for number in question.gold}
        rows.append([len(gold & set(ranking[:cut])) / len(gold) for cut in CUTS])
    return dict(zip(CUTS, np.mean(rows, axis=0).tolist(), strict=True))


async def measure(passages: Sequence[Passage], questions: Sequence[Question]) -> dict[str, dict[int, float]]:
    """Return the scores of each way of retrieving."""
    with tempfile.TemporaryDirectory(prefix="nodius-multihop-") as folder:
        settings = load_settings(db=f"sqlite:{folder}/multihop.db", workspace="bench", embeddings="local")
        async with open_services(settings) as services:
            stored = await store(services.source, services.embedder, passages)
            print(
                f"{len(passages):,} passages, {len(stored.put_nodes) - len(passages):,} entities, "
                f"{len(stored.put_edges):,} edges, {len(questions):,} questions",
                file=sys.stderr,
            )
            return {
                name: await score(services.retriever, questions, options) for name, options in WAYS.items()
            }


def only_file(folder: Path, pattern: str) -> Path:
    """Return the one file of a pattern. Raises: SystemExit saying what is missing."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder}: expected one file {pattern}, found {len(found)}")
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help=f"holds {QUESTIONS} and {TRIPLES}")
    folder: Path = parser.parse_args().folder
    passages = read_passages(only_file(folder, TRIPLES))
    questions = read_questions(only_file(folder, QUESTIONS))
    alone = asyncio.run(measure(without_facts(passages), questions))
    results = {f"{name}, passages alone": alone[name] for name in (DENSE, TEXT)}
    results |= asyncio.run(measure(passages, questions))
    print("| retrieval | " + " | ".join(f"recall@{cut}" for cut in CUTS) + " |")
    print("|---|" + "---:|" * len(CUTS))
    for name, recalls in results.items():
        print(f"| {name} | " + " | ".join(f"{recalls[cut]:.3f}" for cut in CUTS) + " |")


if __name__ == "__main__":
    main()
