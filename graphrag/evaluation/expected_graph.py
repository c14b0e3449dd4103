"""Compares a graph after a change with the expected one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from datasources.types import Node
from graphrag.evaluation.answer_cases import AskedChange, CaseGraph, Pair
from graphrag.evaluation.answer_scoring import ScoredAnswer
from graphrag.evaluation.workflows import node_name
from tools.actions.field_changes import json_document, path_of, value_at

_PLACES = frozenset(("posX", "posY", "size", "sheet"))  # positions are not compared


def check_change(graph: CaseGraph, change: AskedChange) -> None:
    """Raises ValueError if a change names a missing node, or is fulfilled before it is made."""
    if not list(_expectations(graph, graph, change)):
        raise ValueError("it expects nothing")


def score_change(before: CaseGraph, after: CaseGraph, change: AskedChange) -> ScoredAnswer:
    """Returns the verdict on a change: right if the graph is as expected, partly if some of it is,
    `invented` if other things changed too.

    Raises: ValueError as `check_change`.
    """
    failed: list[str] = []
    count = 0
    for what, holds in _expectations(before, after, change):
        count += 1
        if not holds:
            failed.append(what)
    other_changes = list(_other_changes(before, after, change))
    if other_changes:
        return ScoredAnswer(
            verdict="invented", missing=tuple(failed), invented=tuple(other_changes)
        )
    verdict = "right" if not failed else "partly" if len(failed) < count else "wrong"
    return ScoredAnswer(verdict=verdict, missing=tuple(failed))


def _expectations(
    before: CaseGraph, after: CaseGraph, change: AskedChange
) -> Iterator[tuple[str, bool]]:
    """Yields each expectation in words and whether it is fulfilled.

    Raises: ValueError for one that was fulfilled before.
    """
    for what, was, holds in _states(before, after, change):
        if was:
            raise ValueError(f"{what}: it holds already")
        yield what, holds


def _states(
    before: CaseGraph, after: CaseGraph, change: AskedChange
) -> Iterator[tuple[str, bool, bool]]:
    """Yields each expectation in words, whether it was fulfilled before, and whether it is now."""
    for name, values in change.set.items():
        key = _key_of(before, name)
        for path, value in values.items():
            was = _value(before.nodes[key], path)
            now = _value(after.nodes.get(key), path)
            yield f"{name}.{path} = {value}", _same(was, value), _same(now, value)
    for name in change.gone:
        key = _key_of(before, name)
        yield f"{name} is deleted", False, key not in after.nodes
    for pair in change.edges:
        yield f"{pair[0]} → {pair[1]}", before.has_edge(pair), _has_edge(before, after, pair)
    for pair in change.no_edges:
        gone = not _has_edge(before, after, pair)
        yield f"no {pair[0]} → {pair[1]}", not before.has_edge(pair), gone
    added = [node for key, node in after.nodes.items() if key not in before.nodes]
    for new in change.new:
        fits = any(node.type == new.type and new.name in (None, node_name(node)) for node in added)
        yield f"a new {new.type}{f' {new.name}' if new.name else ''}", False, fits


def _key_of(graph: CaseGraph, name: str) -> str:
    keys = graph.keys(name)
    if len(keys) != 1:
        raise ValueError(f"{len(keys)} nodes are called {name!r}")
    return next(iter(keys))


def _has_edge(before: CaseGraph, after: CaseGraph, pair: Pair) -> bool:
    """Returns whether the edge exists now. Nodes are identified by their earlier name, new ones by
    theirs.
    """
    sources, targets = ((before.keys(name) or after.keys(name)) for name in pair)
    return any(edge.source in sources and edge.target in targets for edge in after.edges.values())


def _value(node: Node | None, path: str) -> Any:
    return None if node is None else value_at(json_document(node), path_of(path))


def _same(value: Any, expected: Any) -> bool:
    """Returns whether two values are equal; numbers and booleans that editors write as texts are,
    too.
    """
    if isinstance(value, str | int | float) and isinstance(expected, str | int | float):
        return str(value).casefold().removeprefix("=") == str(expected).casefold().removeprefix("=")
    return value == expected


def _other_changes(before: CaseGraph, after: CaseGraph, change: AskedChange) -> Iterator[str]:
    """Yields the changes that were not requested. Updated references to a renamed node do not
    count.
    """
    gone = {_key_of(before, name) for name in change.gone}
    fields = {_key_of(before, name): values for name, values in change.set.items()}
    renames = {
        name: str(values["data.name"])
        for name, values in change.set.items()
        if "data.name" in values
    }
    for key, node in before.nodes.items():
        if key not in after.nodes:
            if key not in gone:
                yield f"{node_name(node)} is deleted"
        elif not _is_as_expected(node, after.nodes[key], fields.get(key, {}), renames, gone):
            yield f"{node_name(node)} is changed"
    added = [node for key, node in after.nodes.items() if key not in before.nodes]
    if len(added) > len(change.new):
        yield f"{len(added)} nodes are added, not {len(change.new)}"
    yield from _other_edges(before, after, change, gone)


def _is_as_expected(
    old: Node, new: Node, fields: Mapping[str, Any], renames: Mapping[str, str], gone: set[str]
) -> bool:
    """Returns whether a node is unchanged except for the fields to set, references and its
    position.
    """
    documents = [json_document(node) for node in (old, new)]
    for document in documents:
        for name in _PLACES & document.keys():
            del document[name]
        for path in fields:
            *parents, last = path_of(path)
            holder = value_at(document, parents)
            if isinstance(holder, dict):
                holder.pop(last, None)  # pyright: ignore[reportUnknownMemberType]
            elif isinstance(holder, list) and last.isdigit() and int(last) < len(holder):  # pyright: ignore[reportUnknownArgumentType]
                holder[int(last)] = None
        members = value_at(document, ("data", "members"))
        if isinstance(members, list):  # a deleted node is removed from its group
            document["data"]["members"] = [key for key in members if key not in gone]  # pyright: ignore[reportUnknownVariableType]
    before, after = (
        orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode() for document in documents
    )
    for old_name, new_name in renames.items():
        before = before.replace(old_name, new_name)
        after = after.replace(old_name, new_name)
    return before == after


def _other_edges(
    before: CaseGraph, after: CaseGraph, change: AskedChange, gone: set[str]
) -> Iterator[str]:
    expected = [*change.edges, *change.no_edges]
    ends = [
        tuple(before.keys(name) or after.keys(name) for name in pair) for pair in expected
    ]  # the keys of source and target, for each expected edge
    for key in before.edges.keys() ^ after.edges.keys():
        edge = before.edges.get(key) or after.edges[key]
        if {edge.source, edge.target} & gone and key in before.edges:
            continue
        if not any(edge.source in sources and edge.target in targets for sources, targets in ends):
            yield f"{edge.source} → {edge.target} is {'deleted' if key in before.edges else 'added'}"
