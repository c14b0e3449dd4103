"""Updates references by name in a merge that renames nodes, so that they keep their target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from datasources.types import Graph, Node
from graphrag.importers.align import GraphContent
from tools.references import NOTE_TYPE, by_name, name_of
from tools.write_tools import node_with_renames


def under_merged_names(content: GraphContent, result: Mapping[str, Node]) -> GraphContent:
    """Returns one of the merged graphs with its references updated to the node names of the result.

    Texts that differ only in such a name become equal. Returns the content itself if no name
    differs.
    """
    renames = _renames(content.graph, content.nodes, result)
    if not renames:
        return content
    return replace(content, nodes=_followed(content.nodes, renames))


def following_proposal(
    graph: Graph, result: Mapping[str, Node], wanted: Mapping[str, Node | None]
) -> dict[str, Node]:
    """Returns the nodes that change because a proposal renames nodes to which they refer.

    `result` are the nodes of the merged graph, `wanted` the proposed versions of some, None for a
    deletion. The returned nodes have the updated references.
    """
    proposed = {key: node for key, node in {**result, **wanted}.items() if node is not None}
    renames = _renames(graph, result, proposed)
    followed = _followed(proposed, renames) if renames else {}
    return {key: node for key, node in followed.items() if node is not proposed[key]}


def _renames(graph: Graph, before: Mapping[str, Node], after: Mapping[str, Node]) -> dict[str, str]:
    """Returns the new names of referenced nodes, by their old names.

    Omits new names that several nodes have, because a reference to one would be ambiguous.
    """
    referenced = by_name(graph, before.values())
    new = {name: name_of(after[node.key]) for name, node in referenced.items() if node.key in after}
    if all(name == old for old, name in new.items()):
        return {}
    counts = Counter(name_of(node) for node in after.values() if node.type != NOTE_TYPE)
    return {old: name for old, name in new.items() if name not in (None, old) and counts[name] == 1}


def _followed(nodes: Mapping[str, Node], renames: Mapping[str, str]) -> dict[str, Node]:
    return {key: node_with_renames(node, renames) for key, node in nodes.items()}
