"""Writes a retrieval as context for a model: nodes, flow and types within a budget of tokens.

A small graph that fits is written completely, without cuts. For a larger graph the best nodes are
written in detail, then other nodes get one line each, until the budget is used.

All text of the graph is inside a table cell or a quoted name, so that the text of a node cannot be
mistaken for a heading, another row or an instruction of the system.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from datasources.text import tokenize
from datasources.types import Edge, Node, NodeTypeConfig, ScoredNode
from graphrag.i18n import Language
from graphrag.layout import holders
from graphrag.prompts.library import context_phrase
from graphrag.retrieval.context_columns import ALWAYS, WHEN_PRESENT, Section
from graphrag.retrieval.context_rows import (
    DATA_CHARS,
    Row,
    brief_row,
    node_row,
    note_row,
    type_row,
    why,
)
from graphrag.retrieval.flow_lines import edge_rows, flow_lines, unconnected, walking_order
from graphrag.retrieval.retrieval_result import Retrieval
from tools.node_meaning import NodeFact, facts_of
from tools.node_meaning.writing import NO_WORDS, by_relevance
from tools.toon import compact_json, encode_table

# First line of every context message. Old context blocks of a conversation are recognised by it.
CONTEXT_MARKER = "[GRAPH CONTEXT]"

UNCUT = (20_000, 20_000)  # characters of a node's code and data in a graph that is written whole
FULL_CHARS = (6_000, 1_500)  # characters of a node with more room; the first size that fits is used
# Share of the budget reserved for one line per retrieved node before nodes are written in detail.
BRIEF_SHARE = 1 / 3
MAX_BRIEF = 40  # nodes written as one line before the nodes in detail get more room

NOTES_SHARE = 1 / 8  # maximum share of the budget for retrieved notes


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """Limits of a context. Units: characters of a node's code and of its data, tokens of the text.

    Without `with_types` only types with code are shown, for nodes that have no code of their own.
    Without `names_relevant` a graph that is written whole does not list the nodes retrieved.
    """

    truncate_process: int = 500
    truncate_data: int = DATA_CHARS
    budget_tokens: int = 4000
    language: Language = "en"
    with_types: bool = True
    names_relevant: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeGraph:
    """All nodes and edges of a graph that is small enough to be read completely."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    configs: Mapping[str, NodeTypeConfig] = field(default_factory=dict[str, NodeTypeConfig])


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A context text and the keys of the nodes and edges in it, most relevant first.

    `brief` are the keys of nodes shown in one line. `tables` holds the rows of the text before they
    were encoded as TOON. `truncated`: only one node is shown, and it was cut below the limits of
    the options to fit the budget. `whole`: all nodes are shown without cuts. `outlined`: the text
    begins with an outline of the whole graph.
    """

    text: str
    tokens: int
    nodes: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    dropped_nodes: int = 0
    dropped_edges: int = 0
    truncated: bool = False
    whole: bool = False
    outlined: bool = False
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(
        default_factory=dict[str, Sequence[Mapping[str, Any]]]
    )

    def as_json(self) -> str:
        """Returns the same fields as compact JSON, the baseline for the size of the text."""
        return compact_json(
            {name: [dict(row) for row in rows] for name, rows in self.tables.items()}
        )


def build_context(
    retrieval: Retrieval,
    options: ContextOptions,
    count_tokens: Callable[[str], int],
    graph: WholeGraph | None = None,
) -> Context:
    """Returns a context of the retrieved nodes, their edges and types, and other nodes of `graph`.

    The text never exceeds `budget_tokens`. It is empty if not even one sentence fits.
    """
    language = options.language
    nodes = len(retrieval.nodes)
    edges = len(retrieval.edges)
    if not nodes and graph is None:
        empty = context_phrase("empty", language)
        return _sentence(empty, 0, edges, options, count_tokens)
    writer = _ContextWriter(retrieval, options, count_tokens, graph)
    context = writer.whole() or writer.filled() or writer.squeezed()
    if context is not None:
        return context
    text = (
        context_phrase("too_long", language, n=nodes)
        if nodes
        else context_phrase("empty", language)
    )
    return _sentence(text, nodes, edges, options, count_tokens)


def _sentence(
    text: str, nodes: int, edges: int, options: ContextOptions, count_tokens: Callable[[str], int]
) -> Context:
    tokens = count_tokens(text)
    if tokens > options.budget_tokens:
        text, tokens = "", 0
    return Context(text=text, tokens=tokens, dropped_nodes=nodes, dropped_edges=edges)


@dataclass(slots=True)
class _Plan:
    """The nodes to write in detail, with their maximum characters of (code, data), the nodes to
    write in one line, and the notes.
    """

    detailed: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    brief: dict[str, None] = field(default_factory=dict[str, None])
    notes: dict[str, None] = field(default_factory=dict[str, None])


class _ContextWriter:
    """Writes one retrieval as text. Rows are cached by node and length."""

    def __init__(
        self,
        retrieval: Retrieval,
        options: ContextOptions,
        count_tokens: Callable[[str], int],
        graph: WholeGraph | None,
    ) -> None:
        self._retrieval = retrieval
        self._options = options
        self._count = count_tokens
        self._words = frozenset(tokenize(retrieval.question))
        self._scored = {scored.node.key: scored for scored in retrieval.nodes}
        self._graph = graph
        self._nodes = {node.key: node for node in graph.nodes} if graph else {}
        self._nodes |= {key: scored.node for key, scored in self._scored.items()}
        self._notes = [scored.node.key for scored in retrieval.canvas_notes]
        self._nodes |= {scored.node.key: scored.node for scored in retrieval.canvas_notes}
        self._held: dict[str, list[str]] = defaultdict(list)
        for key, holder in holders(self._nodes).items() if self._notes else ():
            self._held[holder].append(key)
        self._edges = graph.edges if graph else retrieval.edges
        self._configs = {**retrieval.configs, **(graph.configs if graph else {})}
        self._order = walking_order(list(self._nodes.values()), self._edges)
        self._facts: dict[str, Sequence[NodeFact]] = {}
        self._ordered: dict[tuple[str, frozenset[str]], Sequence[NodeFact]] = {}
        self._rows: dict[tuple[str, tuple[int, int]], Row] = {}

    def whole(self) -> Context | None:
        """Returns the whole graph in walking order, without cuts, or None if it does not fit."""
        if self._graph is None or not self._graph.nodes:
            return None
        plan = _Plan(detailed=dict.fromkeys(self._order, UNCUT))
        context = self._written(plan, whole=True)
        return context if context.tokens <= self._options.budget_tokens else None

    def filled(self) -> Context | None:
        """Returns the best nodes in detail and others in one line, as many as fit.

        Returns None if the best node does not fit with the limits of the options.
        """
        o = self._options
        normal = (o.truncate_process, o.truncate_data)
        ranked = list(self._scored)
        if not ranked:
            return None
        plan = _Plan(detailed={ranked[0]: normal})
        left = o.budget_tokens - self._written(plan).tokens
        if left < 0:
            return None
        left = self._name_notes(plan, left)
        left = self._name(plan, ranked[1:], left, least=int(o.budget_tokens * (1 - BRIEF_SHARE)))
        types = self._types_size(plan.detailed)
        for key in ranked[1:]:  # in order: a lower-ranked one never takes the place of a better one
            cost = self._size(key, normal) - (self._brief_size(key) if key in plan.brief else 0)
            with_its_type = self._types_size([*plan.detailed, key])
            cost += with_its_type - types
            if cost > left:
                break
            types = with_its_type
            plan.brief.pop(key, None)
            plan.detailed[key] = normal
            left -= cost
        others = [key for key in (*ranked, *self._near(ranked)) if key not in plan.detailed]
        others = [key for key in others if key not in plan.brief]
        left = self._name(plan, others[:MAX_BRIEF], left)
        for key, chars in [(key, (chars, chars)) for key in plan.detailed for chars in FULL_CHARS]:
            cost = self._size(key, chars) - self._size(key, plan.detailed[key])
            if 0 < cost <= left:
                plan.detailed[key] = chars
                left -= cost
        self._name(plan, others[MAX_BRIEF:], left)
        return self._fitted(plan)

    def squeezed(self) -> Context | None:
        """Returns only the best node, with its code and data cut until it fits, or None."""
        process = self._options.truncate_process
        data = self._options.truncate_data
        best = next(iter(self._scored), None)
        while best is not None and (process or data):
            process = process // 3
            data = data // 3
            context = self._written(_Plan(detailed={best: (process, data)}), truncated=True)
            if context.tokens <= self._options.budget_tokens:
                return context
        return None

    def _near(self, ranked: Sequence[str]) -> list[str]:
        """Returns the other nodes of the graph: neighbours of ranked nodes, then walking order."""
        ranked_keys = set(ranked)
        ends = [
            key
            for e in self._edges
            for key in (e.source, e.target)
            if ranked_keys & {e.source, e.target}
        ]
        return [
            key
            for key in dict.fromkeys((*ends, *self._order))
            if key not in ranked_keys and key not in self._notes and key in self._nodes
        ]

    def _name(self, plan: _Plan, keys: Iterable[str], left: int, least: int = 0) -> int:
        """Adds nodes in one line while `least` tokens are left, and returns the tokens left."""
        for key in keys:
            cost = self._brief_size(key)
            if left - cost < least:
                break
            plan.brief[key] = None
            left -= cost
        return left

    def _name_notes(self, plan: _Plan, left: int) -> int:
        """Adds the retrieved notes, best first, within their share; returns the tokens left."""
        room = min(left, int(self._options.budget_tokens * NOTES_SHARE))
        for key in self._notes:
            cost = self._count(",".join(str(value) for value in self._note(key).values()))
            if cost > room:
                break
            plan.notes[key] = None
            room -= cost
            left -= cost
        return left

    def _note(self, key: str) -> Row:
        return note_row(self._nodes[key], self._facts_of(key, NO_WORDS), self._held.get(key, []))

    def _fitted(self, plan: _Plan) -> Context:
        """Returns the text of a plan; drops the last additions if it exceeds the budget."""
        context = self._written(plan)
        normal = (self._options.truncate_process, self._options.truncate_data)
        while context.tokens > self._options.budget_tokens:
            long = [key for key, chars in plan.detailed.items() if chars != normal]
            if long:
                plan.detailed[long[-1]] = normal
            elif plan.brief:
                plan.brief.popitem()
            elif plan.notes:
                plan.notes.popitem()
            else:
                plan.detailed.popitem()
            context = self._written(plan)
        return context

    def _row(self, key: str, chars: tuple[int, int]) -> Row:
        if (key, chars) not in self._rows:
            scored = self._scored.get(key)
            row = node_row(
                scored or ScoredNode(node=self._nodes[key], score=0.0),
                self._configs.get(self._nodes[key].type),
                self._retrieval.graph,
                truncate_process=chars[0],
                truncate_data=chars[1],
                words=NO_WORDS if chars == UNCUT else self._words,
                facts=self._facts_of(key, NO_WORDS if chars == UNCUT else self._words),
            )
            self._rows[key, chars] = row
        return self._rows[key, chars]

    def _facts_of(self, key: str, words: frozenset[str]) -> Sequence[NodeFact]:
        """Returns the facts in a node's data, those about the question first. Cached by node."""
        if key not in self._facts:
            self._facts[key] = facts_of(self._nodes[key])
        if (key, words) not in self._ordered:
            self._ordered[key, words] = by_relevance(self._facts[key], words)
        return self._ordered[key, words]

    def _brief(self, key: str) -> Row:
        return brief_row(self._nodes[key], self._facts_of(key, NO_WORDS))

    def _size(self, key: str, chars: tuple[int, int]) -> int:
        """Returns an estimate of the tokens of a node in detail."""
        row = self._row(key, chars)
        return self._count(encode_table(None, [row], list(row))) - self._count(
            encode_table(None, [], list(row))
        )

    def _types_size(self, keys: Iterable[str]) -> int:
        """Returns an estimate of the tokens of the types of some nodes."""
        rows = self._types(keys)
        return self._count(_table("types", rows)[0]) if rows else 0

    def _brief_size(self, key: str) -> int:
        row = self._brief(key)
        return self._count(",".join(str(value) for value in row.values()))

    def _written(self, plan: _Plan, *, whole: bool = False, truncated: bool = False) -> Context:
        """Returns the context of a plan without checking its size."""
        shown = {**plan.detailed, **plan.brief}
        edges = [edge for edge in self._edges if edge.source in shown and edge.target in shown]
        rows = [self._row(key, chars) for key, chars in plan.detailed.items()]
        # Text that depends on the question comes last, to keep a provider's prompt cache valid.
        if whole:
            rows = [{**row, "why": None} for row in rows]
        types = self._types(list(plan.detailed))
        tables: dict[Section, list[Row]] = {
            "nodes": rows,
            "notes": [self._note(key) for key in plan.notes],
            "others": [self._brief(key) for key in plan.brief],
            "types": types,
        }
        left_out = [key for key in self._scored if key not in shown]
        text, columns = self._text(tables, edges, shown, len(left_out), whole=whole)
        ranked = [key for key in self._scored if key in plan.detailed]
        return Context(
            text=text,
            tokens=self._count(text),
            nodes=(*ranked, *(key for key in plan.detailed if key not in self._scored)),
            brief=(*plan.brief, *plan.notes),
            edges=tuple(edge.key for edge in edges),
            types=tuple(row["type"] for row in types),
            dropped_nodes=len(left_out),
            dropped_edges=len(self._edges) - len(edges),
            truncated=truncated,
            whole=whole,
            tables={**columns, **({"edges": edge_rows(edges, self._nodes)} if edges else {})},
        )

    def _text(
        self,
        tables: Mapping[Section, list[Row]],
        edges: Sequence[Edge],
        shown: Iterable[str],
        left_out: int,
        *,
        whole: bool,
    ) -> tuple[str, dict[str, Sequence[Mapping[str, Any]]]]:
        language = self._options.language
        names = {"nodes": "whole"} if whole else {}
        texts: dict[str, str] = {}
        columns: dict[str, Sequence[Mapping[str, Any]]] = {}
        for section, rows in tables.items():
            if rows:
                table, columns[section] = _table(section, rows)
                heading = context_phrase(names.get(section, section), language)
                texts[section] = f"{heading}\n{table}"
        nodes = [self._nodes[key] for key in shown]
        lines = flow_lines(nodes, edges, [key for key in self._order if key in set(shown)])
        loose = unconnected(nodes, self._edges) if self._graph else []
        if loose:
            lines.append(context_phrase("loose", language, nodes=", ".join(loose)))
        if lines:
            texts["flow"] = "\n".join([context_phrase("flow", language), *lines])
        order = (
            ("flow", "nodes", "types") if whole else ("nodes", "flow", "notes", "others", "types")
        )
        parts = [texts[name] for name in order if name in texts]
        if whole and self._scored and self._options.names_relevant:
            best = [f"{key} ({why(scored)})" for key, scored in list(self._scored.items())[:5]]
            parts.append(context_phrase("relevant", language, nodes=compact_json(best)))
        if left_out:
            parts.append(context_phrase("dropped", language, n=left_out))
        return "\n\n".join(parts), columns

    def _types(self, keys: Iterable[str]) -> list[Row]:
        """Returns rows for the types of some nodes, with code if a node has no code of its own."""
        bare: dict[str, bool] = {}
        for node in (self._nodes[key] for key in keys):
            bare[node.type] = bare.get(node.type, False) or node.process is None
        configs = self._configs
        limit = self._options.truncate_process
        return [
            type_row(configs[name], truncate_process=limit, with_process=without)
            for name, without in bare.items()
            if name in configs
            and (self._options.with_types or (without and configs[name].node.process))
        ]


def _table(section: Section, rows: Sequence[Row]) -> tuple[str, list[dict[str, Any]]]:
    """Returns rows as a table and as mappings of the columns shown. Empty columns are left out."""
    more = dict.fromkeys(chain(WHEN_PRESENT[section], *rows))  # rows may have further columns
    extra = [
        c for c in more if c not in ALWAYS[section] and any(row.get(c) is not None for row in rows)
    ]
    columns = [*ALWAYS[section], *extra]
    return encode_table(None, rows, columns), [{c: row.get(c) for c in columns} for row in rows]
