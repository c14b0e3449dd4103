"""Hashes of what an action depends on: they show whether a stored proposal is stale or merely older.

Each hash covers as little as decides: a changed field, a position, the handles at an edge's end.
So a change of something else on the same node leaves a proposal valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from tools.proposal_parts import ImportFile
from tools.proposals import BatchAction, SingleAction, hash_of, single_actions
from tools.write_tools.field_changes import path_of, value_at
from tools.write_tools.graph_reads import Snapshot
from tools.write_tools.renames import with_references

ABSENT = "absent"
"""Stands for the hash of what is not there."""
_NOTHING = object()


def touched(action: SingleAction | BatchAction, snapshot: Snapshot) -> dict[str, str]:
    """Return a hash of everything that a finalized action rests on, by what it is.

    A rename rests on the fields that refer to the node by its name, too.

    Shapes: `field/NODE/data.name`, `content/NODE`, `position/NODE`, `handles/NODE`, `edges/NODE`,
    `edge/KEY`, `type/NAME`, `sheet/ID`, `sheet-name/ID`, `graph/FIELD`.
    """
    found: dict[str, str] = {}
    for _, single in single_actions(with_references(action, snapshot)):
        for name in _names_of(single):
            kind, _, key = name.partition("/")
            found[name] = _hash(kind, key, snapshot)
    return dict(sorted(found.items()))


def changed_since(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what is no longer as it was, in the names of `touched`."""
    return sorted(name for name in before if now.get(name, ABSENT) != before[name])


def _names_of(single: SingleAction) -> Iterator[str]:
    payload: Any = single.payload
    match single.type:
        case "create_node" | "create_node_with_edges":
            yield from (f"type/{payload.type_key}", f"sheet/{payload.sheet}", f"content/{payload.key}")
            yield from (f"handles/{edge.target_node_key}" for edge in getattr(payload, "edges", ()))
        case "create_edge":
            yield from (f"handles/{payload.source_key}", f"handles/{payload.target_key}")
            yield f"edge/{payload.key}"
        case "update_node":
            for path in payload.changes:
                yield f"field/{payload.node_key}/{path}"
                if path.startswith("handles"):
                    yield f"edges/{payload.node_key}"
        case "move_node":
            yield f"position/{payload.node_key}"
        case "reorganize_layout":
            yield from (f"position/{key}" for key in payload.node_keys)
        case "delete_node":
            yield from (f"content/{payload.node_key}", f"edges/{payload.node_key}")
        case "delete_edge":
            yield f"edge/{payload.edge_key}"
        case "configure_node_type":
            yield f"type/{payload.type_key}"
        case "import_file":
            yield from _names_of_file(payload)


def _names_of_file(payload: ImportFile) -> Iterator[str]:
    for key in [*(node["_key"] for node in payload.put_nodes), *payload.delete_nodes]:
        yield from (f"content/{key}", f"position/{key}")
    yield from (f"edges/{key}" for key in payload.delete_nodes)
    for key in [*(edge["_key"] for edge in payload.put_edges), *payload.delete_edges]:
        yield f"edge/{key}"
    yield from (f"type/{config['_key']}" for config in payload.put_types or ())
    for name, value in (payload.put_graph or {}).items():
        if name == "sheetsList" and isinstance(value, dict):
            yield from (f"sheet-name/{sheet}" for sheet in cast(dict[str, Any], value))
        else:
            yield f"graph/{name}"


def _hash(kind: str, key: str, snapshot: Snapshot) -> str:
    if kind == "edge":
        edge = snapshot.edges.get(key)
        return hash_of(edge.to_document()) if edge else ABSENT
    if kind == "type":
        config = snapshot.type_of(key)
        return hash_of(config.to_document()) if config else ABSENT
    if kind == "sheet":
        return hash_of(key) if key in snapshot.graph.sheets_list else ABSENT
    if kind == "sheet-name":
        return hash_of(snapshot.graph.sheets_list.get(key))
    if kind == "graph":
        return hash_of(snapshot.graph.to_document().get(key))
    if kind == "field":
        return _field_hash(key, snapshot)
    node = snapshot.nodes.get(key)
    if node is None:
        return ABSENT
    if kind == "position":
        document = node.to_document()
        return hash_of([document.get(name) for name in ("posX", "posY", "sheet")])
    if kind == "handles":
        config = None if node.handles else snapshot.type_of(node.type)
        handles = node.to_document().get("handles")
        return hash_of([handles, node.sheet, config.to_document()["node"] if config else None])
    if kind == "edges":
        edges = snapshot.edges_of({key})
        return hash_of([edges[name].to_document() for name in sorted(edges)])
    document = node.to_document()
    return hash_of({name: value for name, value in document.items() if name not in ("posX", "posY")})


def _field_hash(key: str, snapshot: Snapshot) -> str:
    """A node's key may hold a slash: the longest key that a node has is meant."""
    parts = key.split("/")
    for count in range(len(parts) - 1, 0, -1):
        node = snapshot.nodes.get("/".join(parts[:count]))
        if node is not None:
            value = value_at(node.to_document(), path_of("/".join(parts[count:])), _NOTHING)
            return ABSENT if value is _NOTHING else hash_of(value)
    return ABSENT
