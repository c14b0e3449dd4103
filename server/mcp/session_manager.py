"""The sessions of MCP clients over HTTP: made when the server starts, ended when it stops."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from mcp.server.request_state import RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from graphrag.config import Settings
from server.auth import Identity
from server.mcp.mcp_server import Context, McpHandlers, through_mcp
from server.mcp.open_sessions import OpenSessions
from server.open_workspaces import OpenWorkspaces
from server.workspaces import WorkspaceResolver

MAX_SESSIONS: Final = 1_000
IDLE_S: Final = 30 * 60.0


def security_of(settings: Settings) -> RequestStateSecurity:
    """Returns the seal of a call's state for its person; servers with the same secret share it."""
    secret = settings.auth.secret
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
async def running_sessions(
    settings: Settings, workspaces: OpenWorkspaces
) -> AsyncGenerator[OpenSessions]:
    """Runs the sessions of MCP clients until the block ends."""
    ending = asyncio.Event()
    started = asyncio.Event()

    async def places(ctx: Context) -> WorkspaceResolver:
        return WorkspaceResolver(workspaces, through_mcp(_identity(ctx), ctx))

    handlers = McpHandlers(places, language=settings.language, security=security_of(settings))
    manager = StreamableHTTPSessionManager(
        handlers.server(),
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=IDLE_S,
        max_request_body_size=settings.max_body_bytes,
    )

    async def run() -> None:
        # In a task of its own: the package's task group must end in the task where it began.
        async with manager.run():
            started.set()
            await ending.wait()

    task = asyncio.create_task(run())
    await started.wait()
    try:
        yield OpenSessions(manager)
    finally:
        ending.set()
        await asyncio.gather(task, return_exceptions=True)
