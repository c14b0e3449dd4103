"""Puts connected items in layers along their edges, and orders each layer so that few edges cross.

Layers are longest paths, after edges that close a cycle were reversed. An edge over several layers
has a free lane in each. Layers are ordered by the barycentre of their neighbours in alternating
sweeps, and the best order is used. Source: Sugiyama, Tagawa, Toda, "Methods for Visual
Understanding of Hierarchical System Structures", IEEE Trans. SMC 11(2), 1981.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

LAYER_GAP, ROW_GAP, LANE_GAP, ROW_LENGTH = 120, 60, 20, 1200
_SWEEPS, _PULLS = 12, 4
# With more lanes than this edges get none, because ordering them takes too long.
_MAX_LANES = 20_000

Link = tuple[str, str]
Place = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An item of a layer: its size along and across the layers, and the height at which edges meet
    it.

    `place` is its present position, along and across: the present order is kept where possible.
    """

    along: float
    across: float
    anchor: float
    place: tuple[float, float]


_LANE = Item(along=0, across=0, anchor=0, place=(0, 0))


def in_layers(
    items: Mapping[str, Item], links: Collection[Link], row_length: float
) -> dict[str, Place]:
    """Returns the start of each item, along and across, from 0. Unconnected parts are placed in
    rows.
    """
    import networkx as nx  # slow to import

    graph: nx.DiGraph[str] = nx.DiGraph()
    ordered = sorted(items, key=lambda key: (items[key].place[::-1], key))
    graph.add_nodes_from(ordered)
    graph.add_edges_from(links)
    starts: dict[str, Place] = {}
    start = row = bottom = 0.0
    parts = list(nx.weakly_connected_components(graph))
    part_of = {key: number for number, part in enumerate(parts) for key in part}
    links_of: list[list[Link]] = [[] for _ in parts]
    for link in sorted(links):
        links_of[part_of[link[0]]].append(link)
    for part, part_links in zip(parts, links_of, strict=True):
        part_items = {key: items[key] for key in sorted(part)}
        spots = _lay_out(part_items, part_links)
        length = max(along + items[key].along for key, (along, _) in spots.items())
        if start and start + length > row_length:
            start = 0.0
            row = bottom + LAYER_GAP
        top = min(across for _, across in spots.values()) - row
        starts |= {key: (along + start, across - top) for key, (along, across) in spots.items()}
        start += length + ROW_GAP
        bottom = max([bottom, *(starts[key][1] + items[key].across for key in part)])
    return starts


def _lay_out(items: Mapping[str, Item], links: Sequence[Link]) -> dict[str, Place]:
    import networkx as nx

    forward = _without_cycles(items, links)
    layers, steps, lanes = _with_lanes(items, list(forward.edges), _levels(forward))
    joined: nx.DiGraph[str] = nx.DiGraph(steps)
    joined.add_nodes_from(items)
    before = nx.to_dict_of_lists(joined.reverse())
    behind = nx.to_dict_of_lists(joined)
    layers = _untangled(layers, before, behind)
    all_items = {**items, **dict.fromkeys(lanes, _LANE)}
    centres = _centres(layers, all_items, before, behind)
    starts: dict[str, Place] = {}
    along = 0.0
    for layer in layers:
        layer_items = [key for key in layer if key in items]
        starts |= {key: (along, centres[key] - items[key].anchor) for key in layer_items}
        along += max((items[key].along for key in layer_items), default=0) + LAYER_GAP
    return starts


def _without_cycles(items: Mapping[str, Item], links: Sequence[Link]) -> nx.DiGraph[str]:
    """Returns the graph with edges reversed that lead back to an item whose depth-first search is
    not finished.
    """
    import networkx as nx

    entered = {target for _, target in links}
    graph: nx.DiGraph[str] = nx.DiGraph()
    starts = sorted(items, key=lambda key: (key in entered, items[key].place[0], key))
    graph.add_nodes_from(starts)
    graph.add_edges_from(links)
    finished: set[str] = set()
    forward: nx.DiGraph[str] = nx.DiGraph()
    forward.add_nodes_from(items)
    for source, target, kind in nx.dfs_labeled_edges(graph):
        if kind == "reverse":
            finished.add(target)
        elif source != target:
            is_back = kind == "nontree" and target not in finished
            forward.add_edge(*((target, source) if is_back else (source, target)))
    return forward


