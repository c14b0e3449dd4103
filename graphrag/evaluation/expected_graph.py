"""Compares a graph after a change with the one that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from datasources.types import Node
from graphrag.evaluation.answer_cases import AskedChange, CaseGraph, Pair
from graphrag.evaluation.answer_scoring import ScoredAnswer
from graphrag.evaluation.workflows import node_name
from tools.write_tools.field_changes import json_document, path_of, value_at

_PLACES = frozenset(("posX", "posY", "size", "sheet"))  # where a node stands is not compared


def check_change(graph: CaseGraph, change: AskedChange) -> None:
    """Raises: ValueError for a change of a node that is not there, or that holds already."""
    if not list(_expectations(graph, graph, change)):
        raise ValueError("it expects nothing")


def score_change(before: CaseGraph, after: CaseGraph, change: AskedChange) -> ScoredAnswer:
    """Returns the verdict on a change: right where the graph is as expected, partly where some
    of it is.

    Where something else was changed too, it is `invented`. Raises: as `check_change`.
    """
    failed: list[str] = []
    count = 0
    for what, holds in _expectations(before, after, change):
        count += 1
        if not holds:
            failed.append(what)
    others = list(_other_changes(before, after, change))
    if others:
        return ScoredAnswer(verdict="invented", missing=tuple(failed), invented=tuple(others))
    verdict = "right" if not failed else "partly" if len(failed) < count else "wrong"
    return ScoredAnswer(verdict=verdict, missing=tuple(failed))


def _expectations(
    before: CaseGraph, after: CaseGraph, change: AskedChange
) -> Iterator[tuple[str, bool]]:
    """Yields each expectation in words and whether it holds. Raises: ValueError for one
    that held before.
    """
    for what, was, holds in _states(before, after, change):
        if was:
            raise ValueError(f"{what}: it holds already")
        yield what, holds


def _states(
    before: CaseGraph, after: CaseGraph, change: AskedChange
) -> Iterator[tuple[str, bool, bool]]:
    """Yields each expectation in words, whether it held before, and whether it holds now."""
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
    """Returns whether the edge is there now; nodes are known by their names from before,
    or new ones.
    """
    sources, targets = ((before.keys(name) or after.keys(name)) for name in pair)
    return any(edge.source in sources and edge.target in targets for edge in after.edges.values())


def _value(node: Node | None, path: str) -> Any:
    return None if node is None else value_at(json_document(node), path_of(path))


def _same(value: Any, wanted: Any) -> bool:
    """Returns whether two values are the same; editors write many numbers and switches as texts."""
    if isinstance(value, str | int | float) and isinstance(wanted, str | int | float):
        return str(value).casefold().removeprefix("=") == str(wanted).casefold().removeprefix("=")
    return value == wanted


def _other_changes(before: CaseGraph, after: CaseGraph, change: AskedChange) -> Iterator[str]:
    """Yields what is different and was not asked for. References to a renamed node follow it."""
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
    """Returns whether a node is as it was, but for the fields to set, references, and
    where it stands.
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
        if isinstance(members, list):  # a deleted node leaves its group
            document["data"]["members"] = [key for key in members if key not in gone]  # pyright: ignore[reportUnknownVariableType]
    before, after = (
        orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode() for document in documents
    )
    for name, other in renames.items():
        before = before.replace(name, other)
        after = after.replace(name, other)
    return before == after


def _other_edges(
    before: CaseGraph, after: CaseGraph, change: AskedChange, gone: set[str]
) -> Iterator[str]:
    expected = [*change.edges, *change.no_edges]
    ends = [
        tuple(before.keys(name) or after.keys(name) for name in pair) for pair in expected
    ]  # of each expected edge, the keys of its source and of its target
    for key in before.edges.keys() ^ after.edges.keys():
        edge = before.edges.get(key) or after.edges[key]
        if {edge.source, edge.target} & gone and key in before.edges:
            continue
        if not any(edge.source in sources and edge.target in targets for sources, targets in ends):
            yield f"{edge.source} → {edge.target} is {'deleted' if key in before.edges else 'added'}"
