"""REST of the caller: who they are here, and what their conversations used."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request

from graphrag.service_documents import ModelUsage, UsageAnswer, WhoAmI
from graphrag.threads import Thread
from server.auth import Caller
from server.documents import ERRORS
from server.faults import language_of
from server.requests import GraphKey, Workspace, places_of, state_of

router = APIRouter(prefix="/api", tags=["people"], responses=ERRORS)
MAX_THREADS = 10_000


@router.get("/me", response_model=WhoAmI)
async def me(request: Request, who: Caller) -> WhoAmI:
    """Return who the service takes the caller for, and which model answers."""
    provider = await state_of(request).model()
    return WhoAmI(
        user_id=who.user_id,
        username=who.username,
        role=who.role,
        workspaces=list(who.workspaces),
        provider=provider.name,
        model=provider.model,
        offline=provider.name == "offline",
        language=language_of(request),
    )


@router.get("/usage", response_model=UsageAnswer)
async def usage(
    request: Request, who: Caller, workspace: Workspace = None, graph_key: GraphKey = None
) -> UsageAnswer:
    """Return tokens and known cost of the caller's own conversations that are stored."""
    threads: list[Thread] = []
    for place in await places_of(request, who, workspace).all():
        threads += await place.services.threads.list(place.person, graph_key=graph_key, limit=MAX_THREADS)
    return UsageAnswer(
        threads=len(threads),
        prompt_tokens=sum(t.total_prompt_tokens for t in threads),
        completion_tokens=sum(t.total_completion_tokens for t in threads),
        total_tokens=sum(t.total_tokens for t in threads),
        cost=sum(t.total_cost for t in threads),
        models=_by_model(threads),
    )


def _by_model(threads: Sequence[Thread]) -> list[ModelUsage]:
    """Add up by the model that last answered in a conversation."""
    groups: dict[tuple[str, str], list[Thread]] = {}
    for thread in threads:
        groups.setdefault((thread.provider or "", thread.model or ""), []).append(thread)
    return [
        ModelUsage(
            provider=provider,
            model=model,
            threads=len(group),
            prompt_tokens=sum(t.total_prompt_tokens for t in group),
            completion_tokens=sum(t.total_completion_tokens for t in group),
            total_tokens=sum(t.total_tokens for t in group),
            cost=sum(t.total_cost for t in group),
        )
        for (provider, model), group in sorted(groups.items())
    ]
