"""MCP over streamable HTTP at `/mcp`: who calls, for how long, and how many at once.

Sources: MCP, transports and authorization; RFC 9728 (what a client reads of how to sign
in); RFC 6750.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.request_state import RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from graphrag.config import Settings
from server.auth import Identity, bearer_token, sign_in
from server.error_responses import MCP_PATH, METADATA, base_address
from server.mcp.mcp_server import Context, McpHandlers, through_mcp
from server.mcp.open_sessions import OpenSessions
from server.server_state import ServerState
from server.workspaces import WorkspaceResolver

MAX_SESSIONS: Final = 1_000
IDLE_S: Final = 30 * 60.0


def security_of(settings: Settings) -> RequestStateSecurity:
    """Return what seals the state of a call for its person; all servers with one secret read it."""
    secret = settings.auth_secret
    given = b"" if secret is None else secret.get_secret_value().encode()
    key = (
        hashlib.sha256(b"state of MCP calls:" + given).digest()
        if given
        else secrets.token_bytes(32)
    )
    return RequestStateSecurity(keys=[key], bind_principal=_person_of)


def _identity(ctx: Context) -> Identity:
    assert ctx.request is not None, "each comes by HTTP"
    return ctx.request.state.identity


def _person_of(ctx: Context) -> str:
    identity = _identity(ctx)
    return json.dumps([identity.user_id, identity.workspaces, identity.client.key_id])


@asynccontextmanager
async def running_sessions(state: ServerState) -> AsyncGenerator[None]:
    """Run the sessions of a started server until the block ends."""
    ending = asyncio.Event()
    started = asyncio.Event()

    async def places(ctx: Context) -> WorkspaceResolver:
        return WorkspaceResolver(state, through_mcp(_identity(ctx), ctx))

    settings = state.settings
    handlers = McpHandlers(places, language=settings.language, security=security_of(settings))
    manager = StreamableHTTPSessionManager(
        handlers.server(),
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=IDLE_S,
        max_request_body_size=settings.max_body_bytes,
    )

    async def run() -> (
        None
    ):  # in a task of its own: the package's task group must end where it began
        async with manager.run():
            started.set()
            await ending.wait()

    task = asyncio.create_task(run())
    await started.wait()
    state.mcp = OpenSessions(manager)
    try:
        yield
    finally:
        state.mcp = None
        ending.set()
        await asyncio.gather(task, return_exceptions=True)


class McpEndpoint:
    """Signs in who calls, and gives the request to the sessions. An ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        state: ServerState = request.app.state.server
        identity: Identity | None = getattr(request.state, "identity", None)
        identity = identity or await sign_in(request, bearer_token(request))
        if state.mcp is None:
            raise HTTPException(404)
        known = AccessToken(
            token="",
            client_id=identity.client.key_id or identity.user_id,
            scopes=[],
            subject=identity.user_id,
        )
        scope["user"] = AuthenticatedUser(known)
        if state.mcp.opens(scope):
            state.limiter.spend(identity.user_id)
        await state.mcp.handle(identity.user_id, scope, receive, send)


router = APIRouter(tags=["mcp"])
router.routes.append(Route(MCP_PATH, endpoint=McpEndpoint(), include_in_schema=False))


@router.get(METADATA, include_in_schema=False)
@router.get(METADATA + MCP_PATH, include_in_schema=False)
async def protected_resource(request: Request) -> JSONResponse:
    """Return where a client gets a token for `/mcp`. Raises: HTTPException (404) where
    nobody signs in.
    """
    state: ServerState = request.app.state.server
    settings = state.settings
    if not state.authenticator.is_configured:
        raise HTTPException(404)
    issuer = settings.oidc_issuer or settings.auth_issuer
    body: dict[str, Any] = {
        "resource": f"{base_address(request)}{MCP_PATH}",
        "resource_name": "Nodius",
        "bearer_methods_supported": ["header"],
    }
    if issuer and issuer.startswith(("https://", "http://")):
        body["authorization_servers"] = [issuer]
    return JSONResponse(body, headers={"Cache-Control": "max-age=300"})
