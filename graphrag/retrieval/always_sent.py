"""Writes the nodes that are sent in full with every message: `metadata.alwaysSend` of a graph.

Their message follows the instructions and changes only when these nodes change, so that the prompt
cache of a provider stays valid. It is written at the start of each turn and never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.text import effective_process
from datasources.types import Graph, Node, NodeTypeConfig
from graphrag.i18n import Language
from graphrag.llm.base import SystemMessage
from graphrag.llm.tokens import count_tokens
from graphrag.prompts.library import load_phrases
from tools.compact import compact_handles
from tools.read_tools.views import node_row
from tools.toon import compact_json, encode

MAX_ALWAYS_SENT = 20
ALWAYS_TOKENS = 8_000


def always_sent_keys(graph: Graph) -> tuple[str, ...]:
    """Returns the keys of the nodes that are always sent, without duplicates."""
    stored: Any = (graph.metadata or {}).get("alwaysSend")
    keys = cast(list[Any], stored) if isinstance(stored, list) else []
    return tuple(dict.fromkeys(key for key in keys if isinstance(key, str)))[:MAX_ALWAYS_SENT]


async def write_always_sent(
    source: GraphDataSource, graph: Graph, *, language: Language, budget: int = ALWAYS_TOKENS
) -> SystemMessage | None:
    """Returns the message with the nodes that are always sent, or None if there are no such nodes.

    Nodes that do not fit into the budget are listed by key, so that the model can read them with a
    tool. Units: `budget` in tokens; 0 turns the message off.
    Raises: SourceError.
    """
    keys = always_sent_keys(graph) if budget else ()
    nodes = await source.get_nodes_by_key(graph.key, keys) if keys else []
    if not nodes:
        return None
    configs = types_by_name(await source.get_node_configs(sorted({node.type for node in nodes})))
    phrases = load_phrases("phrases", language)
    parts = [phrases["always_sent"].render({})]
    left_out = list[str]()
    left = budget
    for node in nodes:
        text = _whole(node, graph, configs)
        size = count_tokens(text)
        if size > left:
            left_out.append(node.key)
            continue
        left -= size
        parts.append(text)
    if left_out:
        parts.append(phrases["always_sent_more"].render({"keys": ", ".join(map(encode, left_out))}))
    return SystemMessage(content="\n\n".join(parts), level=2)


def _whole(node: Node, graph: Graph, configs: Mapping[str, NodeTypeConfig]) -> str:
    shown: dict[str, Any] = {
        **node_row(node, graph),
        "handles": compact_handles(node.handles) or None,
        "data": None if node.data is None else compact_json(node.data),
        "process": effective_process(node, configs.get(node.type)) or None,
    }
    return encode({name: value for name, value in shown.items() if value is not None})
