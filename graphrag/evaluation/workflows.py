"""Scores retrieval against annotated questions about workflows: recall, reciprocal rank, tokens per
context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from datasources.base import MutableGraphDataSource
from datasources.errors import BadDocument, GraphExists, InvalidMutation
from datasources.types import Mutation, Node
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.refresh import embed_nodes
from graphrag.evaluation.scoring import Cuts, QueryFileError, ScoredQuestion, Scores, score
from graphrag.importers import ImportResult, UnreadableWorkflow, import_workflow
from graphrag.retrieval.rank import RankOptions
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retrieves

NOTE_TYPE = "note"
CUTS = Cuts(recall=(5, 10))


class AnnotatedQuery(BaseModel):
    """A question, the file of its workflow, and the names of the nodes that answer it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    workflow: str = Field(min_length=1)
    query: str = Field(min_length=1)
    relevant: tuple[str, ...] = Field(min_length=1)


def _weights(**weights: float) -> RankOptions:
    return RankOptions(
        weights={name.replace("_", "-"): weight for name, weight in weights.items()}, damping=0.0
    )


# From single searches to full hybrid retrieval, to show the value of each part.
ABLATION: Mapping[str, RetrievalOptions] = {
    "text (BM25, all words)": RetrievalOptions(mode="text", rank=_weights(text=1)),
    "text (BM25, names)": RetrievalOptions(mode="text", rank=_weights(name=1)),
    "vectors (all words)": RetrievalOptions(rank=_weights(vector=1)),
    "vectors (names)": RetrievalOptions(rank=_weights(name_vector=1)),
    "vector mode": RetrievalOptions(mode="vector"),
    "text, spread over edges": RetrievalOptions(mode="text"),
    "fused, not spread": RetrievalOptions(rank=RankOptions(damping=0.0)),
    "hybrid (default)": RetrievalOptions(),
}


def read_queries(path: Path) -> list[AnnotatedQuery]:
    """Reads a JSON list of {workflow, query, relevant}. Raises: QueryFileError."""
    try:
        queries = TypeAdapter(list[AnnotatedQuery]).validate_json(path.read_bytes())
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise QueryFileError(
            file=str(path), reason=f"{where + ': ' if where else ''}{first['msg']}"
        ) from exc
    except OSError as exc:
        raise QueryFileError(file=str(path), reason=exc.strerror or str(exc)) from exc
    if not queries:
        raise QueryFileError(file=str(path), reason="it contains no question")
    return queries


async def load_workflows(
    source: MutableGraphDataSource,
    embedder: EmbeddingProvider | None,
    queries: Sequence[AnnotatedQuery],
    workflows: Path,
    on_graph: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, str], list[str]]:
    """Imports and embeds every workflow in the questions, without its notes.

    Returns the graph key of each workflow file, and the reasons for skipped ones. The questions
    were written from the notes beside nodes, so notes must not be among the answers.
    """
    graph_keys: dict[str, str] = {}
    left_out: list[str] = []
    for i, name in enumerate(dict.fromkeys(query.workflow for query in queries)):
        try:
            raw = (workflows / name).read_bytes()
            result = import_workflow(
                raw, file_name=name, workspace=source.workspace, graph_key=f"eval-{i}"
            )
            await source.create_graph(result.graph, _without_notes(result))
        except (OSError, UnreadableWorkflow, InvalidMutation, BadDocument, GraphExists) as exc:
            left_out.append(f"{name}: {exc}")
            continue
        graph_keys[name] = result.graph.key
        on_graph(name)
    if embedder is not None and graph_keys:
        await embed_nodes(source, embedder, graph_keys=list(graph_keys.values()))
    return graph_keys, left_out


def _without_notes(result: ImportResult) -> Mutation:
    nodes = {node.key: node for node in result.nodes if node.type != NOTE_TYPE}
    return Mutation(
        graph_key=result.graph.key,
        put_nodes=list(nodes.values()),
        put_edges=[edge for edge in result.edges if edge.source in nodes and edge.target in nodes],
        put_configs=result.configs,
    )


async def evaluate(
    retriever: Retrieves,
    queries: Sequence[AnnotatedQuery],
    graph_keys: Mapping[str, str],
    options: RetrievalOptions,
    *,
    on_question: Callable[[], None] = lambda: None,
) -> Scores:
    """Scores one way of retrieving; nodes are identified by their names in the workflow.

    Raises QueryFileError if no question can be asked.
    """
    if not graph_keys:
        raise QueryFileError(
            file="questions", reason="none of the workflows they name could be imported"
        )
    questions = [
        ScoredQuestion(
            graph_key=graph_keys[query.workflow],
            text=query.query,
            gold=frozenset(query.relevant),
            beside=NOTE_TYPE,
            lost=f"{query.workflow}: no node is called {' or '.join(map(repr, query.relevant))}",
        )
        for query in queries
        if query.workflow in graph_keys
    ]
    nodes = {key: await retriever.source.get_nodes(key) for key in set(graph_keys.values())}
    return await score(
        retriever,
        questions,
        options,
        name_of=node_name,
        existing={key: {node_name(node) for node in of_graph} for key, of_graph in nodes.items()},
        cuts=CUTS,
        with_tokens=True,
        on_question=on_question,
    )


def node_name(node: Node) -> str:
    """Returns the name of a node in its data, otherwise its key."""
    name = (
        cast(Mapping[str, Any], node.data).get("name") if isinstance(node.data, Mapping) else None
    )
    return name if isinstance(name, str) else node.key
