"""LlamaIndex: SimplePropertyGraphStore, the default vector store, vector-context retriever of
path depth 2.

Source: LlamaIndex documentation, "Using a Property Graph Index", sections "Construction",
"(default) VectorContextRetriever" and "Loading from existing graph";
`PropertyGraphIndex._insert_nodes_to_vector_index` for how an entity gets into the vector store.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from llama_index.core import MockEmbedding, QueryBundle
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import VECTOR_SOURCE_KEY, EntityNode, Relation
from llama_index.core.indices.property_graph import VectorContextRetriever
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery

from tests.benchmarks.peers.peer import Answer, Data, GraphData, Question

SIMILARITY_TOP_K = 10
"""Its default is 4, which could not fill ten places."""

PATH_DEPTH = 2


class _Retriever(VectorContextRetriever):
    """The retriever as it is, but for remembering the triplets that its text is made of."""

    triplets: list[Any]

    def _get_nodes_with_score(self, triplets: Any, scores: Any = None) -> Any:
        self.triplets = list(triplets)
        return super()._get_nodes_with_score(triplets, scores)


class LlamaIndexGraph:
    """A property graph in memory for each graph; nodes are entities with their
    text as a property.
    """

    def __init__(self) -> None:
        self._retrievers: dict[str, _Retriever] = {}
        self._vectors: dict[str, SimpleVectorStore] = {}
        self._keys: dict[str, dict[str, str]] = {}

    async def load(self, data: Data, folder: Path) -> None:
        for graph in data.graphs:
            self._load(graph)

    def _load(self, graph: GraphData) -> None:
        store = SimplePropertyGraphStore()
        vectors = SimpleVectorStore()
        entities = [
            EntityNode(name=name, label=node.type, properties={"text": text})
            for node, name, text in zip(graph.nodes, graph.names, graph.texts, strict=True)
        ]
        store.upsert_nodes(entities)
        ids = {node.key: entity.id for node, entity in zip(graph.nodes, entities, strict=True)}
        store.upsert_relations(
            [
                Relation(
                    label=edge.label or "next",
                    source_id=ids[edge.source],
                    target_id=ids[edge.target],
                )
                for edge in graph.edges
            ]
        )
        vectors.add(
            [
                TextNode(
                    id_=entity.id,
                    text=str(entity),
                    metadata={VECTOR_SOURCE_KEY: entity.id, **entity.properties},
                    embedding=vector.tolist(),
                )
                for entity, vector in zip(entities, graph.content, strict=True)
            ]
        )
        self._keys[graph.key] = {entity: key for key, entity in ids.items()}
        self._vectors[graph.key] = vectors
        self._retrievers[graph.key] = _Retriever(
            store,
            vector_store=vectors,
            embed_model=MockEmbedding(
                embed_dim=graph.content.shape[1]
            ),  # questions bring their vector
            include_text=False,  # no chunks: a node's text is its property
            include_properties=True,
            similarity_top_k=SIMILARITY_TOP_K,
            path_depth=PATH_DEPTH,
        )

    async def ask(self, question: Question) -> Answer:
        retriever = self._retrievers[question.graph]
        retriever.triplets = []
        bundle = QueryBundle(question.text, embedding=question.vector.tolist())
        found = retriever.retrieve(bundle)
        return Answer(
            found=retriever.triplets, write=lambda: "\n".join(hit.get_content() for hit in found)
        )

    def ranking(self, question: Question, answer: Answer) -> list[str]:
        """Return the nodes of the triplets: those nearest by vector first, then as they stand
        in the text.
        """
        triplets = cast("list[tuple[Any, Any, Any]]", answer.found)
        shown = list(
            dict.fromkeys(end.id for triplet in triplets for end in (triplet[0], triplet[2]))
        )
        query = VectorStoreQuery(
            query_embedding=question.vector.tolist(), similarity_top_k=SIMILARITY_TOP_K
        )
        nearest = self._vectors[question.graph].query(query).ids or []
        keys = self._keys[question.graph]
        first: Iterable[str] = (entity for entity in nearest if entity in set(shown))
        return [keys[entity] for entity in dict.fromkeys((*first, *shown))]

    async def aclose(self) -> None:
        self._retrievers.clear()
        self._vectors.clear()
