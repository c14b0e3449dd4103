"""Finds the nodes a model may have meant by a key that does not exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from datasources.base import GraphDataSource
from datasources.text import node_label, stemmed
from datasources.types import Graph, Node
from tools.compact import cut_name, sheet_label

MAX_QUERY_CHARS = 200
SCANNED_NODES = 500
"""Keys compared one by one: those that follow the beginning of the wrong key, in key order."""

_LEAST_ALIKE = 0.55
_SPAN = 0.25
_LINK = re.compile(r"^\{\{\w+:(.*)\}\}$")


async def near_nodes(source: GraphDataSource, graph: Graph, wrong_key: str, *, limit: int = 5) -> list[Node]:
    """Return the nodes most alike a key that does not exist, best first; on a large graph, of a sample.

    Case, a `{{node:KEY}}` around it, the graph's key before it and a handle behind it are seen through.
    """
    wanted = _plain(wrong_key, graph.key)
    found: dict[str, Node] = {}
    words = stemmed(wanted, graph.language)
    hits = [
        *await source.search_text(graph.key, words, limit=10, field="name"),
        *await source.search_text(graph.key, words, limit=5),
    ]
    for node in await source.get_nodes_by_key(graph.key, [wanted, *(hit.key for hit in hits)]):
        found[node.key] = node
    for start in dict.fromkeys((None, wanted[:3], wanted[:3].lower(), wanted[:3].upper())):
        for node in await source.get_nodes(graph.key, after=start or None, limit=SCANNED_NODES):
            found.setdefault(node.key, node)
    hit_keys = [hit.key for hit in hits]
    ranked = sorted((-_likeness(node, wanted, hit_keys), node.key) for node in found.values())
    # Where one is as good as right, weak likenesses would only distract.
    least = max(_LEAST_ALIKE, -ranked[0][0] - _SPAN) if ranked else 0.0
    return [found[key] for score, key in ranked if -score >= least][:limit]


def _plain(key: str, graph_key: str) -> str:
    key = key.strip()[:MAX_QUERY_CHARS]
    link = _LINK.match(key)
    key = link.group(1) if link else key
    return key.removeprefix("nodius_nodes/").removeprefix(f"{graph_key}-").strip() or "?"


def _likeness(node: Node, wanted: str, hits: Sequence[str]) -> float:
    low = wanted.casefold()
    best = 0.0
    for text in (node.key.casefold(), node_label(node).casefold()[:MAX_QUERY_CHARS]):
        if text == low:
            return 2.0
        if low.startswith(f"{text}:"):  # a key with a handle behind it
            best = max(best, 1.5)
        matcher = difflib.SequenceMatcher(None, text, low)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            best = max(best, matcher.ratio())
    if node.key in hits[:3]:
        best = max(best, 0.6)
    return best


def describe_near(near: Sequence[Node], graph: Graph) -> str | None:
    """Return the nodes on one line, as `fetch-api (Fetch players, sheet 0 main)`; None for none."""
    names = [f"{cut_name(node_label(node), 60)}, sheet {sheet_label(graph, node.sheet)}" for node in near]
    texts = [f"{cut_name(node.key, 200)} ({name})" for node, name in zip(near, names, strict=True)]
    return "; ".join(texts) or None
