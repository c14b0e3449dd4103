"""Prompts that MCP clients offer to people: ask about a graph, review what waits, explain a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

MAX_ARGUMENT: Final = 2_000
_GRAPH: Final = ("graphKey", "Key of the graph.")
_PROMPTS: Final[Mapping[str, tuple[str, tuple[tuple[str, str], ...], str]]] = {
    "ask": (
        "Ask about a graph.",
        (_GRAPH, ("question", "What you want to know.")),
        "Answer this about the workflow graph {graphKey}: {question}\n"
        "Read the resource nodius://graph/{graphKey} first, then use the tools. Name the nodes you rest on.",
    ),
    "review": (
        "Go through the proposals of a graph that wait for a decision.",
        (_GRAPH,),
        "Call list_proposals for the graph {graphKey}. For each say what it changes, what it may break, and "
        "give its link: only a person decides it.",
    ),
    "explain": (
        "Explain a node and what depends on it.",
        (_GRAPH, ("nodeKey", "Key of the node.")),
        "Explain the node {nodeKey} of the workflow graph {graphKey} to somebody who edits it: what it does, "
        "what comes before and after, what happens when it fails. Use read_node_detail.",
    ),
}


def listed_prompts() -> list[types.Prompt]:
    return [
        types.Prompt(
            name=name,
            description=said,
            arguments=[
                types.PromptArgument(name=each, description=what, required=True) for each, what in given
            ],
        )
        for name, (said, given, _) in _PROMPTS.items()
    ]


def prompt(name: str, arguments: Mapping[str, str] | None) -> types.GetPromptResult:
    """Return a prompt with its arguments put in. Raises: MCPError (unknown, or an argument is missing)."""
    found = _PROMPTS.get(name)
    if found is None:
        raise MCPError(code=types.INVALID_PARAMS, message=f"no such prompt; there are {', '.join(_PROMPTS)}")
    said, given, body = found
    values = {each: " ".join((arguments or {}).get(each, "").split())[:MAX_ARGUMENT] for each, _ in given}
    if missing := [each for each, value in values.items() if not value]:
        raise MCPError(code=types.INVALID_PARAMS, message=f"missing argument: {', '.join(missing)}")
    content = types.TextContent(type="text", text=body.format(**values))
    return types.GetPromptResult(
        description=said, messages=[types.PromptMessage(role="user", content=content)]
    )
