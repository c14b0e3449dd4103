"""Generates cases from a graph, which is the ground truth for scoring answers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, product
from typing import Any

from datasources.types import Edge, Node
from graphrag.evaluation.answer_cases import AskedChange, AskedQuestion, CaseGraph, WorkflowCases
from graphrag.evaluation.answer_scoring import normalize
from graphrag.evaluation.workflows import node_name
from tools.actions.field_changes import json_document, path_of, value_at
from tools.checks.checked_graph import NO_STEPS
from tools.node_values import leaves
from tools.toon import compact_json

MAX_VALUE_CHARS = 80
MAX_FOLLOWERS = 4
MAX_COUNTED = 10

_NO_VALUE = re.compile(
    r"(?:^|\.)(?:id|name|type|mode|version|__rl|cached\w+|\w*Type|members|schema)(?:\.|$)"
)

Cases = Iterator[AskedQuestion | AskedChange]


def make_cases(graph: CaseGraph, number: int, *, file: str, seed: int = 0) -> WorkflowCases:
    """Returns up to `number` cases, alternating between the kinds; deterministic for a graph and a
    seed.
    """
    chance = random.Random(seed)
    makers = [maker(_CaseParts(graph, chance)) for maker in MAKERS]
    cases: list[AskedQuestion | AskedChange] = []
    empty = 0
    for maker in cycle(makers):
        if len(cases) == number or empty == len(makers):
            break
        case = next(maker, None)
        empty = empty + 1 if case is None else 0
        if case is not None and case not in cases:
            cases.append(case)
    return WorkflowCases(
        file=file,
        questions=tuple(case for case in cases if isinstance(case, AskedQuestion)),
        changes=tuple(case for case in cases if isinstance(case, AskedChange)),
    )


class _CaseParts:
    """The parts of a graph that cases use, in random order. Nodes with a name that others share are
    omitted.
    """

    def __init__(self, graph: CaseGraph, chance: random.Random) -> None:
        unique = [node for node in graph.nodes.values() if len(graph.keys(node_name(node))) == 1]
        self.graph = graph
        self.steps = [
            node for node in unique if node.type not in NO_STEPS and normalize(node_name(node))
        ]
        self.names = {node.key: node_name(node) for node in self.steps}
        ends = self.names.keys()
        self.edges = [edge for edge in graph.edges.values() if {edge.source, edge.target} <= ends]
        chance.shuffle(self.steps)
        chance.shuffle(self.edges)

    def joined(self, first: str, second: str) -> bool:
        """Returns whether an edge connects two nodes, in any direction."""
        return any(
            {edge.source, edge.target} == {first, second} for edge in self.graph.edges.values()
        )

    def values(self) -> Iterator[tuple[Node, str, Any]]:
        """Yields short values of nodes with the paths of their fields, first one of each node."""
        rows = [list(_values(node)) for node in self.steps]
        for place in range(max(map(len, rows), default=0)):
            for node, node_values in zip(self.steps, rows, strict=True):
                if place < len(node_values):
                    yield node, *node_values[place]


def _values(node: Node) -> Iterator[tuple[str, str]]:
    plain_values = [(path, value) for path, value in leaves(node.data) if _is_plain(path, value)]
    fields = [path.rpartition(".")[2] for path, _ in plain_values]
    for (path, value), name in zip(plain_values, fields, strict=True):
        if fields.count(name) == 1 and not name.isdigit():
            yield path, value


def _is_plain(path: str, value: str) -> bool:
    return (
        not _NO_VALUE.search(path)
        and 2 <= len(value) <= MAX_VALUE_CHARS
        and "\n" not in value
        and "{{" not in value
        and value not in ("true", "false", "True", "False")
        and normalize(value) == value.casefold()
    )


def _follows(pool: _CaseParts) -> Cases:
    for node in pool.steps:
        targets = {edge.target for edge in pool.graph.edges.values() if edge.source == node.key}
        if 0 < len(targets) <= MAX_FOLLOWERS and targets <= pool.names.keys():
            must = tuple(sorted(pool.names[key] for key in targets))
            yield AskedQuestion(ask=f'What follows "{pool.names[node.key]}"?', must=must)


def _error_output(pool: _CaseParts) -> Cases:
    for edge in pool.edges:
        if edge.label == "error":
            source = pool.names[edge.source]
            target = pool.names[edge.target]
            yield AskedQuestion(
                ask=f'Where does the error output of "{source}" lead?', must=(target,)
            )


def _value(pool: _CaseParts) -> Cases:
    for node, path, value in pool.values():
        field = path.rpartition(".")[2]
        yield AskedQuestion(ask=f'What is the {field} of "{pool.names[node.key]}"?', must=(value,))


def _count(pool: _CaseParts) -> Cases:
    for kind in dict.fromkeys(node.type for node in pool.steps):
        of_type = [key for key, node in pool.graph.nodes.items() if node.type == kind]
        if len(of_type) <= MAX_COUNTED and set(of_type) <= pool.names.keys():
            counted = tuple(pool.names[key] for key in of_type)
            yield AskedQuestion(ask=f'How many nodes of type "{kind}" are there?', counted=counted)


def _connected(pool: _CaseParts) -> Cases:
    for edge in pool.edges:
        yield _is_connected(pool.names[edge.source], pool.names[edge.target])


def _not_connected(pool: _CaseParts) -> Cases:
    for first, second in product(pool.steps, reversed(pool.steps)):
        if first.key != second.key and not pool.joined(first.key, second.key):
            yield _is_connected(pool.names[first.key], pool.names[second.key])


def _is_connected(source: str, target: str) -> AskedQuestion:
    return AskedQuestion(
        ask=f'Does an edge lead from "{source}" straight to "{target}"?', connected=(source, target)
    )


def _where(pool: _CaseParts) -> Cases:
    texts = {
        key: compact_json(node.to_document()).casefold() for key, node in pool.graph.nodes.items()
    }
    for node, _, value in pool.values():
        if sum(value.casefold() in text for text in texts.values()) == 1:
            yield AskedQuestion(
                ask=f'Which node has the value "{value}"?', must=(pool.names[node.key],)
            )


def _rename(pool: _CaseParts) -> Cases:
    for node in pool.steps:
        name = pool.names[node.key]
        if isinstance(node.data, Mapping) and "name" in node.data:
            new = f"{name} checked"
            yield AskedChange(ask=f'Rename "{name}" to "{new}".', set={name: {"data.name": new}})


def _set(pool: _CaseParts) -> Cases:
    for node, path, value in pool.values():
        name = pool.names[node.key]
        field = f"data.{path}"
        if str(value_at(json_document(node), path_of(field))) != value:
            continue  # the path of a resource locator or of an item of a list is shortened
        new = str(int(value) + 1) if value.isascii() and value.isdigit() else f"{value}-2"
        yield AskedChange(ask=f'Set {field} of "{name}" to {new}.', set={name: {field: new}})


def _delete(pool: _CaseParts) -> Cases:
    for node in pool.steps:
        yield AskedChange(
            ask=f'Delete the node "{pool.names[node.key]}".', gone=(pool.names[node.key],)
        )


def _connect(pool: _CaseParts) -> Cases:
    for first, second in product(pool.edges, reversed(pool.edges)):
        if _fits(first, second) and not pool.joined(first.source, second.target):
            source = pool.names[first.source]
            target = pool.names[second.target]
            yield AskedChange(ask=f'Connect "{source}" to "{target}".', edges=((source, target),))


def _fits(first: Edge, second: Edge) -> bool:
    """Returns whether the output of the first edge may be connected to the input of the second.

    Their handles are compared by id.
    """
    return (
        first.source != second.target
        and first.target_handle == second.target_handle
        and first.source_handle == second.source_handle
    )


# The kinds of cases. Half of the questions about connections are about nodes without one.
MAKERS: Sequence[Callable[[_CaseParts], Cases]] = (
    *(_follows, _error_output, _value, _rename, _count, _connected, _set, _not_connected),
    *(_where, _delete, _connect),
)
