"""`refresh_embeddings`: has a run renew the vectors of its graph; the service does it in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tools.base import Tool, ToolArguments, ToolContext, ToolResult
from tools.toon import encode

Renew = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Queues what is missing or outdated of a graph; returns `nodes`, `missing`, `queued` and `model`."""


class RefreshEmbeddings(ToolArguments):
    pass


def refresh_embeddings(renew: Renew) -> Tool[RefreshEmbeddings]:
    """Return the tool; it changes nothing that people see of a graph."""

    async def run(_: RefreshEmbeddings, context: ToolContext) -> ToolResult:
        facts = dict(await renew(context.graph_key))
        done = "made in the background" if facts.get("queued") else "left as they are"
        text = f"{encode(facts)}\nVectors that are missing, or of an older text of their node, are {done}."
        return ToolResult(text=text, data=facts)

    return Tool(
        name="refresh_embeddings",
        description="Has missing and outdated embeddings of the graph renewed; says how many are missing.",
        arguments=RefreshEmbeddings,
        run=run,
        sessions=frozenset({"automation"}),
    )
