"""Shared parts of endpoints: options of their routes, and parameters beside the body."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request

from graphrag.i18n import Language
from server.auth import Caller
from server.bodies import Id
from server.request_language import language_of
from server.server_state import ServerState
from server.workspaces import GraphContext, WorkspaceResolver
from tools.base import Role


def text_query(description: str, *, most: int = 200, **more: Any) -> Any:
    """Returns the rules of a text in the query of an address. Units: `most` in characters."""
    return Query(min_length=1, max_length=most, description=description, **more)


GraphKey = Annotated[str | None, text_query("Of one graph only.", alias="graphKey")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]
# Options of a route whose answer leaves out unset fields.
EXCLUDE_NONE: dict[str, Any] = {"response_model_exclude_none": True}


def state_of(request: Request) -> ServerState:
    return request.app.state.server


def _workspaces(
    request: Request,
    caller: Caller,
    workspace: Annotated[
        str | None,
        text_query("One of the caller's workspaces; without it, all of them are looked through."),
    ] = None,
) -> WorkspaceResolver:
    return WorkspaceResolver(state_of(request).backend.workspaces, caller, workspace)


# Parameter of endpoints: the caller's workspaces, or the one that the request names.
Workspaces = Annotated[WorkspaceResolver, Depends(_workspaces)]


def _only_for(role: Role) -> dict[str, Any]:
    """Returns options of a route for people with at least this role. The route raises
    RoleNeeded.
    """

    def check(caller: Caller) -> None:
        caller.require(role)

    return {"dependencies": [Depends(check)]}


EDITORS = _only_for("editor")
REVIEWERS = _only_for("reviewer")
ADMINS = _only_for("admin")


async def _graph(workspaces: Workspaces, graph_key: Id) -> GraphContext:
    return await workspaces.of_graph(graph_key)


# Parameter of endpoints: the graph that the path names, with its workspace. Raises: GraphNotFound.
NamedGraph = Annotated[GraphContext, Depends(_graph)]

# Parameter of endpoints: the language that the client prefers.
InLanguage = Annotated[Language, Depends(language_of)]
