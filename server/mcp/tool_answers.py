"""Runs the calls of MCP clients, by the same guard as a model's calls: they may only propose."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

import mcp_types as types

from datasources.builtin_types import types_by_name
from graphrag.agent.requested_calls import Requested
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.approvals import Approval
from graphrag.i18n import Language
from graphrag.llm.base import ToolCall
from graphrag.workers import run_limited
from server.approval_documents import approval_document, review_link
from server.channels.mcp_results import (
    failed,
    graph_around,
    list_result,
    proposal_status,
    proposed_result,
    read_result,
    status_result,
    view_document,
)
from server.channels.mcp_tools import (
    GRAPH_KEY,
    LIST_ARGUMENTS,
    LIST_PROPOSALS,
    MAX_LISTED,
    PROPOSAL_STATUS,
    STATUSES,
    WITHOUT_GRAPH,
)
from server.error_responses import error_response, note
from server.workspaces import WorkspaceContext, WorkspaceResolver
from tools.arguments import ARGUMENT_LIMITS, is_deeper
from tools.schema_values import read_by_schema

MAX_AROUND: Final = 60  # nodes


async def proposal_view(
    place: WorkspaceContext, approval: Approval, language: Language
) -> dict[str, Any]:
    """Returns the view of a proposal, for a result's `_meta` under `app_resource.RESULT_META`.

    It does not go into `structuredContent`, which some programs give to their model: it may be
    long. Raises: SourceError.
    """
    source = place.services.source
    people = {approval.asker, approval.decision.by if approval.decision else ""}
    names = await place.workspace.worker.runner.members.names()
    graph = await source.get_graph(approval.graph_key)
    keys = list(dict.fromkeys(_touched(approval.preview)))[:MAX_AROUND]
    near = await source.get_neighborhood(approval.graph_key, keys, max_depth=1, limit=MAX_AROUND)
    types = types_by_name(await source.get_node_configs(sorted({node.type for node in near.nodes})))
    link = review_link(place.services.settings, approval)

    def written() -> dict[str, Any]:
        around = graph_around(graph, near.nodes, near.edges, types.values())
        called = {user: name for user, name in names.items() if user in people}
        return view_document(approval_document(place, approval, language), link, around, called)

    return await run_limited(written)


async def answer_call(
    places: WorkspaceResolver,
    name: str,
    arguments: Mapping[str, Any],
    *,
    default_graph: str | None,
    language: Language,
) -> types.CallToolResult:
    """Returns the result of a call. A refusal is a result, too: the model can correct it."""
    try:
        if is_deeper(arguments, ARGUMENT_LIMITS.depth):
            return failed(
                f"ERROR invalid_arguments\n- nested more than {ARGUMENT_LIMITS.depth} levels deep"
            )
        if name == LIST_PROPOSALS:
            return await _listed(places, read_by_schema(LIST_ARGUMENTS, arguments), language)
        if name == PROPOSAL_STATUS:
            place, approval = await places.of_approval(str(arguments.get("id", ""))[:200])
            return status_result(_status(place, approval, language))
        rest = dict(arguments)
        if name in WITHOUT_GRAPH:
            return await _ran(await places.one(), "", name, rest, language)
        graph_key = rest.pop(GRAPH_KEY, None) or default_graph
        if not isinstance(graph_key, str):
            return failed(f"ERROR invalid_arguments\n- {GRAPH_KEY}: name the graph")
        place = await places.of_graph(graph_key[:200])
        return await _ran(place, place.graph.key, name, rest, language)
    except Exception as exc:  # noqa: BLE001 - whatever it was, a call gets its answer
        note(exc)
        answer = error_response(exc, language)
        return failed(f"ERROR {answer.code}\n- {answer.message}")


async def _ran(
    place: WorkspaceContext,
    graph_key: str,
    name: str,
    arguments: Mapping[str, Any],
    language: Language,
) -> types.CallToolResult:
    services = place.services
    calls = ToolCalls(services.box, services.approvals, log=services.call_log)
    call = ToolCall(id=f"mcp_{secrets.token_hex(12)}", name=name, arguments=json.dumps(arguments))
    made = [
        one
        async for one in calls.run(Requested(calls=[call]), _call_place(place, graph_key, language))
    ]
    (answered,) = made
    if answered.approval is not None:
        return await _proposed(place, answered.approval, language)
    return await run_limited(read_result, answered, calls.limits.result_chars)


def _call_place(place: WorkspaceContext, graph_key: str, language: Language) -> CallPlace:
    person = place.person
    client = person.client.to_document() if person.client else {}
    named = [person.workspace, person.user_id, graph_key, client.get("keyId"), client.get("name")]
    # What one program proposes about a graph may build on what it proposed before.
    thread_id = f"mcp_{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:40]}"
    model = client.get("name") or "mcp"
    return place.services.call_place(
        graph_key, person, language, thread_id=thread_id, turn=0, model=model
    )


async def _proposed(
    place: WorkspaceContext, approval: Approval, language: Language
) -> types.CallToolResult:
    view = await proposal_view(place, approval, language)
    link = review_link(place.services.settings, approval)
    return proposed_result(approval, link, view, language)


async def _listed(
    places: WorkspaceResolver, arguments: Mapping[str, Any], language: Language
) -> types.CallToolResult:
    status = arguments.get("status", "pending")
    limit = arguments.get("limit", 20)
    if status not in STATUSES or not isinstance(limit, int) or not 1 <= limit <= MAX_LISTED:
        allowed = ", ".join(STATUSES)
        return failed(
            f"ERROR invalid_arguments\n- status: one of {allowed}; limit: 1 to {MAX_LISTED}"
        )
    graph = arguments.get(GRAPH_KEY)
    rows: list[dict[str, str]] = []
    for place in await places.all():
        approvals = await place.services.approvals.list(
            graph_key=graph if isinstance(graph, str) else None,
            status=status,
            limit=limit,
            by=place.person,
        )
        rows += [_status(place, one, language) for one in approvals]
    return list_result(rows[:limit], language)


def _status(place: WorkspaceContext, approval: Approval, language: Language) -> dict[str, str]:
    return proposal_status(approval, review_link(place.services.settings, approval), language)


def _touched(preview: dict[str, Any]) -> Iterable[str]:
    """Yields the keys of the stored nodes that a preview names, not of those that it adds."""
    for name in ("nodesChanged", "nodesMoved"):
        yield from (change["key"] for change in preview.get(name, []))
    yield from (node["_key"] for node in preview.get("nodesRemoved", []))
    for name in ("edgesAdded", "edgesRemoved"):
        for edge in preview.get(name, []):
            yield from (edge["source"], edge["target"])
