"""Recognises documents with Node-RED flows: files, clipboards, answers of Node-RED's API.

Decision: a list counts as Node-RED's only if one of its nodes has wires, a place on a tab, or a
type known to be Node-RED's. Many tools have lists of `{id, type}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphrag.importers.json_values import Json, as_dict, as_id, as_list, as_number, as_text
from graphrag.importers.report import Tally
from graphrag.importers.type_facts import known_type

# The lists in the answer of `GET /flow/:id`, and in the subflows of `GET /flow/global`.
_PARTS = ("nodes", "groups", "configs", "subflows")

# Fields in documents of other tools.
_OTHERS = frozenset({"connections", "edges", "links"})


def recognise(document: Any, _tally: Tally) -> Json | None:
    """Returns `{flows: [...]}` with the other fields of the document; None for another tool's
    document.
    """
    fields = as_dict(document)
    listed = as_list(document)
    if fields is not None and (flows := as_list(fields.get("flows"))) is not None:
        return fields if "rev" in fields or _is_flow(flows) else None
    if fields is not None:
        listed = [fields] if _is_single(fields) else []
    items = [item for item in map(as_dict, listed or ()) if item is not None]
    if items and all(map(_is_single, items)):
        listed = [part for item in items for part in _parts(item)]
    return {"flows": listed} if listed and _is_flow(listed) else None


def _is_single(fields: Json) -> bool:
    """Returns whether an object is one flow with its nodes, as `GET /flow/:id` answers."""
    is_flow = (
        as_id(fields.get("id")) is not None and _OTHERS.isdisjoint(fields) and "type" not in fields
    )
    return is_flow and any(as_list(fields.get(part)) is not None for part in _PARTS)


def _parts(flow: Json) -> Iterator[Any]:
    """Yields the tab of a flow and its contents in one list, as a file has them."""
    tab = {name: value for name, value in flow.items() if name not in _PARTS}
    if flow.get("id") != "global":
        yield {"type": "tab", **tab} if "type" not in flow else tab
    for part in _PARTS:
        for item in as_list(flow.get(part)) or ():
            subflow = as_dict(item) if part == "subflows" else None
            if subflow is None:
                yield item
            else:
                yield from _parts(subflow)


def _is_flow(listed: list[Any]) -> bool:
    items = [item for item in map(as_dict, listed) if item is not None]
    if any(map(_is_n8n, items)):
        return False
    return any(map(_is_node_red, items)) or (bool(items) and all(map(_is_known_config, items)))


def _is_n8n(item: Json) -> bool:
    """Returns whether an item is a node or a workflow of n8n."""
    is_node = "typeVersion" in item or as_list(item.get("position")) is not None
    return (is_node and "wires" not in item) or ("connections" in item and "nodes" in item)


def _is_node_red(item: Json) -> bool:
    kind = as_text(item.get("type"))
    foreign_id = as_id(item.get("id"))
    if kind is None and foreign_id is None:
        return False
    if as_list(item.get("wires")) is not None or (kind or "").startswith("subflow:"):
        return True
    if kind == "tab":
        return as_text(item.get("label")) is not None and isinstance(item.get("id"), str)
    if kind == "subflow":
        return as_list(item.get("in")) is not None or as_list(item.get("out")) is not None
    is_on_tab = as_text(item.get("z")) is not None and kind is not None
    return is_on_tab and (kind == "group" or as_number(item.get("x")) is not None)


def _is_known_config(item: Json) -> bool:
    facts = known_type("graphrag.importers.node_red", as_text(item.get("type")) or "")
    return facts is not None and facts[0] == "config" and isinstance(item.get("id"), str)
