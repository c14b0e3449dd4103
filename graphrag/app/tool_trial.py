"""Runs tools as a model would call them. Stores nothing: proposals are only kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from graphrag.agent.requested_calls import Answered, CallLimits, Requested
from graphrag.agent.tool_calls import ToolCalls
from graphrag.app.databases import open_database
from graphrag.app.wiring import Services
from graphrag.approvals import Approvals
from graphrag.llm.base import ToolCall
from graphrag.roles import Person
from tools.base import Tool

SAMPLE_NODES, SAMPLE_LINKS, SAMPLE_KEYS = 50, 1_000, 3  # read of a graph, and named in a call


async def try_calls(
    services: Services, graph: str, person: Person, calls: Sequence[ToolCall]
) -> list[Answered]:
    """Runs calls of tools on a graph and returns their results."""
    workspace = services.settings.workspace
    place = services.call_place(
        graph, person, services.settings.language, thread_id="dry-run", turn=1, model="person"
    )
    async with open_database("memory:", workspace) as database:
        approvals = Approvals(services.source, database.records(workspace))
        running = ToolCalls(services.box, approvals, limits=CallLimits(calls_a_step=len(calls)))
        return [answered async for answered in running.run(Requested(calls=[*calls]), place)]


async def sample_calls(
    services: Services, graph: str, tools: Sequence[Tool[Any]]
) -> list[ToolCall]:
    """Returns one call of each tool, with required arguments taken from the graph."""
    values = await _sample_values(services, graph)
    calls: list[ToolCall] = []
    for tool in tools:
        fields = tool.arguments.model_fields.items()
        required = [name for name, field in fields if field.is_required() and name in values]
        arguments = orjson.dumps({name: values[name] for name in required}).decode()
        calls.append(ToolCall(id=tool.name, name=tool.name, arguments=arguments))
    return calls


async def _sample_values(services: Services, graph: str) -> dict[str, Any]:
    """Returns arguments about the node with the most edges among the first ones."""
    nodes = await services.source.get_nodes(graph, limit=SAMPLE_NODES)
    if not nodes:
        return {}
    keys = [node.key for node in nodes]
    links = await services.source.get_links(graph, keys, limit=SAMPLE_LINKS)
    degree = {key: sum(key in link for link in links) for key in keys}
    best = max(nodes, key=lambda node: (degree[node.key], node.key))
    others = [key for key in keys if key != best.key]
    return {
        "node_key": best.key,
        "node_keys": [best.key, *others][:SAMPLE_KEYS],
        "type_key": best.type,
        "query": best.type,
    }
