"""Arranges nodes in layers along their edges, left to right or top down; others stay where they are.

Layers come from networkx (longest path, once the edges that close a cycle are turned round); nodes
of a layer are ordered by the barycentre of their neighbours.
Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System
Structures", IEEE Trans. SMC 11(2), 1981.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from datasources.types import Edge, Node
from graphrag.approvals.actions.placement import GAP, LIMIT, Boxes, Place
from tools.proposal_parts import Strategy

LAYER_GAP = 120
ROW_GAP = 60
_SWEEPS = 8
_SHIFTS = 60


def arrange(
    keys: Sequence[str], nodes: Mapping[str, Node], edges: Iterable[Edge], strategy: Strategy
) -> dict[str, Place]:
    """Return new places for the named nodes, sheet by sheet, around where they are and over no other node."""
    named = list(dict.fromkeys(keys))
    links = sorted({(e.source, e.target) for e in edges if e.source != e.target})
    found: dict[str, Place] = {}
    for sheet in dict.fromkeys(nodes[key].sheet for key in named):
        own = [nodes[key] for key in named if nodes[key].sheet == sheet]
        inside = {node.key for node in own}
        kept = [link for link in links if link[0] in inside and link[1] in inside]
        others = [node for key, node in nodes.items() if node.sheet == sheet and key not in inside]
        found.update(_on_sheet(own, kept, Boxes(others), strategy))
    return found


def _on_sheet(
    own: Sequence[Node], links: Sequence[tuple[str, str]], others: Boxes, strategy: Strategy
) -> dict[str, Place]:
    flip = strategy == "top_down"
    by_key = {node.key: node for node in own}
    spots: dict[str, tuple[float, float]] = {}
    across = 0.0
    for part in _parts(own, links, flip):
        layers = _layers(part, [link for link in links if link[0] in part], by_key, flip)
        placed = _spots(layers, links, by_key, flip)
        top = min(spot[1] for spot in placed.values())
        spots |= {key: (along, spot - top + across) for key, (along, spot) in placed.items()}
        across = max(spots[key][1] + _extent(by_key[key], flip)[1] for key in part) + 2 * ROW_GAP
    shown = {key: (spot[1], spot[0]) if flip else spot for key, spot in spots.items()}
    return _shifted(shown, by_key, others)


def _extent(node: Node, flip: bool) -> tuple[float, float]:
    """Return a node's size along the layers and across them."""
    width, height = float(node.size.width), float(node.size.height)
    return (height, width) if flip else (width, height)


def _position(node: Node, flip: bool) -> float:
    """Return where a node stands across the layers: the order people gave is kept where it can be."""
    return float(node.pos_x + node.size.width / 2 if flip else node.pos_y + node.size.height / 2)


def _parts(own: Sequence[Node], links: Sequence[tuple[str, str]], flip: bool) -> list[list[str]]:
    """Return the connected parts, in the order in which they stand now."""
    import networkx as nx  # slow to import, needed for layouts alone

    graph = cast(Any, nx.Graph())
    graph.add_nodes_from(node.key for node in own)
    graph.add_edges_from(links)
    by_key = {node.key: node for node in own}
    parts = [sorted(part) for part in cast(Iterable[set[str]], nx.connected_components(graph))]
    return sorted(parts, key=lambda part: (min(_position(by_key[key], flip) for key in part), part))


def _layers(
    part: Sequence[str], links: Sequence[tuple[str, str]], by_key: Mapping[str, Node], flip: bool
) -> list[list[str]]:
    import networkx as nx

    graph = cast(Any, nx.DiGraph())
    graph.add_nodes_from(part)
    graph.add_edges_from(_without_cycles(part, links, by_key, flip))
    found = [list(layer) for layer in cast(Iterable[list[str]], nx.topological_generations(graph))]
    layers = [sorted(layer, key=lambda key: (_position(by_key[key], flip), key)) for layer in found]
    return _untangled(layers, links)


