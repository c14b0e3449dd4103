"""REST of what a question needs of one graph: the nodes as documents, and the context for a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query

from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.context import Context, ContextOptions, build_context
from graphrag.retrieval.context_rows import node_row
from graphrag.retrieval.retriever import Retrieval
from graphrag.workers import run_limited
from server.openapi_errors import ERRORS
from server.requests import AnswerBody, InLanguage, NamedGraph
from server.rest_workspace import NodeHit
from tools.compact import without_empty
from tools.toon import compact_json

router = APIRouter(prefix="/api/graphs", tags=["graphs"], responses=ERRORS)
MAX_DOCUMENTS = 100
MAX_CONTEXT_TOKENS = 20_000


class NodeDocument(NodeHit):
    """A node with what it holds as one line of JSON, secrets masked. `weak`: it barely fits the question."""

    text: str
    weak: bool


class RetrievalAnswer(AnswerBody):
    """The best nodes first. `context` is what a model would be given of them and the edges between them, in
    TOON; units: `tokens` of it. `notes` name what was not available."""

    documents: list[NodeDocument]
    context: str
    tokens: int
    notes: list[str]


@router.get("/{graph_key}/retrieval")
async def retrieval(
    graph: NamedGraph,
    language: InLanguage,
    q: Annotated[
        str, Query(min_length=1, max_length=2_000, pattern=r"\S", description="Words or a question.")
    ],
    limit: Annotated[int, Query(ge=1, le=MAX_DOCUMENTS, description="At most so many nodes.")] = 20,
    budget: Annotated[
        int, Query(ge=0, le=MAX_CONTEXT_TOKENS, description="The context's length, in tokens; 0: without it.")
    ] = 4_000,
) -> RetrievalAnswer:
    """Find what a question needs of a graph: by words, meaning and edges, without a model."""
    place, found_graph = graph
    retriever, options = place.services.retriever, place.services.context_options
    found = await retriever.retrieve(found_graph.key, q, replace(retriever.options, max_nodes=limit))
    shown = replace(options, budget_tokens=budget, language=language)
    return await run_limited(_answer, found, shown)


def _answer(found: Retrieval, options: ContextOptions) -> RetrievalAnswer:
    context = (
        build_context(found, options, count_tokens) if options.budget_tokens else Context(text="", tokens=0)
    )
    documents: list[NodeDocument] = []
    for scored in found.nodes:
        config = found.configs.get(scored.node.type)
        row = node_row(
            scored,
            config,
            found.graph,
            truncate_process=options.truncate_process,
            truncate_data=options.truncate_data,
        )
        text = compact_json(without_empty({**row, "why": None}))
        hit = NodeHit.of(scored).model_dump()
        documents.append(NodeDocument(**hit, text=text, weak=scored.weak))
    notes = list(found.notes)
    return RetrievalAnswer(documents=documents, context=context.text, tokens=context.tokens, notes=notes)
