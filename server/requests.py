"""What endpoints share: the base of their bodies, and what they take from a request beside its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from graphrag.answer_body import AnswerBody
from graphrag.i18n import Language
from server.auth import Caller
from server.error_responses import language_of
from server.server_state import ServerState
from server.workspaces import GraphContext, WorkspaceResolver
from tools.base import Role

Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class RequestBody(BaseModel):
    """What a client sends: an unknown key or another type is refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, allow_inf_nan=False
    )


class Success(AnswerBody):
    success: bool = True


def text_query(description: str, *, most: int = 200, **more: Any) -> Any:
    """Return what holds for a text in the query of an address. Units: `most` in characters."""
    return Query(min_length=1, max_length=most, description=description, **more)


GraphKey = Annotated[str | None, text_query("Of one graph only.", alias="graphKey")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]
EXCLUDE_NONE: dict[str, Any] = {"response_model_exclude_none": True}
"""Options of a route whose answer leaves out what is not set."""


def state_of(request: Request) -> ServerState:
    return request.app.state.server


def _workspaces(
    request: Request,
    caller: Caller,
    workspace: Annotated[
        str | None, text_query("One of the caller's workspaces; without it, all of them are looked through.")
    ] = None,
) -> WorkspaceResolver:
    return WorkspaceResolver(state_of(request), caller, workspace)


Workspaces = Annotated[WorkspaceResolver, Depends(_workspaces)]
"""An endpoint's parameter: the caller's workspaces, or the one that the request names."""


def _only_for(role: Role) -> dict[str, Any]:
    """Return options of a route that people of a lesser role may not call: RoleNeeded is raised for them."""

    def check(caller: Caller) -> None:
        caller.require(role)

    return {"dependencies": [Depends(check)]}


EDITORS, REVIEWERS, ADMINS = _only_for("editor"), _only_for("reviewer"), _only_for("admin")


async def _graph(workspaces: Workspaces, graph_key: Id) -> GraphContext:
    return await workspaces.of_graph(graph_key)


NamedGraph = Annotated[GraphContext, Depends(_graph)]
"""An endpoint's parameter: the graph that the path names, and its workspace. Raises: GraphNotFound."""

InLanguage = Annotated[Language, Depends(language_of)]
"""An endpoint's parameter: the language that the client prefers."""


def text_of_parts(content: Any) -> str:
    """Return the text of a message: a text, or parts of which each is one. Raises: ValueError for others."""
    if isinstance(content, str):
        return content
    parts = cast(list[Any], content if isinstance(content, list) else [None])
    texts: list[Any] = [
        cast(Mapping[str, Any], part).get("text") if isinstance(part, Mapping) else None for part in parts
    ]
    if not all(isinstance(one, str) for one in texts):
        raise ValueError("only text is read")
    return "\n".join(texts)
