"""Builds the text a model is given of a retrieval: nodes, edges and types as TOON tables, within a budget.

Everything of the graph stands inside a table's cell, quoted by TOON where needed, so text written
in a node cannot pass for a heading, another row or an instruction of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

from graphrag.i18n import Language
from graphrag.retrieval.context_rows import Row, edge_row, node_row, type_row
from graphrag.retrieval.retrieval_result import Retrieval
from tools.toon import compact_json, encode_table

CONTEXT_MARKER = "[GRAPH CONTEXT]"
"""First line of every context message: it tells old context blocks of a conversation from the rest."""

Section = Literal["nodes", "edges", "types"]

_ALWAYS: dict[Section, tuple[str, ...]] = {
    "nodes": ("_key", "type", "sheet", "process"),
    "edges": ("from", "to", "label"),
    "types": ("type", "name", "description", "handles"),
}
_WHEN_PRESENT: dict[Section, tuple[str, ...]] = {
    "nodes": ("name", "data", "handles", "why"),
    "edges": (),
    "types": ("process",),
}

_HEADINGS: dict[Language, dict[Section, str]] = {
    "en": {"nodes": "RELEVANT NODES", "edges": "RELEVANT EDGES", "types": "TYPES USED"},
    "fr": {"nodes": "NODES PERTINENTS", "edges": "EDGES PERTINENTES", "types": "TYPES UTILISÉS"},
}
_EMPTY: dict[Language, str] = {
    "en": "No node of this graph matches the question.",
    "fr": "Aucun node de ce graphe ne correspond à la question.",
}
_TOO_LONG: dict[Language, str] = {
    "en": "{n} nodes were found, too long to show here: search for them.",
    "fr": "{n} nodes trouvés, trop longs pour être montrés ici : cherche-les.",
}
_DROPPED: dict[Language, str] = {
    "en": "{n} less relevant nodes left out for length.",
    "fr": "{n} nodes moins pertinents omis faute de place.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How much to show. Units: characters of a node's code and of its data's JSON, tokens of the text.

    Without `with_types` the types of the nodes are not described.
    """

    truncate_process: int = 500
    truncate_data: int = 200
    budget_tokens: int = 4000
    language: Language = "en"
    with_types: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A context text and what is in it; `nodes` and `edges` are keys, most relevant first.

    `tables` holds the rows of the text as they were before they became TOON. `truncated` says
    that the code or data of the one node shown was cut further than asked, to fit the budget.
    `outlined`: the text begins with an outline of the whole graph.
    """

    text: str
    tokens: int
    nodes: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    dropped_nodes: int = 0
    dropped_edges: int = 0
    truncated: bool = False
    outlined: bool = False
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(
        default_factory=dict[str, Sequence[Mapping[str, Any]]]
    )

    def as_json(self) -> str:
        """Return the same fields as compact JSON: what the text is measured against."""
        return compact_json({name: [dict(row) for row in rows] for name, rows in self.tables.items()})


def build_context(found: Retrieval, options: ContextOptions, count_tokens: Callable[[str], int]) -> Context:
    """Return as many of the nodes (the first ones) as `budget_tokens` holds, their edges and types.

    An edge to a node left out, and a type no shown node has, are left out.
    The text never exceeds the budget; where not even a sentence fits it is empty.
    """
    language, nodes, edges = options.language, len(found.nodes), len(found.edges)
    if not nodes:
        return _sentence(_EMPTY[language], 0, edges, options, count_tokens)
    whole = _ContextDraft(found, options)
    made = whole.at(nodes, count_tokens)
    if made.tokens <= options.budget_tokens:
        return made
    smaller = _largest(whole, count_tokens) or _squeezed(whole, count_tokens)
    return smaller or _sentence(_TOO_LONG[language].format(n=nodes), nodes, edges, options, count_tokens)


def _sentence(
    text: str, nodes: int, edges: int, options: ContextOptions, count_tokens: Callable[[str], int]
) -> Context:
    tokens = count_tokens(text)
    if tokens > options.budget_tokens:
        text, tokens = "", 0
    return Context(text=text, tokens=tokens, dropped_nodes=nodes, dropped_edges=edges)


def _largest(draft: _ContextDraft, count_tokens: Callable[[str], int]) -> Context | None:
    """Return the longest beginning of the ranking that fits. A row more never makes a text shorter."""
    low, high = 1, len(draft.found.nodes) - 1
    best: Context | None = None
    while low <= high:
        middle = (low + high) // 2
        tried = draft.at(middle, count_tokens)
        if tried.tokens <= draft.options.budget_tokens:
            best, low = tried, middle + 1
        else:
            high = middle - 1
    return best


def _squeezed(draft: _ContextDraft, count_tokens: Callable[[str], int]) -> Context | None:
    """Return the best node alone with its code and data cut shorter, if that fits."""
    o = draft.options
    process, data = o.truncate_process, o.truncate_data
    while process or data:
        process, data = process // 3, data // 3
        shorter = replace(o, truncate_process=process, truncate_data=data)
        smaller = _ContextDraft(draft.found, shorter, truncated=True)
        tried = smaller.at(1, count_tokens)
        if tried.tokens <= o.budget_tokens:
            return tried
    return None


@dataclass(slots=True)
class _ContextDraft:
    """One retrieval and the rows it makes, each made once however many cuts are tried."""

    found: Retrieval
    options: ContextOptions
    truncated: bool = False
    rows: list[Row] = field(default_factory=list[Row])

    def at(self, count: int, count_tokens: Callable[[str], int]) -> Context:
        """Return the context of the first `count` nodes."""
        while len(self.rows) < count:
            scored = self.found.nodes[len(self.rows)]
            row = node_row(
                scored,
                self.found.configs.get(scored.node.type),
                self.found.graph,
                truncate_process=self.options.truncate_process,
                truncate_data=self.options.truncate_data,
            )
            self.rows.append(row)
        place = {scored.node.key: i for i, scored in enumerate(self.found.nodes[:count])}
        edges = [edge for edge in self.found.edges if edge.source in place and edge.target in place]
        edges.sort(key=lambda edge: sorted((place[edge.source], place[edge.target])))
        types = self._types(count)
        tables: dict[Section, list[Row]] = {
            "nodes": self.rows[:count],
            "edges": [edge_row(edge) for edge in edges],
            "types": types,
        }
        text, shown = _write(tables, len(self.found.nodes) - count, self.options.language)
        return Context(
            text=text,
            tokens=count_tokens(text),
            nodes=tuple(scored.node.key for scored in self.found.nodes[:count]),
            edges=tuple(edge.key for edge in edges),
            types=tuple(row["type"] for row in types),
            dropped_nodes=len(self.found.nodes) - count,
            dropped_edges=len(self.found.edges) - len(edges),
            truncated=self.truncated,
            tables=shown,
        )

    def _types(self, count: int) -> list[Row]:
        if not self.options.with_types:
            return []
        bare: dict[str, bool] = {}
        for scored in self.found.nodes[:count]:
            without = scored.node.process is None
            bare[scored.node.type] = bare.get(scored.node.type, False) or without
        return [
            type_row(
                self.found.configs[name], truncate_process=self.options.truncate_process, with_process=without
            )
            for name, without in bare.items()
            if name in self.found.configs
        ]


def _write(
    tables: Mapping[Section, list[Row]], dropped: int, language: Language
) -> tuple[str, dict[str, Sequence[Mapping[str, Any]]]]:
    parts: list[str] = []
    shown: dict[str, Sequence[Mapping[str, Any]]] = {}
    for section, rows in tables.items():
        if not rows:
            continue
        more = dict.fromkeys(chain(_WHEN_PRESENT[section], *rows))  # a row may have cells of its own
        extra = [c for c in more if c not in _ALWAYS[section] and any(row.get(c) is not None for row in rows)]
        columns = [*_ALWAYS[section], *extra]
        parts.append(f"{_HEADINGS[language][section]}\n{encode_table(None, rows, columns)}")
        shown[section] = [{column: row.get(column) for column in columns} for row in rows]
    if dropped:
        parts.append(_DROPPED[language].format(n=dropped))
    return "\n\n".join(parts), shown
