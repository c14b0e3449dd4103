"""What endpoints take from a request beside its body: the server's state, the workspaces it is about."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from server.auth import Identity
from server.state import ServerState
from server.workspaces import WorkspaceResolver

Workspace = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        description="One of the caller's workspaces; without it, all of them are looked through.",
    ),
]
GraphKey = Annotated[
    str | None, Query(alias="graphKey", min_length=1, max_length=200, description="Of one graph only.")
]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]


def state_of(request: Request) -> ServerState:
    return request.app.state.server


def places_of(request: Request, who: Identity, workspace: str | None) -> WorkspaceResolver:
    return WorkspaceResolver(state_of(request), who, workspace)
