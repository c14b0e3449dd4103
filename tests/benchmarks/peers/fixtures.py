"""The graphs and questions that every peer is given: synthetic ones of a size, and two real sets.

A synthetic question looks for one node: five words of its text among three more of its topic, so
the answer is known without asking anybody. Its edges mean nothing, so it shows speed and finding by
words and vectors, not what a graph is worth. The real questions are notes that people wrote beside
workflow nodes, and multi-hop questions about passages joined by facts.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from datasources.builtin_types import types_by_name
from datasources.text import node_label
from datasources.types import Edge, Node, NodeTypeConfig
from graphrag.config import load_settings
from graphrag.embedding import make_embedder
from graphrag.embedding.embedder import EmbeddingProvider, content_text, embedding_hash, name_text
from graphrag.evaluation.formats import read_knowledge
from graphrag.evaluation.formats.knowledge_graph import PASSAGE, build_mutation, passage_key
from graphrag.evaluation.workflows import NOTE_TYPE, node_name, read_queries
from graphrag.importers import UnreadableWorkflow, import_workflow
from tests.benchmarks import synthetic
from tests.benchmarks.packages import Packages, package_type
from tests.benchmarks.peers.peer import Data, GraphData, Question

SHOWN_CHARS = 700
"""What our own context shows of a node at most: 500 characters of code and 200 of data."""

QUESTIONS = 400
OWN_WORDS, TOPIC_WORDS = 5, 3
SEED = 7


async def synthetic_data(size: int) -> Data:
    """Return one graph of `size` nodes and three times as many edges."""
    embedder = _embedder()
    vocabulary = synthetic.Vocabulary.make(1)
    nodes = list(synthetic.nodes("big", size, vocabulary, SEED))
    edges = list(synthetic.edges("big", size, SEED))
    graph = await _graph("big", nodes, edges, synthetic.type_configs(), embedder)
    random = np.random.default_rng(11)
    asked: list[tuple[str, str]] = []
    for row in random.choice(size, size=min(QUESTIONS, size), replace=False).tolist():
        words = f"{nodes[row].data['name']} {nodes[row].data['notes']}".split()
        own = random.choice(words, size=OWN_WORDS, replace=False)
        topic = vocabulary.topics[(row // 25) % len(vocabulary.topics)]
        other = [vocabulary.words[i] for i in random.choice(topic, size=TOPIC_WORDS, replace=False)]
        mixed = [*own.tolist(), *other]
        random.shuffle(mixed)
        asked.append((nodes[row].key, " ".join(mixed)))
    vectors = await embedder.embed([text for _, text in asked])
    questions = [
        Question(graph="big", text=text, vector=vector, relevant=frozenset((key,)))
        for (key, text), vector in zip(asked, vectors, strict=True)
    ]
    return Data(title=f"{size:,}", model=embedder.model, graphs=(graph,), questions=questions)


async def real_data(queries_file: Path, workflows: Path) -> Data:
    """Return every workflow that is asked about, without its notes: they are what
    the questions say.
    """
    embedder = _embedder()
    graphs: dict[str, GraphData] = {}
    questions: list[Question] = []
    queries = await asyncio.to_thread(read_queries, queries_file)
    vectors = await embedder.embed([query.query for query in queries])
    for query, vector in zip(queries, vectors, strict=True):
        if query.workflow not in graphs:
            raw = await asyncio.to_thread((workflows / query.workflow).read_bytes)
            try:
                key = f"w{len(graphs)}"
                made = import_workflow(
                    raw, file_name=query.workflow, workspace="bench", graph_key=key
                )
            except UnreadableWorkflow:
                continue
            nodes = [node for node in made.nodes if node.type != NOTE_TYPE]
            graphs[query.workflow] = await _graph(
                key, nodes, list(made.edges), made.configs, embedder
            )
        graph = graphs[query.workflow]
        wanted = set(query.relevant)
        relevant = frozenset(node.key for node in graph.nodes if node_name(node) in wanted)
        if relevant:
            questions.append(
                Question(graph=graph.key, text=query.query, vector=vector, relevant=relevant)
            )
    title = f"{len(graphs)} workflows"
    return Data(
        title=title, model=embedder.model, graphs=list(graphs.values()), questions=questions
    )


async def packages_data(packages: Packages) -> Data:
    """Return the graph of packages; each question is the description of one, or
    of several alike.
    """
    embedder = _embedder()
    nodes = list(packages.nodes("packages"))
    edges = list(packages.edges("packages"))
    graph = await _graph("packages", nodes, edges, (package_type(),), embedder)
    described: dict[str, list[str]] = {}
    for name, fields in packages.found.items():
        described.setdefault(fields.get("Description", ""), []).append(name)
    texts = packages.questions(QUESTIONS, SEED)
    asked = [
        Question(graph=graph.key, text=text, vector=vector, relevant=frozenset(described[text]))
        for text, vector in zip(texts, await embedder.embed(texts), strict=True)
    ]
    title = f"{len(packages):,} packages of Debian"
    return Data(title=title, model=embedder.model, graphs=(graph,), questions=asked)


async def multihop_data(facts: Path, questions: Path) -> Data:
    """Return the graph of OpenIE outputs, and questions that need several of its passages."""
    embedder = _embedder()
    read = await asyncio.to_thread(
        lambda: read_knowledge(
            "openie", facts.read_bytes(), facts.name, questions.read_bytes(), questions.name
        )
    )
    made = build_mutation(read, "facts")
    graph = await _graph("facts", list(made.put_nodes), list(made.put_edges), (), embedder)
    vectors = await embedder.embed([question.text for question in read.questions])
    asked = [
        Question(
            graph="facts",
            text=question.text,
            vector=vector,
            relevant=frozenset(passage_key(identity) for identity in question.passages),
        )
        for question, vector in zip(read.questions, vectors, strict=True)
    ]
    title = f"{len(read.passages):,} passages"
    return Data(
        title=title, model=embedder.model, graphs=(graph,), questions=asked, answer_type=PASSAGE
    )


def save(data: Data, file: Path) -> None:
    """Write a data set for the measuring processes of this run."""
    file.write_bytes(pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL))


def load(file: Path) -> Data:
    """Read what `save` wrote (never a file of anybody else: pickles run code)."""
    data = pickle.loads(file.read_bytes())
    assert isinstance(data, Data)
    return data


def _embedder() -> EmbeddingProvider:
    embedder = make_embedder(load_settings(embeddings="local"))
    assert embedder is not None
    return embedder


async def _graph(
    key: str,
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    configs: Sequence[NodeTypeConfig],
    embedder: EmbeddingProvider,
) -> GraphData:
    types = types_by_name(list(configs))
    there = {node.key for node in nodes}
    texts = [content_text(node, types.get(node.type)) for node in nodes]
    return GraphData(
        key=key,
        nodes=nodes,
        edges=[
            e for e in edges if e.source in there and e.target in there and e.source != e.target
        ],
        configs=configs,
        names=_unique([node_label(node, types.get(node.type)) for node in nodes]),
        texts=[text[:SHOWN_CHARS] for text in texts],
        content=await embedder.embed(texts),
        name_vectors=await embedder.embed(
            [name_text(node, types.get(node.type)) for node in nodes]
        ),
        hashes=[embedding_hash(node, types.get(node.type)) for node in nodes],
    )


def _unique(names: Sequence[str]) -> list[str]:
    """Number names that come twice, also where they differ in case or spaces alone."""
    seen: set[str] = set()
    made: list[str] = []
    for wanted in names:
        name = " ".join(wanted.replace('"', " ").split())
        number = 1
        while name.casefold() in seen:
            number += 1
            name = f"{wanted} #{number}"
        seen.add(name.casefold())
        made.append(name)
    return made
