"""REST of the keys of programs: those there are, making one, revoking one. For admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field, StringConstraints

from graphrag.app.access_tokens import MAX_NAME
from graphrag.app.api_keys import KEY_DAYS, PROPOSING, ApiKeys
from graphrag.roles import Channel
from server.auth import Caller
from server.errors import KeyNotFound, KeyNotMade
from server.openapi_errors import ERRORS
from server.requests import EXCLUDE_NONE, AnswerBody, Id, RequestBody, state_of
from tools.base import Role

router = APIRouter(prefix="/api/keys", tags=["settings"], responses=ERRORS)
Line = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f]+$")]


class KeyDocument(AnswerBody):
    """What a key allows, never the key: to act as `user` with a role in workspaces, by these `channels`
    (none: by all). Units: times in milliseconds since 1970; `used` is right to a minute."""

    id: str
    name: str
    user: str
    role: Role
    workspaces: list[str]
    channels: list[Channel]
    created: int
    expires: int
    used: int | None = None
    revoked: int | None = None


class KeyList(AnswerBody):
    keys: list[KeyDocument]


class KeyMade(KeyDocument):
    """A new key; `key` is shown this once."""

    key: str


class KeyRequest(RequestBody):
    """A key for the caller, or for somebody else with no more rights than the caller has. By the usual
    `channels` a program reads and proposes; with [] it may do by any what its person may."""

    name: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    user: Line | None = None
    role: Role = "editor"
    workspaces: Annotated[list[Line], Field(min_length=1, max_length=100)] | None = None
    channels: Annotated[list[Channel], Field(max_length=9)] = Field(default_factory=lambda: list(PROPOSING))
    days: Annotated[float, Field(gt=0, le=KEY_DAYS)] = 90.0


def _keys(request: Request) -> ApiKeys:
    keys = state_of(request).authenticator.keys
    if keys is None:
        raise RuntimeError("the server is not started")
    return keys


@router.get("", **EXCLUDE_NONE)
async def listed(request: Request, caller: Caller) -> KeyList:
    """List the keys of the caller's workspaces, newest first; revoked ones too."""
    caller.require("admin")
    theirs = set(caller.workspaces)
    found = [key for key in await _keys(request).list() if set(key.workspaces) <= theirs]
    return KeyList(keys=[KeyDocument.model_validate(key) for key in found])


@router.post("", **EXCLUDE_NONE)
async def make(request: Request, caller: Caller, body: KeyRequest) -> KeyMade:
    """Make a key; its text is in this answer alone."""
    caller.require("admin")
    workspaces = body.workspaces or list(caller.workspaces)
    if not set(workspaces) <= set(caller.workspaces):
        raise KeyNotMade
    try:
        key, text = await _keys(request).create(
            user=body.user or caller.user_id,
            role=body.role,
            workspaces=workspaces,
            name=body.name,
            channels=body.channels,
            days=body.days,
        )
    except ValueError:
        raise KeyNotMade from None
    return KeyMade.model_validate({**key.model_dump(), "key": text})


@router.delete("/{key_id}", **EXCLUDE_NONE)
async def revoke(request: Request, caller: Caller, key_id: Id) -> KeyDocument:
    """Revoke a key: within seconds no server takes it any more."""
    caller.require("admin")
    key = await _keys(request).revoke(key_id, workspaces=caller.workspaces)
    if key is None:
        raise KeyNotFound
    return KeyDocument.model_validate(key)
