"""REST of one search field for everything: graphs, nodes of all graphs, one's conversations, proposals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query

from datasources.text import node_label
from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approval, title
from graphrag.i18n import Language
from graphrag.workers import run_limited
from server.openapi_errors import ERRORS
from server.requests import EXCLUDE_NONE, AnswerBody, InLanguage, Workspaces
from server.workspaces import WorkspaceContext

router = APIRouter(prefix="/api", tags=["find"], responses=ERRORS)
MAX_READ: Final = 200
"""So many of the latest conversations, and of the proposals, are looked through."""
ABOUT_CHARS: Final = 120
Kind = Literal["graph", "node", "thread", "proposal"]
_KINDS: Final[tuple[Kind, ...]] = ("graph", "node", "thread", "proposal")


class FindHit(AnswerBody):
    """`graph` is the key of the graph that a node, conversation or proposal is about; `detail` says where the
    words were, or what it belongs to."""

    kind: Kind
    key: str
    label: str
    graph: str | None = None
    detail: str = ""


class Found(AnswerBody):
    hits: list[FindHit]


@router.get("/find", **EXCLUDE_NONE)
async def find(
    workspaces: Workspaces,
    language: InLanguage,
    q: Annotated[str, Query(min_length=1, max_length=200, description="Words; of a node some are enough.")],
    limit: Annotated[int, Query(ge=1, le=50, description="At most so many of each kind.")] = 10,
) -> Found:
    """Find graphs, nodes, own conversations and proposals by name first, then by what they hold."""
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
    source, person = place.services.source, place.person
    graphs, wide, threads, approvals = await asyncio.gather(
        source.list_graphs(),
        source.search_everywhere(q, vector=None, limit=limit),
        place.services.threads.list(person, limit=MAX_READ),
        place.services.approvals.list(limit=MAX_READ, by=person),
    )
    found = [
        FindHit(kind="graph", key=graph.key, label=graph.name, detail=_cut(graph.description or ""))
        for graph in graphs
        if _holds(f"{graph.name} {graph.description or ''}", words)
    ]
    names = [name for name, _ in (*wide.name, *wide.text)]
    for name in [name for name in dict.fromkeys(names) if name in wide.nodes][:limit]:
        one = wide.nodes[name]
        label = node_label(one.node)
        found.append(
            FindHit(kind="node", key=one.node.key, graph=one.graph_key, label=label, detail=one.graph_name)
        )

    def read() -> list[FindHit]:
        said = [hit for thread in threads if (hit := _thread(thread, words))]
        return said + list(_proposals(approvals, words, language))

    return found + await run_limited(read)


def _thread(thread: Thread, words: list[str]) -> FindHit | None:
    """Return a conversation whose title, or one of whose messages, holds the words."""
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
        kind="thread", key=thread.key, graph=thread.graph_key or None, label=thread.title, detail=detail
    )


def _proposals(approvals: Iterable[Approval], words: list[str], language: Language) -> Iterable[FindHit]:
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
