"""Finds the graph that was exported to a file, when the file or the workflow has a new name and so
a new derived key.

Decision: no mark is written into a file for this, because n8n's API refuses `meta` and every field
that it does not know. Tools keep the id of a workflow or tab and the ids of nodes; the ids written
for nodes that were made here are derived from the key of their graph. The id of a workflow alone
proves nothing, because servers number their workflows.
"""

from __future__ import annotations

from collections.abc import Sequence

from datasources.base import MutableGraphDataSource
from datasources.types import Graph, Node
from graphrag.importers.align import origin_of
from graphrag.importers.assemble import ORIGIN
from graphrag.importers.dispatch import FORMATS
from graphrag.importers.json_values import as_dict
from graphrag.importers.node_red.flow_nodes import CONFIG_SHEET
from graphrag.importers.readable_keys import slug
from graphrag.importers.workflow_format import FileWriter, ImportResult


async def returning_graph(source: MutableGraphDataSource, result: ImportResult) -> str | None:
    """Returns the key of the graph that the file was exported from.

    None if there is no such graph, or several candidates.
    """
    writer = next((form.writer for form in FORMATS if form.name == result.report.format), None)
    if writer is None:
        return None
    ids = _ids(result.nodes)
    candidates: list[Graph] = []
    for graph in await source.list_graphs():
        if _is_candidate(graph, result.graph) and ids:
            nodes = await source.get_nodes(graph.key)
            if _shares_ids(graph, nodes, result.graph, ids, writer):
                candidates.append(graph)
    named = [graph for graph in candidates if graph.name == result.graph.name]
    matches = candidates if len(candidates) == 1 else named
    return matches[0].key if len(matches) == 1 else None


def _is_candidate(graph: Graph, file: Graph) -> bool:
    is_same = graph.name == file.name or not _foreign_ids(graph).isdisjoint(_foreign_ids(file))
    return graph.category == file.category and is_same


def _shares_ids(
    graph: Graph, nodes: Sequence[Node], file: Graph, ids: set[str], writer: FileWriter
) -> bool:
    """Returns whether a graph shares ids with a file that only an export of this graph can contain.

    Without an id of the workflow, shared ids of nodes count only if the graph was renamed here:
    otherwise both may be imports of the same template under two names.
    """
    if not ids.isdisjoint({writer.new_id(node) for node in nodes}):
        return True
    if ids.isdisjoint(_ids(nodes)):
        return False
    old = _foreign_ids(graph)
    new = _foreign_ids(file)
    is_renamed = graph.name == file.name and not graph.key.startswith(slug(graph.name))
    return not old.isdisjoint(new) or (not old and not new and is_renamed)


def _ids(nodes: Sequence[Node]) -> set[str]:
    """Returns the ids of the nodes in the other tool."""
    ids = ((origin_of(node) or {}).get("id") for node in nodes)
    return {node_id for node_id in ids if isinstance(node_id, str)}


def _foreign_ids(graph: Graph) -> set[str]:
    """Returns the ids of the workflow, or of the tabs, that a graph was imported from."""
    metadata = graph.metadata or {}
    origin = as_dict(metadata.get(ORIGIN)) or {}
    workflow = (as_dict(metadata.get("n8n")) or {}).get("id")
    tabs = (
        (as_dict(origin.get("sheets")) or {}).values() if origin.get("format") == "node-red" else ()
    )
    ids = {ref for ref in (workflow, *tabs) if isinstance(ref, str)}
    return ids - {"", CONFIG_SHEET}
