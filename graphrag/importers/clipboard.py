"""Prepares nodes to be pasted into a graph. Stores nothing but the types that are new."""

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

MAX_PASTED = 2_000
"""The most elements of one live edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastedNodes:
    """Nodes and edges with the keys that their file gives them; `types` are those that
    the graph lacked.
    """

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
    """Read copied text as nodes of a sheet, around a place. Raises: UnreadableWorkflow,
    WorkersBusy.
    """
    raw = text.encode("utf-8", "surrogatepass")  # the reader says where a character is half
    read = await read_file(raw, file_name="pasted", workspace=graph.workspace, graph_key=graph.key)
    for what, count in (("nodes", len(read.nodes)), ("edges", len(read.edges))):
        check_size(what, count, MAX_PASTED)
    if not read.nodes:
        raise UnreadableWorkflow(file="pasted", reason="it has no node; copy at least one")
    known = types_by_name(await source.get_node_configs())
    used = {node.type for node in read.nodes}
    types = [config for config in read.configs if config.type not in known and config.type in used]
    for config in types:
        await source.put_node_config(config)
    nodes = _moved(read, place, sheet)
    edges = [edge.replace(sheet=sheet) for edge in read.edges]
    remarks = read.report.lines(language)
    return PastedNodes(nodes=nodes, edges=edges, types=types, remarks=remarks)


def with_free_names(graph: Graph, new: Sequence[Node], here: Iterable[Node]) -> list[Node]:
    """Returns nodes to be added to a graph under names that no node of it has.

    References of the new nodes to each other follow. Notes and nodes without a name stay as they
    are, and all nodes of a graph whose nodes do not call each other by name.
    """
    if not calls_by_name(graph):
        return [*new]
    taken = {name_of(node) for node in here}
    renames: dict[str, str] = {}
    names: list[str | None] = []
    for node in new:
        name = None if node.type == NOTE_TYPE else name_of(node)
        free = name and _free_name(name, taken)
        if name and free:
            renames.setdefault(name, free)  # of several nodes of one name the first is meant
        taken.add(free)
        names.append(free)
    changed = {old: name for old, name in renames.items() if name != old}
    followed = [node_with_renames(node, changed) for node in new]
    return [
        node.replace(data={**data_of(node), "name": name})
        if name not in (None, name_of(node))
        else node
        for node, name in zip(followed, names, strict=True)
    ]


def _free_name(name: str, taken: Set[str | None]) -> str:
    """Returns the name or, where it is taken, the same with the next free number, as n8n does."""
    stem = name.rstrip("0123456789")
    number = 0
    free = name
    while free in taken:
        number += 1
        free = f"{stem}{number}"
    return free


def _moved(read: ImportResult, place: tuple[float, float], sheet: str) -> list[Node]:
    """Return the nodes with their corner at a place, as no import's nodes: they are new ones."""
    boxes = [Box.of(node) for node in read.nodes]
    x = min(box.x for box in boxes)
    y = min(box.y for box in boxes)
    moved: list[Node] = []
    for node, box in zip(read.nodes, boxes, strict=True):
        origin: dict[str, Any] = as_dict((node.model_extra or {}).get(ORIGIN)) or {}
        kept = {name: origin[name] for name in ("format", "fields") if name in origin}
        spot = {"pos_x": round(box.x - x + place[0]), "pos_y": round(box.y - y + place[1])}
        moved.append(node.replace(**spot, sheet=sheet, **({ORIGIN: kept} if kept else {})))
    return moved
