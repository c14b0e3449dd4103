"""Lets twins take one place: nodes of one name and two types that an edge joins.

A passage and the entity that it is about are one thing twice: of 20 places for a question about
MuSiQue they took three twice. The one that says less stands behind all others. Nodes of one type
are no twins: steps of a workflow are often called alike. Giving each the scores of both was tried,
too: on MuSiQue recall@5 rose from .662 to .690, but what two nodes of one name have in common with
a question counted twice, and where other things have similar names the second passage of two was
found less often (recall@2 of made-up passages fell from 1.000 to .875).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from datasources.text import flatten, letters, node_label
from datasources.types import Edge, ScoredNode

Twins = frozenset[tuple[str, str]]


def namesakes(names: Mapping[str, Sequence[str]]) -> int:
    """Return how many nodes are called as another one before them; `names` are those of each
    node, by key.
    """
    return len(names) - len(
        {letters(called[0]) if called else key for key, called in names.items()}
    )


def twins_among(nodes: Sequence[ScoredNode], edges: Iterable[Edge]) -> Twins:
    """Return the pairs of keys of twins, each both ways."""
    names = {scored.node.key: letters(node_label(scored.node)) for scored in nodes}
    found: set[tuple[str, str]] = set()
    if len(set(names.values())) < len(names):  # else there are none, as most times
        types = {scored.node.key: scored.node.type for scored in nodes}
        for source, target in ((edge.source, edge.target) for edge in edges):
            if (
                (name := names.get(source))
                and name == names.get(target)
                and types[source] != types[target]
            ):
                found |= {(source, target), (target, source)}
    return frozenset(found)


def one_place_each(nodes: Sequence[ScoredNode], twins: Twins) -> list[ScoredNode]:
    """Return nodes with those last that have a twin among them which says more."""
    if not twins:
        return list(nodes)
    place = {scored.node.key: i for i, scored in enumerate(nodes)}
    says = {key: len(flatten(nodes[place[key]].node.data)) for key, _ in twins if key in place}
    less = {
        key
        for key, twin in twins
        if key in says and twin in says and (says[key], -place[key]) < (says[twin], -place[twin])
    }
    first = [scored for scored in nodes if scored.node.key not in less]
    least = first[-1].score
    last = [replace(n, score=min(n.score, least)) for n in nodes if n.node.key in less]
    return first + last
