"""Reads recurring structures of n8n parameters: assignments, table columns, and lists of
names with values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.node_meaning import conditions
from tools.node_meaning.fact import (
    DETAIL,
    ESSENTIAL,
    IGNORED,
    MAX_DEPTH,
    Json,
    NodeFact,
    as_map,
    as_maps,
    leaf_facts,
    locator_text,
    setting_text,
    telling_name,
    written,
)

_NAMES: Final = (
    *(
        "name",
        "key",
        "keyName",
        "fieldName",
        "fieldId",
        "fieldLabel",
        "column",
        "property",
        "category",
    ),
    *("outputFieldName", "header", "label", "field"),
)
"""Fields that may hold the name of a list item, in order of preference."""

_VALUES: Final = (
    *("value", "stringValue", "numberValue", "booleanValue", "arrayValue", "objectValue"),
    *("keyValue", "fieldValue", "values", "condition"),
)


def named_value(item: Json) -> NodeFact | None:
    """Returns a list item as the fact `name = value`; None if it has no name."""
    name = next((key for key in _NAMES if isinstance(item.get(key), str) and item[key]), None)
    if name is None:
        return None
    label = written(item[name])
    value = next((item[key] for key in _VALUES if item.get(key) not in (None, "")), None)
    if value is not None and not isinstance(value, list | Mapping):
        rest = {
            k: v
            for k, v in item.items()
            if k not in (name, *_VALUES, "type", "id", "valueProvider")
        }
        extra = _inside(rest)
        return NodeFact(f"{label} = {setting_text(label, value)}{f' ({extra})' if extra else ''}")
    rest = {key: value for key, value in item.items() if key not in (name, "id")}
    extra = _inside(rest)
    return NodeFact(f"{label} ({extra})" if extra else label)


def _inside(pairs: Json) -> str:
    return ", ".join(
        f"{f.label} {f.value}" if f.label else f.value
        for f in leaf_facts(pairs)
        if f.rank != DETAIL
    )


def assignment_facts(parameters: Json) -> Iterator[NodeFact]:
    """Yields `name = value` for each field that a `Set` node of any version assigns."""
    listed = as_maps(as_map(parameters.get("assignments")).get("assignments"))
    listed += as_maps(as_map(parameters.get("fields")).get("values"))
    older = as_map(parameters.get("values"))  # version 1: lists by type
    listed += [item for items in older.values() for item in as_maps(items)]
    for item in listed:
        if item.get("name"):
            name = written(item["name"])
            value = next((item[key] for key in _VALUES if item.get(key) is not None), "")
            yield NodeFact(f"{name} = {setting_text(name, value)}", rank=ESSENTIAL)
    if parameters.get("jsonOutput"):
        yield NodeFact(written(parameters["jsonOutput"]), "JSON", ESSENTIAL)
    for name in ("includeFields", "excludeFields"):
        if parameters.get(name):
            yield NodeFact(written(parameters[name]), name)
    if parameters.get("include") == "none" or parameters.get("keepOnlySet"):
        yield NodeFact("drops all other fields")


def column_facts(columns: Json) -> Iterator[NodeFact]:
    """Yields `column = value` of a resource mapper, and the columns used to match rows."""
    if columns.get("mappingMode") == "autoMapInputData":
        yield NodeFact("columns from the input's fields")
    for name, value in as_map(columns.get("value")).items():
        if value not in (None, ""):
            yield NodeFact(f"{written(name)} = {setting_text(name, value)}")
    matching = columns.get("matchingColumns")
    if matching:
        yield NodeFact(written(matching), "matched by")


def tree_facts(value: Any, label: str = "", depth: int = 0) -> Iterator[NodeFact]:
    """Yields the facts of a JSON value by its known structures; its leaf values elsewhere."""
    pairs = as_map(value)
    if depth > MAX_DEPTH:
        return
    if "__rl" in pairs:
        if target := locator_text(pairs):
            yield NodeFact(target, label)
    elif conditions.is_group(value):
        if text := conditions.group_text(pairs):
            yield NodeFact(text, label)
    elif "mappingMode" in pairs:
        yield from column_facts(pairs)
    elif pairs:
        for name, inner in pairs.items():
            if name not in IGNORED and not (name == "options" and not inner):
                yield from tree_facts(inner, telling_name(name, label), depth + 1)
    elif isinstance(value, list | tuple) and (items := as_maps(value)):
        for item in items:
            named = named_value(item)
            yield from [named] if named else tree_facts(item, label, depth + 1)
    else:
        yield from leaf_facts(value, label)