def _levels(graph: nx.DiGraph[str]) -> dict[str, int]:
    """Returns the layer of each item: after all its sources. An item without sources is put
    directly before its first target.
    """
    import networkx as nx

    level = {key: n for n, layer in enumerate(nx.topological_generations(graph)) for key in layer}
    starts = [key for key in level if not level[key] and graph.succ[key]]
    return level | {key: min(level[other] for other in graph.succ[key]) - 1 for key in starts}


def _with_lanes(
    items: Mapping[str, Item], links: Sequence[Link], level: Mapping[str, int]
) -> tuple[list[list[str]], list[Link], list[str]]:
    """Returns the layers, the edges between adjacent layers, and the placeholders of long edges."""
    layers: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for key in sorted(items, key=lambda key: (items[key].place[1], key)):
        layers[level[key]].append(key)
    has_lanes = sum(level[target] - level[source] for source, target in links) <= _MAX_LANES
    steps: list[Link] = []
    lanes: list[str] = []
    for number, (source, target) in enumerate(links):
        way = [source]
        for layer in range(level[source] + 1, level[target]) if has_lanes else ():
            way.append(f"\0{number}.{layer}")
            layers[layer].append(way[-1])
            lanes.append(way[-1])
        steps += pairwise([*way, target])
    return layers, steps, lanes


def _untangled(
    layers: list[list[str]], before: Mapping[str, list[str]], behind: Mapping[str, list[str]]
) -> list[list[str]]:
    """Orders each layer by the positions of its neighbours, in the layers before and after
    in turn.
    """
    rank = {key: float(place) for layer in layers for place, key in enumerate(layer)}
    best = [list(layer) for layer in layers]
    fewest = _crossings(layers, behind, rank)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        around = before if down else behind
        for layer in layers if down else reversed(layers):
            wanted = {
                key: _mean([rank[o] for o in around.get(key, ())], rank[key]) for key in layer
            }
            layer.sort(key=wanted.__getitem__)
            rank.update({key: float(place) for place, key in enumerate(layer)})
        if (count := _crossings(layers, behind, rank)) < fewest:
            best = [list(layer) for layer in layers]
            fewest = count
    return best


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(
    layers: Sequence[Sequence[str]], behind: Mapping[str, list[str]], rank: Mapping[str, float]
) -> int:
    """Returns the number of crossings of edges between adjacent layers: pairs whose ends are in
    reverse order.
    """
    count = 0
    for layer in layers:
        met: list[float] = []
        for key in layer:
            ends = sorted(rank[other] for other in behind.get(key, ()))
            count += sum(len(met) - bisect_right(met, end) for end in ends)
            for end in ends:
                insort(met, end)
    return count


def _centres(
    layers: Sequence[Sequence[str]],
    items: Mapping[str, Item],
    before: Mapping[str, list[str]],
    behind: Mapping[str, list[str]],
) -> dict[str, float]:
    """Returns the height at which edges meet each item: near its neighbours, in the order of its
    layer.
    """
    centres: dict[str, float] = {}
    for layer in layers:
        last = 0.0
        for key in layer:
            last = centres[key] = last + items[key].anchor
            last += items[key].across - items[key].anchor + ROW_GAP
    for pull in range(2 * _PULLS):
        around = (before, behind)[pull % 2]
        for layer in layers if pull % 2 == 0 else reversed(layers):
            _align_layer(layer, items, centres, around)
    return centres


def _align_layer(
    layer: Sequence[str],
    items: Mapping[str, Item],
    centres: dict[str, float],
    around: Mapping[str, list[str]],
) -> None:
    """Moves the items of a layer to the mean of their neighbours; items that would overlap share
    the difference.

    Minimises the sum of squared moves in the given order: pool adjacent violators.
    """
    offsets = [0.0]
    for previous, key in pairwise(layer):
        gap = LANE_GAP if items[key] is _LANE or items[previous] is _LANE else ROW_GAP
        room = items[previous].across - items[previous].anchor + gap + items[key].anchor
        offsets.append(offsets[-1] + room)
    pools: list[tuple[float, int]] = []
    for key, shift in zip(layer, offsets, strict=True):
        pools.append((_mean([centres[o] for o in around.get(key, ())], centres[key]) - shift, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (one, n), (other, m) = pools[-2:]
            pools[-2:] = [((one * n + other * m) / (n + m), n + m)]
    positions = [mean for mean, count in pools for _ in range(count)]
    for key, shift, mean in zip(layer, offsets, positions, strict=True):
        centres[key] = mean + shift
