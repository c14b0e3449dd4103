"""MCP over standard input and output, for the person at this computer."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from graphrag.app.wiring import LOCAL_USER
from graphrag.config import Settings
from server.auth import Identity
from server.mcp.mcp_server import Context, McpHandlers, through_mcp
from server.startup import ServerSetup, open_server
from server.workspaces import WorkspaceResolver
from tools.base import Role


async def serve_stdio(settings: Settings, *, role: Role, graph: str | None) -> None:
    """Serves one client until its end of input. `nodius serve` runs automations and deliveries.

    Raises: SettingsError, SourceError.
    """
    alone = settings.model_copy(update={"automations_at_once": 0, "agent_sources": ()})
    async with open_server(ServerSetup.of(alone)) as state:
        local = Identity(
            user_id=LOCAL_USER, role=role, workspaces=(settings.workspace,), username=LOCAL_USER
        )

        async def places(ctx: Context) -> WorkspaceResolver:
            return WorkspaceResolver(state.backend.workspaces, through_mcp(local, ctx))

        server = McpHandlers(places, language=settings.language, default_graph=graph).server()
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
