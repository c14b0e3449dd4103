"""Follows renamed nodes through a merge, so that references by name keep meaning the same node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from datasources.types import Graph, Node
from graphrag.importers.align import GraphContent
from tools.references import NOTE_TYPE, by_name, name_of
from tools.write_tools import node_with_renames


def under_merged_names(content: GraphContent, result: Mapping[str, Node]) -> GraphContent:
    """Returns one of the merged graphs with its references written with the names of the result.

    A text that differs only in such a name is then the same text. The content itself
    where no name differs.
    """
    renames = _renames(content.graph, content.nodes, result)
    if not renames:
        return content
    return replace(content, nodes=_followed(content.nodes, renames))


def following_proposal(
    graph: Graph, result: Mapping[str, Node], wanted: Mapping[str, Node | None]
) -> dict[str, Node]:
    """Returns the nodes that change when a proposal renames the nodes that they refer to, as
    they are then.

    `result` are the nodes that will stand, `wanted` those that are proposed instead, None
    for a deletion.
    """
    proposed = {key: node for key, node in {**result, **wanted}.items() if node is not None}
    renames = _renames(graph, result, proposed)
    followed = _followed(proposed, renames) if renames else {}
    return {key: node for key, node in followed.items() if node is not proposed[key]}


def _renames(graph: Graph, before: Mapping[str, Node], after: Mapping[str, Node]) -> dict[str, str]:
    """Returns the names by which nodes are referred to and that others replace.

    A name that two nodes have replaces none: nobody knows which one it means.
    """
    meant = by_name(graph, before.values())
    new = {name: name_of(after[node.key]) for name, node in meant.items() if node.key in after}
    if all(name == old for old, name in new.items()):
        return {}
    counts = Counter(name_of(node) for node in after.values() if node.type != NOTE_TYPE)
    return {old: name for old, name in new.items() if name not in (None, old) and counts[name] == 1}


def _followed(nodes: Mapping[str, Node], renames: Mapping[str, str]) -> dict[str, Node]:
    return {key: node_with_renames(node, renames) for key, node in nodes.items()}
