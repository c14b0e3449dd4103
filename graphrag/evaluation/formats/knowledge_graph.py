"""The graph of some knowledge: passages and entities are nodes, mentions and facts are edges."""

from __future__ import annotations

import hashlib

from datasources.types import Edge, Mutation, Node
from graphrag.evaluation.formats.shapes import Knowledge

PASSAGE, ENTITY = "passage", "entity"
MENTIONS = "mentions"


def build_mutation(knowledge: Knowledge, graph_key: str) -> Mutation:
    """Return the nodes and edges; equal facts are one edge, a fact about itself is none."""
    nodes: dict[str, Node] = {}
    edges: dict[str, Edge] = {}

    def entity(name: str, text: str = "") -> str:
        key = entity_key(name)
        if key not in nodes:
            data = {"name": name, "text": text} if text else {"name": name}
            nodes[key] = Node(key=key, graph_key=graph_key, type=ENTITY, data=data)
        return key

    def join(source: str, target: str, label: str) -> None:
        if source != target:
            key = _digest(source, target, label)
            edges[key] = Edge(key=key, graph_key=graph_key, source=source, target=target, label=label)

    for passage in knowledge.passages:
        key = passage_key(passage.id)
        data = {"name": passage.title, "text": passage.text}
        nodes[key] = Node(key=key, graph_key=graph_key, type=PASSAGE, data=data)
    for told in knowledge.entities:
        entity(told.name, told.text)
    for passage in knowledge.passages:
        for name in passage.mentions:
            join(passage_key(passage.id), entity(name), MENTIONS)
    for fact in knowledge.facts:
        join(entity(fact.subject), entity(fact.object), fact.relation)
    return Mutation(graph_key=graph_key, put_nodes=list(nodes.values()), put_edges=list(edges.values()))


def passage_key(identity: str) -> str:
    return f"{PASSAGE}-{_digest(identity)}"


def entity_key(name: str) -> str:
    return f"{ENTITY}-{_digest(name)}"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
