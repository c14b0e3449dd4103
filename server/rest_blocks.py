"""REST of blocks: what the blocks of a message say and weigh before it is sent."""

from __future__ import annotations

from fastapi import APIRouter

from graphrag.commands import SentBlock
from server.openapi_errors import ERRORS
from server.requests import AnswerBody, Id, InLanguage, RequestBody, Workspaces

router = APIRouter(prefix="/api/enrichments", tags=["conversations"], responses=ERRORS)


class PreviewRequest(RequestBody):
    """The blocks of a message about a graph."""

    graph_key: Id
    blocks: list[SentBlock]


class BlockSummary(AnswerBody):
    """A block in one line. Units: `tokens` of what it finds now, by itself."""

    id: str
    summary: str
    tokens: int


class PreviewAnswer(AnswerBody):
    """`budget`: what the blocks of a message find together is cut to so many tokens."""

    blocks: list[BlockSummary]
    budget: int


@router.post("/preview")
async def preview(workspaces: Workspaces, language: InLanguage, body: PreviewRequest) -> PreviewAnswer:
    """Say what the blocks of a message are about, and how many tokens they find. Nothing is stored."""
    place, graph = await workspaces.of_graph(body.graph_key)
    blocks = place.agent.blocks
    found = await blocks.preview(graph.key, body.blocks, place.person.role, language)
    made = [BlockSummary.model_validate(one) for one in found]
    return PreviewAnswer(blocks=made, budget=blocks.budget)