def _without_cycles(
    part: Sequence[str], links: Sequence[tuple[str, str]], by_key: Mapping[str, Node], flip: bool
) -> list[tuple[str, str]]:
    """Turn round each edge that leads back to a node which a walk from the starts has not left yet."""
    after: dict[str, list[str]] = {}
    for source, target in links:
        after.setdefault(source, []).append(target)
    entered = {target for _, target in links}
    starts = sorted(part, key=lambda key: (key in entered, _along(by_key[key], flip), key))
    state: dict[str, int] = {}  # 1: being walked, 2: done
    kept: list[tuple[str, str]] = []
    for start in starts:
        stack = [(start, iter(after.get(start, ())))] if start not in state else []
        state.setdefault(start, 1)
        while stack:
            key, rest = stack[-1]
            target = next(rest, None)
            if target is None:
                state[key] = 2
                stack.pop()
                continue
            kept.append((target, key) if state.get(target) == 1 else (key, target))
            if target not in state:
                state[target] = 1
                stack.append((target, iter(after.get(target, ()))))
    return kept


def _along(node: Node, flip: bool) -> float:
    return float(node.pos_y if flip else node.pos_x)


def _untangled(layers: list[list[str]], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Order each layer by where its neighbours stand: those before it, then those behind it, in turn."""
    level = {key: number for number, layer in enumerate(layers) for key in layer}
    before: dict[str, list[str]] = {}
    behind: dict[str, list[str]] = {}
    for one, other in (pair for link in links for pair in (link, link[::-1])):
        if level[one] < level[other]:
            before.setdefault(other, []).append(one)
            behind.setdefault(one, []).append(other)
    rank = {key: place / len(layer) for layer in layers for place, key in enumerate(layer)}

    def centre(key: str, around: Mapping[str, list[str]]) -> float:
        near = around.get(key, ())
        return sum(rank[other] for other in near) / len(near) if near else rank[key]

    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        around = before if down else behind
        for number in range(len(layers)) if down else reversed(range(len(layers))):
            wanted = {key: centre(key, around) for key in layers[number]}
            layers[number] = sorted(layers[number], key=wanted.__getitem__)
            rank.update({key: place / len(wanted) for place, key in enumerate(layers[number])})
    return layers


def _spots(
    layers: Sequence[Sequence[str]],
    links: Sequence[tuple[str, str]],
    by_key: Mapping[str, Node],
    flip: bool,
) -> dict[str, tuple[float, float]]:
    """Give each layer the room its largest node needs, and each node the height of its sources."""
    sources: dict[str, list[str]] = {}
    for source, target in links:
        sources.setdefault(target, []).append(source)
    found: dict[str, tuple[float, float]] = {}
    along = 0.0
    for layer in layers:
        centres: list[float] = []
        for key in layer:
            near = [found[s][1] + _extent(by_key[s], flip)[1] / 2 for s in sources.get(key, ()) if s in found]
            half = _extent(by_key[key], flip)[1] / 2
            want = sum(near) / len(near) if near else (centres[-1] if centres else 0.0)
            if centres:
                previous = _extent(by_key[layer[len(centres) - 1]], flip)[1] / 2
                want = max(want, centres[-1] + previous + ROW_GAP + half)
            centres.append(want)
        for key, centre in zip(layer, centres, strict=True):
            found[key] = (along, centre - _extent(by_key[key], flip)[1] / 2)
        along += max(_extent(by_key[key], flip)[0] for key in layer) + LAYER_GAP
    return found


def _shifted(
    spots: Mapping[str, tuple[float, float]], by_key: Mapping[str, Node], others: Boxes
) -> dict[str, Place]:
    """Put the block's corner where it was, or below, where it covers no node that stays."""
    left = min(_bounded(by_key[key].pos_x) for key in spots) - min(x for x, _ in spots.values())
    top = min(_bounded(by_key[key].pos_y) for key in spots) - min(y for _, y in spots.values())
    sizes = {key: by_key[key].size for key in spots}

    def fits(shift: float) -> bool:
        return all(
            others.is_free(x + left, y + top + shift, sizes[key].width, sizes[key].height, 20)
            for key, (x, y) in spots.items()
        )

    shift = next((GAP * n for n in range(_SHIFTS) if fits(GAP * n)), None)
    if shift is None:
        shift = others.below()[1] - top - min(y for _, y in spots.values())
    return {key: (round(x + left), round(y + top + shift)) for key, (x, y) in spots.items()}


def _bounded(value: float) -> float:
    return min(max(float(value), -LIMIT / 2), LIMIT / 2)
