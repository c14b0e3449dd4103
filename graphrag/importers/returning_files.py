"""Finds the graph that a file comes back to although the file's name, and so the key made of
it, has changed.

Decision: no mark is written into a file for this, because n8n's API refuses `meta` and every field
that it does not know. What the tools keep is the id of a workflow or tab, and the ids of nodes; the
ids that are written for nodes made here are derived from the key of their graph. The id of a
workflow alone tells nothing: servers count.
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
    """Returns the key of the graph that a file without a graph of its key was written from.

    None where there is none, or where several could be meant.
    """
    writer = next((form.writer for form in FORMATS if form.name == result.report.format), None)
    if writer is None:
        return None
    ids = _ids(result.nodes)
    found: list[Graph] = []
    for graph in await source.list_graphs():
        if _may_be(graph, result.graph) and ids:
            nodes = await source.get_nodes(graph.key)
            if _is_its(graph, nodes, result.graph, ids, writer):
                found.append(graph)
    named = [graph for graph in found if graph.name == result.graph.name]
    meant = found if len(found) == 1 else named
    return meant[0].key if len(meant) == 1 else None


def _may_be(graph: Graph, file: Graph) -> bool:
    is_same = graph.name == file.name or not _foreign_ids(graph).isdisjoint(_foreign_ids(file))
    return graph.category == file.category and is_same


def _is_its(
    graph: Graph, nodes: Sequence[Node], file: Graph, ids: set[str], writer: FileWriter
) -> bool:
    """Returns whether a graph shares ids with a file that only its export can have written.

    Without an id of the workflow, the ids of nodes tell only of a graph that was renamed here:
    others may be imports of the same template under two names.
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
    """Returns the ids by which the tool knows nodes."""
    found = ((origin_of(node) or {}).get("id") for node in nodes)
    return {one for one in found if isinstance(one, str)}


def _foreign_ids(graph: Graph) -> set[str]:
    """Returns the ids of the workflow, or of the tabs, that a graph was read from."""
    metadata = graph.metadata or {}
    origin = as_dict(metadata.get(ORIGIN)) or {}
    workflow = (as_dict(metadata.get("n8n")) or {}).get("id")
    tabs = (
        (as_dict(origin.get("sheets")) or {}).values() if origin.get("format") == "node-red" else ()
    )
    return {
        one for one in (workflow, *tabs) if isinstance(one, str) and one not in ("", CONFIG_SHEET)
    }
