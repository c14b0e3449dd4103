"""Rows of a context's tables: what is said of a node, an edge and a type, each text cut to its length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from weakref import ref

from datasources.text import letters, node_label
from datasources.types import Edge, Graph, Node, NodeTypeConfig, ScoredNode
from tools.compact import (
    compact_handles,
    compact_value,
    cut,
    cut_name,
    other_cells,
    sheet_label,
    without_empty,
)
from tools.secret_texts import redacted
from tools.toon import compact_json

MAX_NAME_CHARS = 80
MAX_TYPE_CHARS = 120
MAX_HANDLES_CHARS = 240
MAX_DESCRIPTION_CHARS = 160

MAX_KNOWN = 2_000
"""Nodes whose cells are remembered: writing those of 20 nodes takes 1 to 5 ms."""

Row = dict[str, Any]
_REASONS = {"name-vector": "name", "refers-to": "refers to", "referred-by": "referred to by"}


class _Cells(NamedTuple):
    """What is said of a node whatever was asked, and of which node and type: a number is given again."""

    node: ref[Node]
    config: ref[NodeTypeConfig] | None
    name: str | None
    data: str | None
    handles: str | None
    others: Mapping[str, str]


_known: dict[tuple[int, int, int], _Cells] = {}


def node_row(
    scored: ScoredNode,
    config: NodeTypeConfig | None,
    graph: Graph,
    *,
    truncate_process: int,
    truncate_data: int,
) -> Row:
    """Return the row of a node. `config` is its type, where one is known. Units: characters."""
    node = scored.node
    cells = _cells(node, config, truncate_data)
    return {
        "_key": node.key,
        "type": cut(node.type, MAX_TYPE_CHARS),
        "sheet": sheet_label(graph, node.sheet),
        "process": None if not node.process else cut(redacted(node.process).text, truncate_process),
        "name": cells.name,
        "data": cells.data,
        **cells.others,
        "handles": cells.handles,
        "why": why(scored),
    }


def _cells(node: Node, config: NodeTypeConfig | None, truncate_data: int) -> _Cells:
    """Return the cells of a node, which is read-only, from memory where it was met before."""
    place = (id(node), id(config), truncate_data)
    known = _known.get(place)
    if known is not None and known.node() is node and (known.config and known.config()) is config:
        return known
    label = node_label(node)
    own_handles = node.handles and (config is None or node.handles != config.node.handles)
    made = _Cells(
        node=ref(node),
        config=None if config is None else ref(config),
        name=None if says_same(node.key, label) else cut_name(label, MAX_NAME_CHARS),
        data=_data_cell(node, label, truncate_data),
        handles=cut(compact_handles(node.handles), MAX_HANDLES_CHARS) if own_handles else None,
        others=other_cells(node, truncate_data),
    )
    if len(_known) >= MAX_KNOWN:
        _known.clear()
    _known[place] = made
    return made


def _data_cell(node: Node, label: str, limit: int) -> str | None:
    data = node.data
    if isinstance(data, Mapping):  # the name has its own column
        pairs = cast(Mapping[str, Any], data)
        data = {key: value for key, value in pairs.items() if key != "name" or value != label}
    filled = without_empty(data)
    if filled is None:
        return None
    text, as_json = compact_value(filled), len(compact_json(data))
    # The limit counts JSON characters: what fits there is shown, in a shorter notation.
    return cut(text, min(limit, limit * len(text) // as_json) if as_json > limit else len(text))


def says_same(key: str, name: str) -> bool:
    """Return whether a name only repeats a key's last part: `api-call` and `API Call`."""
    return letters(name) in (letters(key), letters(key.rpartition(".")[2]))


def edge_row(edge: Edge) -> Row:
    """Return the row of an edge."""
    return {
        "from": f"{edge.source}:{edge.source_handle}",
        "to": f"{edge.target}:{edge.target_handle}",
        "label": None if edge.label is None else cut_name(edge.label, MAX_NAME_CHARS),
    }


def type_row(config: NodeTypeConfig, *, truncate_process: int, with_process: bool) -> Row:
    """Return the row of a node type, with its code where a node without its own is shown."""
    code, name = config.node.process if with_process else None, config.display_name
    return {
        "type": cut(config.type, MAX_TYPE_CHARS),
        "name": None if says_same(config.type, name) else cut_name(name, MAX_NAME_CHARS),
        "description": cut_name(config.description, MAX_DESCRIPTION_CHARS) or None,
        "handles": cut(compact_handles(config.node.handles), MAX_HANDLES_CHARS) or None,
        "process": cut(code, truncate_process) if code else None,
    }


def why(scored: ScoredNode) -> str:
    """Return a node's score (best: 100) and why it is there, as `87 text+vector` or `31 near fetch-api`.

    A score says nothing where no node is near the question: it is `weak` then.
    """
    short = dict.fromkeys(map(_short_reason, scored.reasons))
    score = "weak" if scored.weak else str(round(scored.score * 100))
    return f"{score} {'+'.join(short)}".strip()


def _short_reason(reason: str) -> str:
    kind, colon, key = reason.partition(":")
    return f"{_REASONS.get(kind, kind)} {key}" if colon else _REASONS.get(reason, reason)
