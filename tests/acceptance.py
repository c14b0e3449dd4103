"""The tests that hold whatever moves inside: they reach the service as users do.

Their modules import nothing below `graphrag.app`: they speak HTTP, WebSocket, MCP, the command line
or the page, or install what is built. A change of structure leaves them as they are.
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
MODULES = frozenset(
    (
        "cli/test_agents",
        "cli/test_ask",
        "cli/test_codemods",
        "cli/test_connections",
        "cli/test_db",
        "cli/test_demo",
        "cli/test_doctor",
        "cli/test_embed_nodes",
        "cli/test_eval_answers",
        "cli/test_graphs",
        "cli/test_process",
        "cli/test_start",
        "cli/test_tables",
        "deployment/test_dependencies",
        "deployment/test_install",
        "deployment/test_mcp_registry",
        "deployment/test_wheel",
        "e2e/test_accessible",
        "e2e/test_agents",
        "e2e/test_asked",
        "e2e/test_automation_form",
        "e2e/test_canvas",
        "e2e/test_editing",
        "e2e/test_finding",
        "e2e/test_first_minutes",
        "e2e/test_following",
        "e2e/test_ghosts",
        "e2e/test_hostile",
        "e2e/test_importing",
        "e2e/test_key_order",
        "e2e/test_live",
        "e2e/test_markdown",
        "e2e/test_names",
        "e2e/test_proposal_view",
        "e2e/test_review",
        "e2e/test_reviewing",
        "e2e/test_typing",
        "server/mcp/test_conformance",
        "server/mcp/test_open_sessions",
        "server/test_agent_chats",
        "server/test_api_docs",
        "server/test_auth",
        "server/test_connections",
        "server/test_jwks",
        "server/test_pages",
        "server/test_people_names",
        "server/test_questions",
        "server/test_rest_agents",
        "server/test_rest_connections",
        "server/test_sign_in",
        "server/test_ws_sync",
        "server/voice/test_media_stream",
        "server/voice/test_twilio_signature",
    )
)
"""Modules of tests, without `.py`, relative to this folder."""
_IMPORT = re.compile(r"^(?:from|import) ((?:graphrag|tools|datasources)[\w.]*)", re.MULTILINE)
_ALLOWED = re.compile(r"graphrag\.(?:app|client|config|i18n)(?:\.|$)")


def is_acceptance(path: Path) -> bool:
    """Returns whether a module's tests are acceptance tests."""
    return path.with_suffix("").relative_to(TESTS).as_posix() in MODULES


def imports_below_app(path: Path) -> list[str]:
    """Returns the modules below `graphrag.app` that a module imports."""
    imported = _IMPORT.findall(path.read_text(encoding="utf-8"))
    return sorted(name for name in imported if not _ALLOWED.match(name))
