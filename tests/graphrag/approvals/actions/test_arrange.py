"""Places for new nodes and layered layouts: nothing overlaps, edges lead forward, others stay."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.types import Edge, Node, Size
from graphrag.approvals.actions.arrange import arrange
from graphrag.approvals.actions.placement import LIMIT, place_nodes

WorkspaceResolver = Mapping[str, tuple[int, int]]


def a_node(
    key: str, x: float = 0, y: float = 0, width: float = 200, height: float = 100, sheet: str = "0"
) -> Node:
    return Node(
        key=key, graph_key="g", type="t", sheet=sheet, pos_x=x, pos_y=y, size=Size(width=width, height=height)
    )


def an_edge(source: str, target: str) -> Edge:
    return Edge(key=f"{source}>{target}", graph_key="g", source=source, target=target)


def moved(nodes: Mapping[str, Node], places: WorkspaceResolver) -> list[Node]:
    return [nodes[key].replace(pos_x=x, pos_y=y) for key, (x, y) in places.items()]


def overlap(one: Node, other: Node) -> bool:
    return (
        one.sheet == other.sheet
        and one.pos_x < other.pos_x + other.size.width
        and other.pos_x < one.pos_x + one.size.width
        and one.pos_y < other.pos_y + other.size.height
        and other.pos_y < one.pos_y + one.size.height
    )


keys = [f"n{i}" for i in range(12)]
extents = st.integers(20, 700)
nodes_drawn = st.lists(
    st.builds(
        a_node,
        st.sampled_from(keys),
        x=st.integers(-800, 800),
        y=st.integers(-800, 800),
        width=extents,
        height=extents,
        sheet=st.sampled_from(["0", "0", "1"]),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda node: node.key,
)
pairs = st.lists(st.tuples(st.sampled_from(keys), st.sampled_from(keys)), max_size=20)


@given(nodes_drawn, pairs, st.integers(0, 12))
def test_new_nodes_cover_neither_each_other_nor_what_is_there(
    nodes: list[Node], links: list[tuple[str, str]], count: int
) -> None:
    new, old = nodes[:count], {node.key: node for node in nodes[count:]}
    edges = [an_edge(*link) for link in links]
    places = place_nodes(new, edges, old)
    assert places.keys() == {node.key for node in new}
    placed = moved({node.key: node for node in new}, places)
    assert not [(a.key, b.key) for a, b in itertools.combinations(placed, 2) if overlap(a, b)]
    assert not [(a.key, b.key) for a in placed for b in old.values() if overlap(a, b)]
    assert place_nodes(new, edges, old) == places


def test_a_new_node_stands_behind_its_source_and_before_its_target() -> None:
    old = {"a": a_node("a"), "z": a_node("z", x=800)}
    edges = [an_edge("a", "m"), an_edge("m", "z")]
    (place,) = place_nodes([a_node("m")], edges, old).values()
    assert place == (400, 0)
    (behind,) = place_nodes([a_node("m")], edges[:1], old).values()
    assert behind == (280, 0)
    (before,) = place_nodes([a_node("m")], edges[1:], old).values()
    assert before == (520, 0)


def test_absurd_positions_give_finite_places() -> None:
    old = {"a": a_node("a", x=1e308, y=-1e308), "b": a_node("b", x=1e300)}
    places = place_nodes([a_node("m"), a_node("n")], [an_edge("a", "m")], old)
    assert all(abs(value) <= LIMIT for place in places.values() for value in place)
    arranged = arrange(["a", "b"], old, [an_edge("a", "b")], "left_to_right")
    assert all(abs(value) <= LIMIT for place in arranged.values() for value in place)


@given(nodes_drawn, pairs, st.integers(1, 12), st.sampled_from(["left_to_right", "top_down"]))
def test_an_arranged_part_covers_nothing(
    nodes: list[Node], links: list[tuple[str, str]], count: int, strategy: str
) -> None:
    by_key = {node.key: node for node in nodes}
    named = [node.key for node in nodes[:count]]
    edges = [an_edge(*link) for link in links]
    places = arrange(named, by_key, edges, strategy)  # type: ignore[arg-type]
    assert places.keys() == set(named)
    placed = moved(by_key, places)
    assert not [(a.key, b.key) for a, b in itertools.combinations(placed, 2) if overlap(a, b)]
    stay = [node for node in nodes if node.key not in places]
    assert not [(a.key, b.key) for a in placed for b in stay if overlap(a, b)]
    assert arrange(named, by_key, edges, strategy) == places  # type: ignore[arg-type]


@given(pairs)
def test_without_cycles_every_edge_leads_to_a_later_layer(links: list[tuple[str, str]]) -> None:
    forward = [(a, b) for a, b in links if keys.index(a) < keys.index(b)]
    nodes = {key: a_node(key, y=number) for number, key in enumerate(keys)}
    edges = [an_edge(*link) for link in forward]
    right = arrange(keys, nodes, edges, "left_to_right")
    down = arrange(keys, nodes, edges, "top_down")
    assert all(right[a][0] + 200 < right[b][0] for a, b in forward)
    assert all(down[a][1] + 100 < down[b][1] for a, b in forward)


def test_a_fork_is_not_crossed() -> None:
    nodes = {key: a_node(key) for key in ("a", "b", "c", "bb", "cc")}
    edges = [an_edge("a", "c"), an_edge("a", "b"), an_edge("c", "cc"), an_edge("b", "bb")]
    places = arrange(list(nodes), nodes, edges, "left_to_right")
    assert (places["b"][1] < places["c"][1]) == (places["bb"][1] < places["cc"][1])


@pytest.mark.parametrize("count", [300])
def test_a_large_cyclic_graph_is_arranged_whole(count: int) -> None:
    nodes = {f"n{i}": a_node(f"n{i}") for i in range(count)}
    edges = [an_edge(f"n{i}", f"n{(i * 7 + 1) % count}") for i in range(count)]
    edges += [an_edge(f"n{i}", f"n{(i + 1) % count}") for i in range(count)]
    assert len(set(arrange(list(nodes), nodes, edges, "left_to_right").values())) == count
