"""Recognises the documents that hold Node-RED flows: files, clipboards, answers of its API.

Decision: a list is Node-RED's only where a node shows it, by its wires, its place on a tab, or a
type that is known to be Node-RED's. Many tools list `{id, type}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphrag.importers.json_values import Json, as_dict, as_id, as_list, as_number, as_text
from graphrag.importers.report import Tally
from graphrag.importers.type_facts import known_type

_PARTS = ("nodes", "groups", "configs", "subflows")
"""The lists of `GET /flow/:id` and of the subflows in `GET /flow/global`."""

_OTHERS = frozenset({"connections", "edges", "links"})
"""Fields of other tools' documents."""


def recognise(document: Any, _tally: Tally) -> Json | None:
    """Return `{flows: [...]}` and what stands beside it; None for a document of another tool."""
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
    """Say whether an object is one flow with its nodes, as `GET /flow/:id` answers."""
    is_flow = (
        as_id(fields.get("id")) is not None and _OTHERS.isdisjoint(fields) and "type" not in fields
    )
    return is_flow and any(as_list(fields.get(part)) is not None for part in _PARTS)


def _parts(flow: Json) -> Iterator[Any]:
    """Yield a flow's tab and all that is listed in it, in one list as in a file."""
    of_itself = {name: value for name, value in flow.items() if name not in _PARTS}
    if flow.get("id") != "global":
        yield {"type": "tab", **of_itself} if "type" not in flow else of_itself
    for part in _PARTS:
        for item in as_list(flow.get(part)) or ():
            subflow = as_dict(item) if part == "subflows" else None
            if subflow is None:
                yield item
            else:
                yield from _parts(subflow)


def _is_flow(listed: list[Any]) -> bool:
    items = [item for item in map(as_dict, listed) if item is not None]
    if any(map(_shows_another, items)):
        return False
    return any(map(_shows_it, items)) or (bool(items) and all(map(_is_known_config, items)))


def _shows_another(item: Json) -> bool:
    """Say whether an item is a node, or a whole workflow, of n8n."""
    is_node = "typeVersion" in item or as_list(item.get("position")) is not None
    return (is_node and "wires" not in item) or ("connections" in item and "nodes" in item)


def _shows_it(item: Json) -> bool:
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
    known = known_type("graphrag.importers.node_red", as_text(item.get("type")) or "")
    return known is not None and known[0] == "config" and isinstance(item.get("id"), str)
