"""Nodes that a graph has sent with every message, whole: `metadata.alwaysSend`.

They stand after the instructions, in a message that is the same as long as they are, so that a
provider's cache of the beginning holds. It is made at the start of a turn and never stored.
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
    """Return the keys of the nodes that are always sent, each once."""
    found: Any = (graph.metadata or {}).get("alwaysSend")
    keys = cast(list[Any], found) if isinstance(found, list) else []
    return tuple(dict.fromkeys(key for key in keys if isinstance(key, str)))[:MAX_ALWAYS_SENT]


async def write_always_sent(
    source: GraphDataSource, graph: Graph, *, language: Language, budget: int = ALWAYS_TOKENS
) -> SystemMessage | None:
    """Return the message of the nodes that are always sent; None where there are none.

    What the budget does not hold whole is named, to be read by a tool. Units: `budget` in
    tokens (0: none).
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
        said = _whole(node, graph, configs)
        size = count_tokens(said)
        if size > left:
            left_out.append(node.key)
            continue
        left -= size
        parts.append(said)
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
