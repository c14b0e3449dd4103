"""Scores retrieval against annotated questions: recall, reciprocal rank, tokens per context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from datasources.base import GraphDataSource, MutableGraphDataSource
from datasources.errors import BadDocument, GraphExists, InvalidMutation
from datasources.types import Mutation, Node
from graphrag.embedding.base import EmbeddingProvider
from graphrag.embedding.refresh import embed_nodes
from graphrag.importers import ImportResult, UnreadableWorkflow, import_workflow
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.context import ContextOptions, build_context
from graphrag.retrieval.rank import RankOptions
from graphrag.retrieval.retriever import Mode, RetrievalOptions, Retriever

NOTE_TYPE = "note"
RANKED = 60
"""Nodes asked for when a whole ranking is scored (a context holds fewer)."""


class AnnotatedQuery(BaseModel):
    """One question, the file of the workflow it is about, and the names of the nodes that answer it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    workflow: str = Field(min_length=1)
    query: str = Field(min_length=1)
    relevant: tuple[str, ...] = Field(min_length=1)


class QueryFileError(Exception):
    """The file of questions cannot be used; `reason` says what is wrong and where."""

    def __init__(self, *, file: str, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(f"{file}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Means over the questions, each from 0 to 1; `tokens` is the mean size of a context."""

    recall_at_5: float
    recall_at_10: float
    mrr: float
    tokens: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        return {
            "recall@5": round(self.recall_at_5, 4),
            "recall@10": round(self.recall_at_10, 4),
            "mrr": round(self.mrr, 4),
            "tokens_per_context": None if self.tokens is None else round(self.tokens, 1),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The scores, how much they rest on, and what was left out and why."""

    scores: Scores
    queries: int
    graphs: int
    left_out: tuple[str, ...] = ()


def _weights(**used: float) -> RankOptions:
    return RankOptions(weights={name.replace("_", "-"): weight for name, weight in used.items()}, damping=0.0)


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
"""What each part of hybrid retrieval is worth, from one search alone to all of it."""


def options_for(mode: Mode) -> RetrievalOptions:
    """Return the default options of a mode."""
    return RetrievalOptions(mode=mode)


def read_queries(path: Path) -> list[AnnotatedQuery]:
    """Read a JSON list of {workflow, query, relevant}. Raises: QueryFileError."""
    try:
        queries = TypeAdapter(list[AnnotatedQuery]).validate_json(path.read_bytes())
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise QueryFileError(file=str(path), reason=f"{where + ': ' if where else ''}{first['msg']}") from exc
    except OSError as exc:
        raise QueryFileError(file=str(path), reason=exc.strerror or str(exc)) from exc
    if not queries:
        raise QueryFileError(file=str(path), reason="it holds no question")
    return queries


async def load_workflows(
    source: MutableGraphDataSource,
    embedder: EmbeddingProvider | None,
    queries: Sequence[AnnotatedQuery],
    workflows: Path,
    on_graph: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, str], list[str]]:
    """Import and embed every workflow that is asked about, without its notes.

    Returns the graph key of each workflow file, and why some were left out. A note beside nodes
    is what the questions were made of, so it must not be among the answers.
    """
    graph_keys: dict[str, str] = {}
    left_out: list[str] = []
    for i, name in enumerate(dict.fromkeys(query.workflow for query in queries)):
        try:
            raw = (workflows / name).read_bytes()
            result = import_workflow(raw, file_name=name, workspace=source.workspace, graph_key=f"eval-{i}")
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
    retriever: Retriever,
    queries: Sequence[AnnotatedQuery],
    graph_keys: Mapping[str, str],
    options: RetrievalOptions,
    *,
    with_tokens: bool = True,
    on_query: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Score one way of retrieving; a question none of whose gold nodes exists is left out and said.

    A gold node that is missing beside others counts as not found.
    Raises: QueryFileError when no question is left.
    """
    existing = {key: await _names(retriever.source, key) for key in set(graph_keys.values())}
    rows: list[tuple[float, float, float]] = []
    tokens: list[int] = []
    left_out: list[str] = []
    for query in queries:
        on_query()
        if query.workflow not in graph_keys:
            continue
        if existing[graph_keys[query.workflow]].isdisjoint(query.relevant):
            left_out.append(f"{query.workflow}: no node is called {' or '.join(map(repr, query.relevant))}")
            continue
        ranked_options = replace(options, max_nodes=RANKED, exclude_types=(NOTE_TYPE,))
        found = await retriever.retrieve(graph_keys[query.workflow], query.query, ranked_options)
        names = [node_name(scored.node) for scored in found.nodes]
        rows.append(score_ranking(names, query.relevant))
        if with_tokens:
            shown = await retriever.retrieve(graph_keys[query.workflow], query.query, options)
            context = build_context(shown, ContextOptions(), count_tokens)
            tokens.append(context.tokens)
    if not rows:
        reason = "none of the workflows they name could be imported" if not left_out else left_out[0]
        raise QueryFileError(file="questions", reason=reason)
    recall5, recall10, mrr = (float(v) for v in np.mean(rows, axis=0))
    mean_tokens = float(np.mean(tokens)) if tokens else None
    scores = Scores(recall_at_5=recall5, recall_at_10=recall10, mrr=mrr, tokens=mean_tokens)
    return Evaluation(scores=scores, queries=len(rows), graphs=len(graph_keys), left_out=tuple(left_out))


async def _names(source: GraphDataSource, graph_key: str) -> set[str]:
    return {node_name(node) for node in await source.get_nodes(graph_key)}


def node_name(node: Node) -> str:
    """Return the name a node had where it came from, else its key."""
    name = cast(Mapping[str, Any], node.data).get("name") if isinstance(node.data, Mapping) else None
    return name if isinstance(name, str) else node.key


def score_ranking(ranking: Iterable[str], relevant: Iterable[str]) -> tuple[float, float, float]:
    """Return recall@5, recall@10 and the reciprocal rank of the first relevant name."""
    wanted = set(relevant)
    ranked = list(ranking)
    first = next((i for i, name in enumerate(ranked, start=1) if name in wanted), None)
    return (
        len(wanted & set(ranked[:5])) / len(wanted),
        len(wanted & set(ranked[:10])) / len(wanted),
        1.0 / first if first else 0.0,
    )
