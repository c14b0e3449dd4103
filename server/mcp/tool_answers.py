"""Runs a tool call of an MCP client: by the same guard as a model's calls, and never more than a proposal."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from datasources.errors import SourceError
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.approvals import Approval, outcome_text, title
from graphrag.errors import describe
from graphrag.i18n import Language, text
from graphrag.llm.base import ToolCall
from graphrag.workers import run_limited
from server.mcp.app_resource import RESULT_META
from server.mcp.proposal_view import proposal_view
from server.mcp.tool_list import GRAPH_KEY, LIST_PROPOSALS, PROPOSAL_STATUS, WITHOUT_GRAPH
from server.review_links import review_link
from server.workspaces import WorkspaceContext, WorkspaceResolver
from tools.answer_tables import parse_answer
from tools.base import ToolContext
from tools.compact import cut

MAX_LISTED = 100
_STATUSES = ("pending", "applied", "rejected", "expired", "stale", "failed")


async def answer_call(
    places: WorkspaceResolver,
    name: str,
    arguments: Mapping[str, Any],
    *,
    default_graph: str | None,
    language: Language,
) -> types.CallToolResult:
    """Return what a call gives; what refuses it is a result too, for the model to correct."""
    try:
        if name == LIST_PROPOSALS:
            return await _listed(places, arguments, language)
        if name == PROPOSAL_STATUS:
            place, approval = await places.of_approval(str(arguments.get("id", ""))[:200])
            status = _status(place, approval, language)
            became = status["outcome"] or status["status"]
            return _result(f"{status['title']}: {became}\n{status['link']}", status)
        rest = dict(arguments)
        if name in WITHOUT_GRAPH:
            return await _ran(await places.one(), "", name, rest, language)
        graph_key = rest.pop(GRAPH_KEY, None) or default_graph
        if not isinstance(graph_key, str):
            return failed(f"ERROR invalid_arguments\n- {GRAPH_KEY}: name the graph")
        place, graph = await places.of_graph(graph_key[:200])
        return await _ran(place, graph.key, name, rest, language)
    except Exception as exc:
        known = describe(exc, language)
        if known is None or (isinstance(exc, SourceError) and known.http_status >= 500):
            raise
        return failed(f"ERROR {known.code}\n- {known.message}")


def failed(said: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)], is_error=True)


def _result(said: str, structured: Mapping[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=said)], structured_content=dict(structured)
    )


async def _ran(
    place: WorkspaceContext, graph_key: str, name: str, arguments: Mapping[str, Any], language: Language
) -> types.CallToolResult:
    services = place.services
    calls = ToolCalls(services.box, services.approvals, log=services.call_log)
    call = ToolCall(id=f"mcp_{secrets.token_hex(12)}", name=name, arguments=json.dumps(arguments))
    made = [one async for one in calls.run(Requested(calls=[call]), _call_place(place, graph_key, language))]
    (answered,) = made
    if answered.approval is not None:
        return await _proposed(place, answered.approval, language)
    return await run_limited(_read, answered, calls.limits.result_chars)


def _call_place(place: WorkspaceContext, graph_key: str, language: Language) -> CallPlace:
    services, person = place.services, place.person
    client = person.client.to_document() if person.client else {}
    named = [person.workspace, person.user_id, graph_key, client.get("keyId"), client.get("name")]
    return CallPlace(
        context=ToolContext(
            source=services.source,
            graph_key=graph_key,
            role=person.role,
            language=language,
            search=services.retriever.search,
            search_all=services.search_all,
            history=services.history,
        ),
        person=person,
        # What one program proposes about a graph may build on what it proposed before.
        thread_id=f"mcp_{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:40]}",
        turn=0,
        model=client.get("name") or "mcp",
    )


def _read(answered: Answered, most: int) -> types.CallToolResult:
    """Return what a read gave, as text and as the parts of that text; secrets are masked in both."""
    said = cut(answered.result.text, most)
    if answered.result.is_error:
        return failed(said)
    parts = parse_answer(said)
    tables = {name or "rows": list(rows) for name, rows in parts.tables.items()}
    return _result(said, {"fields": dict(parts.fields), "tables": tables, "notes": list(parts.notes)})


async def _proposed(place: WorkspaceContext, approval: Approval, language: Language) -> types.CallToolResult:
    """Return what was proposed, small; what a view draws of it stands beside, where no model reads it."""
    view = await proposal_view(place, approval, language)
    status = _status(place, approval, language)
    said = text("mcp_proposed", language, title=status["title"], id=approval.id, link=status["link"])
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=said)],
        structured_content={
            **status,
            "outcome": said,
        },  # some programs give their model this in place of the text
        _meta={RESULT_META: view},
    )


async def _listed(
    places: WorkspaceResolver, arguments: Mapping[str, Any], language: Language
) -> types.CallToolResult:
    status, limit = arguments.get("status", "pending"), arguments.get("limit", 20)
    if status not in _STATUSES or not isinstance(limit, int) or not 1 <= limit <= MAX_LISTED:
        allowed = ", ".join(_STATUSES)
        return failed(f"ERROR invalid_arguments\n- status: one of {allowed}; limit: 1 to {MAX_LISTED}")
    graph = arguments.get(GRAPH_KEY)
    rows: list[dict[str, str]] = []
    for place in await places.all():
        found = await place.services.approvals.list(
            graph_key=graph if isinstance(graph, str) else None,
            status=status,
            limit=limit,
            by=place.person,
        )
        rows += [_status(place, one, language) for one in found]
    rows = rows[:limit]
    lines = [f"{row['id']} {row['status']} {row['graphKey']}: {row['title']}" for row in rows]
    return _result("\n".join(lines) or text("mcp_no_proposals", language), {"proposals": rows})


def _status(place: WorkspaceContext, approval: Approval, language: Language) -> dict[str, str]:
    return {
        "id": approval.id,
        "graphKey": approval.graph_key,
        "title": title(approval, language),
        "status": approval.status,
        "outcome": outcome_text(approval, language, to_person=True),
        "link": review_link(place.services.settings, approval),
    }
