"""Converts copied text to nodes that can be pasted into a graph. Stores only node types that are
new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from datasources.base import MutableGraphDataSource
from datasources.builtin_types import types_by_name
from datasources.types import Edge, Graph, Node, NodeTypeConfig
from graphrag.i18n import Language
from graphrag.importers.assemble import ORIGIN
from graphrag.importers.json_values import as_dict
from graphrag.importers.reading_files import read_file
from graphrag.importers.report import UnreadableWorkflow
from graphrag.importers.workflow_format import ImportResult, check_size
from graphrag.layout import Box
from tools.checks.checked_graph import data_of
from tools.references import NOTE_TYPE, calls_by_name, name_of
from tools.write_tools import node_with_renames

# Maximum number of nodes, and of edges: one live edit takes no more elements.
MAX_PASTED = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastedNodes:
    """Nodes and edges under the keys of an import; `types` are the node types that were new."""

    nodes: list[Node]
    edges: list[Edge]
    types: list[NodeTypeConfig]
    remarks: list[str]


async def pasted(
    source: MutableGraphDataSource,
    graph: Graph,
    text: str,
    *,
    place: tuple[float, float],
    sheet: str,
    language: Language,
) -> PastedNodes:
    """Converts copied text to nodes of a sheet, with their top-left corner at `place`.

    Raises: UnreadableWorkflow, WorkersBusy.
    """
    raw = text.encode("utf-8", "surrogatepass")  # the reader reports unpaired surrogates
    result = await read_file(
        raw, file_name="pasted", workspace=graph.workspace, graph_key=graph.key
    )
    for what, count in (("nodes", len(result.nodes)), ("edges", len(result.edges))):
        check_size(what, count, MAX_PASTED)
    if not result.nodes:
        raise UnreadableWorkflow(file="pasted", reason="it has no node; copy at least one")
    stored_types = types_by_name(await source.get_node_configs())
    used_types = {node.type for node in result.nodes}
    new_types = [
        config
        for config in result.configs
        if config.type not in stored_types and config.type in used_types
    ]
    for config in new_types:
        await source.put_node_config(config)
    nodes = _moved(result, place, sheet)
    edges = [edge.replace(sheet=sheet) for edge in result.edges]
    remarks = result.report.lines(language)
    return PastedNodes(nodes=nodes, edges=edges, types=new_types, remarks=remarks)


def with_free_names(graph: Graph, new: Sequence[Node], here: Iterable[Node]) -> list[Node]:
    """Returns nodes to be added to a graph, renamed so that no node of the graph has their name.

    References among the new nodes are updated. Notes and nodes without a name keep theirs, and so
    do all nodes if the nodes of the graph do not refer to each other by name.
    """
    if not calls_by_name(graph):
        return [*new]
    used = {name_of(node) for node in here}
    renames: dict[str, str] = {}
    names: list[str | None] = []
    for node in new:
        name = None if node.type == NOTE_TYPE else name_of(node)
        free = name and _free_name(name, used)
        if name and free:
            renames.setdefault(name, free)  # a reference means the first node of that name
        used.add(free)
        names.append(free)
    changed = {old: name for old, name in renames.items() if name != old}
    followed = [node_with_renames(node, changed) for node in new]
    return [
        node.replace(data={**data_of(node), "name": name})
        if name not in (None, name_of(node))
        else node
        for node, name in zip(followed, names, strict=True)
    ]


def _free_name(name: str, used: Set[str | None]) -> str:
    """Returns the name, with the next free number if it is used, as n8n does."""
    stem = name.rstrip("0123456789")
    number = 0
    free = name
    while free in used:
        number += 1
        free = f"{stem}{number}"
    return free


def _moved(result: ImportResult, place: tuple[float, float], sheet: str) -> list[Node]:
    """Returns the nodes with their common top-left corner at `place`.

    Their origin loses the id and the name, because pasted nodes are new and not those of an import.
    """
    boxes = [Box.of(node) for node in result.nodes]
    x = min(box.x for box in boxes)
    y = min(box.y for box in boxes)
    moved: list[Node] = []
    for node, box in zip(result.nodes, boxes, strict=True):
        origin: dict[str, Any] = as_dict((node.model_extra or {}).get(ORIGIN)) or {}
        new_origin = {name: origin[name] for name in ("format", "fields") if name in origin}
        spot = {"pos_x": round(box.x - x + place[0]), "pos_y": round(box.y - y + place[1])}
        moved.append(
            node.replace(**spot, sheet=sheet, **({ORIGIN: new_origin} if new_origin else {}))
        )
    return moved
