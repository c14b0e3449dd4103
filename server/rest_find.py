"""REST of search: the nodes that a question needs, the best graphs for it, and one search field for
everything (graphs, nodes of all graphs, own conversations, proposals).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query

from datasources.search import SearchRequest
from datasources.text import node_label
from datasources.types import ScoredNode
from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approval, title
from graphrag.i18n import Language
from graphrag.retrieval.context import Context, ContextOptions
from graphrag.retrieval.context_rows import node_row
from graphrag.retrieval.retrieval_result import Retrieval
from graphrag.retrieval.turn_context import context_for
from graphrag.workers import run_limited
from server.bodies import AnswerBody
from server.error_schemas import ERRORS
from server.requests import EXCLUDE_NONE, InLanguage, NamedGraph, Workspaces, text_query
from server.workspaces import WorkspaceContext
from tools.compact import without_empty
from tools.toon import compact_json

router = APIRouter(prefix="/api", responses=ERRORS)
HITS = 5
MAX_DOCUMENTS = 100
MAX_CONTEXT_TOKENS = 20_000


class NodeHit(AnswerBody):
    key: str
    name: str
    type: str
    score: float
    reasons: tuple[str, ...] = ()

    @staticmethod
    def of(hit: ScoredNode) -> NodeHit:
        node = hit.node
        name = node_label(hit.node)
        return NodeHit(
            key=node.key, name=name, type=node.type, score=hit.score, reasons=hit.reasons
        )


class GraphFound(AnswerBody):
    """A graph with its best nodes. Scores are relative to the best node of all graphs."""

    key: str
    name: str
    workspace: str
    score: float
    hits: list[NodeHit]


class GraphsFound(AnswerBody):
    graphs: list[GraphFound]


@router.get("/search", tags=["all graphs"])
async def search(
    workspaces: Workspaces,
    q: Annotated[str, text_query("Words or a question.", most=2_000, pattern=r"\S")],
    limit: Annotated[int, Query(ge=1, le=100, description="At most so many graphs.")] = 10,
) -> GraphsFound:
    """Searches all graphs of the caller's workspaces, by words and meaning. The best graphs are
    first.
    """
    graphs_found: list[GraphFound] = []
    for place in await workspaces.all():
        for graph in await place.services.search_all(q, limit=limit, hits=HITS):
            hits = [NodeHit.of(hit) for hit in graph.hits]
            workspace = place.person.workspace
            score = graph.score
            graphs_found.append(
                GraphFound(
                    key=graph.key, name=graph.name, workspace=workspace, score=score, hits=hits
                )
            )
    graphs_found.sort(key=lambda graph: (-graph.score, graph.key))
    return GraphsFound(graphs=graphs_found[:limit])


class NodeDocument(NodeHit):
    """A node with its content as one line of JSON, secrets masked. `weak`: it barely fits the
    question.
    """

    text: str
    weak: bool


class RetrievalAnswer(AnswerBody):
    """The best nodes first. `context` is what a model would be given for the question: a small
    graph complete, else these nodes and those around them; `tokens`: its size. `notes` name parts
    that were not available.
    """

    documents: list[NodeDocument]
    context: str
    tokens: int
    notes: list[str]


@router.get("/graphs/{graph_key}/retrieval", tags=["graphs"])
async def retrieval(
    place: NamedGraph,
    language: InLanguage,
    q: Annotated[str, text_query("Words or a question.", most=2_000, pattern=r"\S")],
    limit: Annotated[int, Query(ge=1, le=MAX_DOCUMENTS, description="At most so many nodes.")] = 20,
    budget: Annotated[
        int,
        Query(
            ge=0,
            le=MAX_CONTEXT_TOKENS,
            description="The context's length, in tokens; 0: without it.",
        ),
    ] = 4_000,
) -> RetrievalAnswer:
    """Finds the nodes of a graph that a question needs: by words, meaning and edges, without a
    model.
    """
    retriever = place.services.retriever
    options = place.services.context_options
    retrieved = await retriever.retrieve(
        place.graph.key, q, replace(retriever.options, max_nodes=limit)
    )
    shown = replace(options, budget_tokens=budget, language=language)
    context = (
        await context_for(place.services.source, retrieved, shown)
        if budget
        else Context(text="", tokens=0)
    )
    return await run_limited(_answer, retrieved, shown, context)


def _answer(retrieved: Retrieval, options: ContextOptions, context: Context) -> RetrievalAnswer:
    documents: list[NodeDocument] = []
    for scored in retrieved.nodes:
        config = retrieved.configs.get(scored.node.type)
        row = node_row(
            scored,
            config,
            retrieved.graph,
            truncate_process=options.truncate_process,
            truncate_data=options.truncate_data,
        )
        text = compact_json(without_empty({**row, "why": None}))
        hit = NodeHit.of(scored).model_dump()
        documents.append(NodeDocument(**hit, text=text, weak=scored.weak))
    notes = list(retrieved.notes)
    return RetrievalAnswer(
        documents=documents, context=context.text, tokens=context.tokens, notes=notes
    )


MAX_READ: Final = 200  # latest conversations and proposals that are searched
ABOUT_CHARS: Final = 120
Kind = Literal["graph", "node", "thread", "proposal"]
_KINDS: Final[tuple[Kind, ...]] = ("graph", "node", "thread", "proposal")


class FindHit(AnswerBody):
    """`graph` is the key of the graph that a node, conversation or proposal is about; `detail` says
    where the words were, or what it belongs to.
    """

    kind: Kind
    key: str
    label: str
    graph: str | None = None
    detail: str = ""


class Found(AnswerBody):
    hits: list[FindHit]


@router.get("/find", tags=["find"], **EXCLUDE_NONE)
async def find(
    workspaces: Workspaces,
    language: InLanguage,
    q: Annotated[str, text_query("Words; of a node some are enough.")],
    limit: Annotated[int, Query(ge=1, le=50, description="At most so many of each kind.")] = 10,
) -> Found:
    """Finds graphs, nodes, own conversations and proposals by name first, then by content."""
    hits: list[FindHit] = []
    words = q.casefold().split()
    for place in await workspaces.all():
        hits += await _in(place, q, words, language, limit)
    order = sorted(hits, key=lambda hit: (not _holds(hit.label, words), _KINDS.index(hit.kind)))
    left = dict.fromkeys(_KINDS, limit)
    kept: list[FindHit] = []
    for hit in order:
        if left[hit.kind]:
            left[hit.kind] -= 1
            kept.append(hit)
    return Found(hits=kept)


async def _in(
    place: WorkspaceContext, q: str, words: list[str], language: Language, limit: int
) -> list[FindHit]:
    source = place.services.source
    person = place.person
    graphs, wide, threads, approvals = await asyncio.gather(
        source.list_graphs(),
        source.search_everywhere(SearchRequest(query=q, limit=limit)),
        place.services.threads.list(person, limit=MAX_READ),
        place.services.approvals.list(limit=MAX_READ, by=person),
    )
    hits = [
        FindHit(kind="graph", key=graph.key, label=graph.name, detail=_cut(graph.description or ""))
        for graph in graphs
        if _holds(f"{graph.name} {graph.description or ''}", words)
    ]
    names = [name for name, _ in (*wide.name, *wide.text)]
    for name in [name for name in dict.fromkeys(names) if name in wide.nodes][:limit]:
        one = wide.nodes[name]
        label = node_label(one.node)
        hits.append(
            FindHit(
                kind="node",
                key=one.node.key,
                graph=one.graph_key,
                label=label,
                detail=one.graph_name,
            )
        )

    def read() -> list[FindHit]:
        said = [hit for thread in threads if (hit := _thread(thread, words))]
        return said + list(_proposals(approvals, words, language))

    return hits + await run_limited(read)


def _thread(thread: Thread, words: list[str]) -> FindHit | None:
    """Returns a conversation if its title or one of its messages contains the words."""
    texts = [thread.title]
    texts += [
        message["content"]
        for message in thread.conversation_history
        if isinstance(message, dict)
        and message.get("role") in ("user", "assistant")
        and isinstance(message.get("content"), str)
    ]
    held = next((text for text in texts if _holds(text, words)), None)
    if held is None:
        return None
    detail = "" if held is thread.title else _around(held, words[0] if words else "")
    return FindHit(
        kind="thread",
        key=thread.key,
        graph=thread.graph_key or None,
        label=thread.title,
        detail=detail,
    )


def _proposals(
    approvals: Iterable[Approval], words: list[str], language: Language
) -> Iterable[FindHit]:
    for approval in approvals:
        label = title(approval, language)
        if _holds(f"{label} {approval.reason} {approval.asker} {approval.voice_code or ''}", words):
            yield FindHit(
                kind="proposal",
                key=approval.id,
                graph=approval.graph_key,
                label=label,
                detail=_cut(approval.reason),
            )


def _holds(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _around(text: str, word: str) -> str:
    at = max(0, text.casefold().find(word) - ABOUT_CHARS // 3)
    return ("… " if at else "") + _cut(text[at:])


def _cut(text: str) -> str:
    return " ".join(text[: ABOUT_CHARS * 2].split())[:ABOUT_CHARS]
