"""Signal: twins, two connected nodes with the same name and different types, take one place.

A passage and the entity that it is about are the same thing: such pairs took 3 of 20 places for
questions of MuSiQue. The twin with less text is moved behind all other nodes. Nodes of the same
type are no twins: steps of a workflow often have the same name. Giving each twin the scores
of both was tried, too: on MuSiQue recall@5 rose from .662 to .690, but the words that both names
share with a question counted twice, and among things with similar names the second of two passages
was found less often (recall@2 of made-up passages fell from 1.000 to .875).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from datasources.text import flatten, letters, node_label
from datasources.types import Edge, ScoredNode

Twins = frozenset[tuple[str, str]]


def namesakes(names: Mapping[str, Sequence[str]]) -> int:
    """Returns the number of nodes with the same name as another; `names` are by node key."""
    return len(names) - len(
        {letters(called[0]) if called else key for key, called in names.items()}
    )


def twins_among(nodes: Sequence[ScoredNode], edges: Iterable[Edge]) -> Twins:
    """Returns the pairs of keys of twins, in both orders."""
    names = {scored.node.key: letters(node_label(scored.node)) for scored in nodes}
    twins: set[tuple[str, str]] = set()
    if len(set(names.values())) < len(names):  # rarely true
        types = {scored.node.key: scored.node.type for scored in nodes}
        for source, target in ((edge.source, edge.target) for edge in edges):
            if (
                (name := names.get(source))
                and name == names.get(target)
                and types[source] != types[target]
            ):
                twins |= {(source, target), (target, source)}
    return frozenset(twins)


def one_place_each(nodes: Sequence[ScoredNode], twins: Twins) -> list[ScoredNode]:
    """Returns the nodes, with those last that have a twin with more text."""
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
