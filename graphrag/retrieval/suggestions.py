"""Writes a summary of a graph and three first questions that the rules can answer."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from datasources.base import GraphDataSource
from datasources.text import node_label
from datasources.types import Edge, Graph, Node
from graphrag.i18n import Language, text
from tools.flow_summary import FlowSummary, beginning, summarize_flow
from tools.node_values import values_of

MAX_NODES = 5_000  # the nodes of a larger graph are not read for its summary
ABOUT_CHARS = 300
MAX_NAMED = 3  # nodes named in one sentence
MAX_NAME = 60  # characters of a node's name in a question
_UNQUOTABLE = re.compile(r"[\"“”„«»`{}\n]")
_LATER: Sequence[str] = ("schedule", "model", "credential")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """A summary of a graph in a few sentences, and first questions about it."""

    summary: str
    questions: Sequence[str]
    language: Language


async def suggest(source: GraphDataSource, graph: Graph, language: Language) -> Suggestions:
    """Returns the summary of a graph and its first questions. Raises: GraphNotFound."""
    stats = await source.get_stats(graph.key)
    nodes: list[Node] = []
    edges: list[Edge] = []
    if stats.nodes <= MAX_NODES:
        nodes = await source.get_nodes(graph.key)
        edges = await source.get_edges(graph.key)
    return await asyncio.to_thread(_suggested, graph, nodes, edges, language)


def _suggested(
    graph: Graph, nodes: Sequence[Node], edges: Sequence[Edge], language: Language
) -> Suggestions:
    flow = summarize_flow(nodes, edges)
    names = {node.key: node_label(node) for node in nodes}
    full_description = graph.description or next((note_text for _, note_text in flow.notes), "")
    name = " ".join(graph.name.split())
    description = beginning(full_description.removeprefix(name).lstrip(" .:"), ABOUT_CHARS)
    lines = [f"{name}: {description}" if description else f"{name}."]
    for key, keys in (("suggest_starts", flow.starts), ("suggest_ends", flow.ends)):
        if keys:
            shown = ", ".join(names[one] for one in keys[:MAX_NAMED])
            lines.append(
                text(key, language, nodes=shown + (", …" if len(keys) > MAX_NAMED else ""))
            )
    if len(flow.way) > 1:
        lines.append(text("suggest_way", language, n=len(flow.way) - 1))
    return Suggestions(
        summary=" ".join(lines),
        questions=_questions(flow, nodes, edges, names, language),
        language=language,
    )


def _questions(
    flow: FlowSummary,
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    names: dict[str, str],
    language: Language,
) -> Sequence[str]:
    """Returns three questions: about the purpose, about the failure of a step, and about settings.

    The step is on the main path, preferably one with several outputs in use.
    """
    if not nodes:
        return (text("suggest_types", language),)
    often = Counter(name.casefold() for name in names.values())
    uses = Counter(node for node, _ in {(edge.source, edge.source_handle) for edge in edges})
    way = sorted(flow.way[1:], key=lambda key: uses[key] < 2)
    clear = [key for key in (*way, *flow.starts)
             if often[names[key].casefold()] == 1 and len(names[key]) <= MAX_NAME
             and not _UNQUOTABLE.search(names[key])]  # fmt: skip
    fails = [text("suggest_fails", language, name=names[clear[0]])] if clear else []
    held = [kind for kind in _LATER if any(values_of(node, kind) is not None for node in nodes)]
    later = [text(f"suggest_{kind}", language) for kind in (*held, "checked", "sizes")]
    return (text("suggest_what", language), *fails, *later)[:3]
