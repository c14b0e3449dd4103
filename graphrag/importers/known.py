"""Finds what an earlier import of the same workflow made, so that it is updated and not doubled."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from datasources.types import Document, Edge, Graph, Node, NodeTypeConfig
from graphrag.importers.draft import DraftNode
from graphrag.importers.report import Format
from graphrag.importers.values import Json, as_dict

ORIGIN = "origin"
"""The field by which an importer knows its own: `{format, id?, name?}`. People's nodes have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingGraph:
    """A stored graph, whole, and the node types that its workspace sees."""

    graph: Graph
    nodes: Sequence[Node] = ()
    edges: Sequence[Edge] = ()
    configs: Sequence[NodeTypeConfig] = ()


def origin_of(document: Document) -> Json | None:
    """Return where a document was imported from, or None for one that a person made."""
    return as_dict((document.model_extra or {}).get(ORIGIN))


def is_imported(document: Document, form: Format) -> bool:
    """Say whether an import of this format made the document; Nodius JSON speaks for all of them."""
    origin = origin_of(document)
    return origin is not None and (form == "nodius" or origin.get("format") == form)


def match_nodes(drafts: Sequence[DraftNode], nodes: Iterable[Node], form: Format) -> dict[DraftNode, Node]:
    """Return the stored node that each draft is the new version of: same id and name, id, or name.

    Drafts that the file does not tell apart are numbered in their origin, in its order.
    """
    _number_copies(drafts)
    stored = [
        (node, origin) for node in nodes if (origin := origin_of(node)) and origin.get("format") == form
    ]
    found: dict[DraftNode, Node] = {}
    used: set[str] = set()
    marks: tuple[Callable[[Json], Hashable | None], ...] = (
        _all,
        lambda origin: _mark(origin, "id"),
        lambda origin: _mark(origin, "name"),
    )
    for mark in marks:
        waiting: dict[Hashable, deque[Node]] = {}
        for node, origin in stored:
            if node.key not in used and (value := mark(origin)) is not None:
                waiting.setdefault(value, deque()).append(node)
        for draft in drafts:
            if draft in found or (value := mark(draft.origin)) is None or not waiting.get(value):
                continue
            node = waiting[value].popleft()
            found[draft] = node
            used.add(node.key)
    return found


def _number_copies(drafts: Sequence[DraftNode]) -> None:
    seen: Counter[Hashable] = Counter()
    for draft in drafts:
        marks = (_mark(draft.origin, "id"), _mark(draft.origin, "name"))
        seen[marks] += 1
        if seen[marks] > 1:
            draft.origin["copy"] = seen[marks]


def _mark(origin: Json, field: str) -> Hashable | None:
    value: Any = origin.get(field)
    return value if isinstance(value, str) else None


def _all(origin: Json) -> Hashable | None:
    marks = (_mark(origin, "id"), _mark(origin, "name"))
    return None if marks == (None, None) else (*marks, str(origin.get("copy", 1)))
