"""The command `mcp`: the graphs for another agent, over standard input and output."""

from __future__ import annotations

from typing import Annotated

from cli.common import Common, command, option, run_coroutine
from graphrag.logs import configure_logs
from tools.base import Role


@command(json=False)
def mcp(
    common: Common,
    graph: Annotated[str | None, option("--graph", "GRAPH", "The graph where a call names none.")] = None,
    role: Annotated[Role, option("--role", "ROLE", "viewer reads; editor also proposes.")] = "editor",
) -> None:
    """Serve the graphs to an agent that speaks MCP, over standard input and output."""
    from server.mcp.stdio_server import serve_stdio  # slow to import, and the other commands do without

    settings = common.settings()
    configure_logs(settings.log_level, debug=settings.ai_debug)
    run_coroutine(serve_stdio(settings, role=role, graph=graph), settings.language, stopped=None)
