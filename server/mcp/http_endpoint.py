"""MCP over streamable HTTP at `/mcp`: sign-in, time and number of requests.

Sources: MCP, transports and authorization; RFC 9728 (how clients learn to sign in); RFC 6750.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from server.auth import Identity, bearer_token, sign_in
from server.error_responses import MCP_PATH, METADATA, base_address
from server.server_state import ServerState


class McpEndpoint:
    """ASGI application that identifies the caller and passes the request to the sessions."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        state: ServerState = request.app.state.server
        identity: Identity | None = getattr(request.state, "identity", None)
        identity = identity or await sign_in(request, bearer_token(request))
        access = AccessToken(
            token="",
            client_id=identity.client.key_id or identity.user_id,
            scopes=[],
            subject=identity.user_id,
        )
        scope["user"] = AuthenticatedUser(access)
        sessions = state.activity.mcp_sessions
        if sessions.opens(scope):
            state.limits.messages.spend(identity.user_id)
        await sessions.handle(identity.user_id, scope, receive, send)


router = APIRouter(tags=["mcp"])
router.routes.append(Route(MCP_PATH, endpoint=McpEndpoint(), include_in_schema=False))


@router.get(METADATA, include_in_schema=False)
@router.get(METADATA + MCP_PATH, include_in_schema=False)
async def protected_resource(request: Request) -> JSONResponse:
    """Returns where a client gets a token for `/mcp`. Raises: HTTPException (404) without
    sign-in.
    """
    state: ServerState = request.app.state.server
    settings = state.settings
    if not state.authentication.authenticator.is_configured:
        raise HTTPException(404)
    issuer = settings.oidc.issuer or settings.auth.issuer
    body: dict[str, Any] = {
        "resource": f"{base_address(request)}{MCP_PATH}",
        "resource_name": "Nodius",
        "bearer_methods_supported": ["header"],
    }
    if issuer and issuer.startswith(("https://", "http://")):
        body["authorization_servers"] = [issuer]
    return JSONResponse(body, headers={"Cache-Control": "max-age=300"})
