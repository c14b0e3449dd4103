"""Places for new nodes and layered layouts: nothing overlaps, edges lead forward, others stay."""

import itertools
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.types import Edge, Node, Size
from graphrag.importers import import_workflow
from graphrag.layout import Box, arrange, crossings, place_nodes
from graphrag.layout.boxes import LIMIT, holders
from tests.graphrag.layout.measuring import measured, moved, overlap
from tests.support.data_files import needs_published, published


def a_node(
    key: str, x: float = 0, y: float = 0, width: float = 200, height: float = 100, sheet: str = "0"
) -> Node:
    return Node(
        key=key,
        graph_key="g",
        type="t",
        sheet=sheet,
        pos_x=x,
        pos_y=y,
        size=Size(width=width, height=height),
    )


def an_edge(source: str, target: str) -> Edge:
    return Edge(key=f"{source}>{target}", graph_key="g", source=source, target=target)


def placed_alone(nodes: Mapping[str, Node], places: Mapping[str, Box]) -> list[Node]:
    """Return the nodes that got a place, there."""
    return [node for key, node in moved(nodes, places).items() if key in places]


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
    new = nodes[:count]
    old = {node.key: node for node in nodes[count:]}
    edges = [an_edge(*link) for link in links]
    places = place_nodes(new, edges, old)
    assert places.keys() == {node.key for node in new}
    placed = placed_alone({node.key: node for node in new}, places)
    assert not [(a.key, b.key) for a, b in itertools.combinations(placed, 2) if overlap(a, b)]
    assert not [(a.key, b.key) for a in placed for b in old.values() if overlap(a, b)]
    assert place_nodes(new, edges, old) == places


def test_a_new_node_stands_behind_its_source_and_before_its_target() -> None:
    old = {"a": a_node("a"), "z": a_node("z", x=800)}
    edges = [an_edge("a", "m"), an_edge("m", "z")]
    (place,) = place_nodes([a_node("m")], edges, old).values()
    assert (place.x, place.y) == (400, 0)
    (behind,) = place_nodes([a_node("m")], edges[:1], old).values()
    assert (behind.x, behind.y) == (280, 0)
    (before,) = place_nodes([a_node("m")], edges[1:], old).values()
    assert (before.x, before.y) == (520, 0)


def test_absurd_positions_give_finite_places() -> None:
    old = {"a": a_node("a", x=1e308, y=-1e308), "b": a_node("b", x=1e300)}
    places = place_nodes([a_node("m"), a_node("n")], [an_edge("a", "m")], old)
    assert all(abs(value) <= LIMIT for place in places.values() for value in (place.x, place.y))
    arranged = arrange(old, [an_edge("a", "b")])
    assert all(abs(value) <= LIMIT for place in arranged.values() for value in (place.x, place.y))


@given(nodes_drawn, pairs, st.integers(1, 12), st.sampled_from(["left_to_right", "top_down"]))
def test_an_arranged_part_covers_nothing(
    nodes: list[Node], links: list[tuple[str, str]], count: int, strategy: str
) -> None:
    by_key = {node.key: node for node in nodes}
    named = [node.key for node in nodes[:count]]
    edges = [an_edge(*link) for link in links]
    places = arrange(by_key, edges, keys=named, strategy=strategy)  # type: ignore[arg-type]
    assert places.keys() == set(named)
    placed = placed_alone(by_key, places)
    assert not [(a.key, b.key) for a, b in itertools.combinations(placed, 2) if overlap(a, b)]
    stay = [node for node in nodes if node.key not in places]
    assert not [(a.key, b.key) for a in placed for b in stay if overlap(a, b)]
    assert arrange(by_key, edges, keys=named, strategy=strategy) == places  # type: ignore[arg-type]


@given(pairs)
def test_without_cycles_every_edge_leads_to_a_later_layer(links: list[tuple[str, str]]) -> None:
    forward = [(a, b) for a, b in links if keys.index(a) < keys.index(b)]
    nodes = {key: a_node(key, y=number) for number, key in enumerate(keys)}
    edges = [an_edge(*link) for link in forward]
    right = arrange(nodes, edges, strategy="left_to_right")
    down = arrange(nodes, edges, strategy="top_down")
    assert all(right[a].right < right[b].x for a, b in forward)
    assert all(down[a].bottom < down[b].y for a, b in forward)


def test_a_fork_is_not_crossed() -> None:
    nodes = {key: a_node(key) for key in ("a", "b", "c", "bb", "cc")}
    edges = [an_edge("a", "c"), an_edge("a", "b"), an_edge("c", "cc"), an_edge("b", "bb")]
    places = arrange(nodes, edges)
    assert (places["b"].y < places["c"].y) == (places["bb"].y < places["cc"].y)


@pytest.mark.parametrize("count", [300])
def test_a_large_cyclic_graph_is_arranged_whole(count: int) -> None:
    nodes = {f"n{i}": a_node(f"n{i}") for i in range(count)}
    edges = [an_edge(f"n{i}", f"n{(i * 7 + 1) % count}") for i in range(count)]
    edges += [an_edge(f"n{i}", f"n{(i + 1) % count}") for i in range(count)]
    assert len(set(arrange(nodes, edges).values())) == count


def a_note(key: str, x: float, y: float, width: float, height: float, text: str = "") -> Node:
    return a_node(key, x, y, width, height).replace(type="note", data={"text": text})


def a_tool(key: str, x: float, y: float, note: str = "") -> Node:
    points = {"T": {"position": "separate", "point": [{"id": "ai_tool", "type": "out"}]}}
    return a_node(key, x, y, 80, 80).replace(handles=points, data={"group": note} if note else {})


def a_noted_flow() -> tuple[dict[str, Node], list[Edge]]:
    """Two notes in one, an agent with tools in the first, a step outside, all out of order."""
    nodes = [
        a_note("outer", -50, -50, 1500, 700, "# Everything\nin two parts"),
        a_note("first", 0, 0, 600, 600, "word " * 200),
        a_note("second", 700, 0, 400, 500),
        a_node("agent", 300, 200),
        a_tool("tool", 50, 400),
        a_tool("model", 450, 450),
        a_node("start", 40, 100),
        a_node("end", 800, 200),
        a_node("outside", 3000, -700),
    ]
    edges = [an_edge("start", "agent"), an_edge("agent", "end"), an_edge("end", "outside")]
    edges += [an_edge(part, "agent").replace(source_handle="ai_tool") for part in ("tool", "model")]
    return {node.key: node for node in nodes}, edges


def test_notes_keep_what_they_hold_and_tools_stand_below_their_agent() -> None:
    nodes, edges = a_noted_flow()
    after = moved(nodes, arrange(nodes, edges))
    assert holders(after) == holders(nodes)
    found = measured(after, edges, nodes)
    assert not any(found.values()), found
    agent = after["agent"]
    tools = [after["tool"], after["model"]]
    assert all(tool.pos_y > agent.pos_y + agent.size.height for tool in tools)
    assert after["start"].pos_x < agent.pos_x < after["end"].pos_x < after["outside"].pos_x
    top = min(after[key].pos_y for key in ("start", "agent"))
    assert top - after["first"].pos_y > 300, "a long text keeps its room"
    assert not crossings(moved(after, arrange(after, edges)), edges)


def test_what_is_pinned_stays_with_the_notes_around_it() -> None:
    nodes, edges = a_noted_flow()
    nodes["end"] = nodes["end"].replace(pinned=True)
    assert arrange(nodes, edges).keys() == {"outside"}
    nodes["outside"] = nodes["outside"].replace(pinned=True)
    assert arrange(nodes, edges) == {}


def test_a_note_that_is_named_takes_along_what_it_holds_and_an_unnamed_one_grows() -> None:
    nodes, edges = a_noted_flow()
    assert {"first", "agent", "tool"} <= arrange(nodes, edges, keys=["first"]).keys()
    inner = arrange(nodes, edges, keys=["start", "agent", "tool", "model"])
    assert inner.keys() <= {"start", "agent", "tool", "model", "first", "outer"}
    assert holders(moved(nodes, inner)) == holders(nodes)


def test_a_new_node_lands_in_the_note_of_its_neighbour_which_grows() -> None:
    nodes, edges = a_noted_flow()
    new = [a_node(f"new{i}") for i in range(6)]
    links = [an_edge("end", "new0"), *(an_edge(f"new{i}", f"new{i + 1}") for i in range(5))]
    places = place_nodes(new, links, nodes)
    assert {"second", "outer"} <= places.keys(), "they grew"
    after = moved(nodes | {node.key: node for node in new}, places)
    assert {holders(after)[node.key] for node in new} == {"second"}
    forward = [after[e.source].pos_x + 200 < after[e.target].pos_x for e in links]
    assert all(forward)
    assert not measured(after, [*edges, *links], nodes)["overlaps"]


def test_a_new_node_in_a_crowd_stands_ahead_of_its_source_all_the_same() -> None:
    crowd = {
        f"c{i}": a_node(f"c{i}", 280 + 250 * (i % 2), 150 * (i // 2) - 1500) for i in range(44)
    }
    placed = {"a": a_node("a"), **crowd}
    (place,) = place_nodes([a_node("new")], [an_edge("a", "new")], placed).values()
    assert place.x > 200


ROOT = Path(__file__).parents[3]
FILES = published("workflows", "n8n-*.json")
SAMPLES = [ROOT / "mock_data/nba.json", *sorted((ROOT / "mock_data/workflows").glob("*.json"))]


@pytest.mark.slow
@needs_published
def test_188_workflows_are_arranged_without_tearing_them_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn = Counter[str]()
    tidy = Counter[str]()
    seconds = 0.0
    many: dict[str, Node] = {}
    links: list[Edge] = []
    for file in FILES:
        read = import_workflow(file.read_bytes(), file_name=file.name, workspace="w")
        nodes = {node.key: node for node in read.nodes}
        drawn += Counter(measured(nodes, read.edges, nodes))
        tidy += Counter(measured(moved(nodes, arrange(nodes, read.edges)), read.edges, nodes))
        if len(many) < 1013:
            many |= {
                f"{file}{n.key}": n.replace(key=f"{file}{n.key}", pos_y=n.pos_y + 9e3 * len(many))
                for n in nodes.values()
            }
            links += [
                e.replace(source=f"{file}{e.source}", target=f"{file}{e.target}")
                for e in read.edges
            ]
    begun = time.process_time()
    arrange(many, links)
    seconds = time.process_time() - begun
    with capsys.disabled():
        old = {"crossings": 293, "overlaps": 0, "left their note": 3195, "strayed into one": 0}
        print(f"\n{'':20}{'as drawn':>10}{'before':>10}{'now':>10}")
        for name, before in old.items():  # `before`: edges alone, notes as if they were steps
            print(f"{name:20}{drawn[name]:>10}{before:>10}{tidy[name]:>10}")
        print(f"{len(many)} nodes at once: {seconds:.2f} s")
    assert tidy["crossings"] <= 140
    assert not tidy["overlaps"] + tidy["left their note"] + tidy["strayed into one"]


@pytest.mark.parametrize("file", [*SAMPLES])
def test_samples_have_no_overlaps(file: Path) -> None:
    read = import_workflow(file.read_bytes(), file_name=file.name, workspace="w")
    nodes = {node.key: node for node in read.nodes}
    found = measured(nodes, read.edges, nodes)
    assert not found["overlaps"]


def test_connected_nodes_of_several_notes_are_arranged_each_in_its_note() -> None:
    notes = [
        a_node(f"note{i}", x=1_000 * i, width=600, height=300).replace(type="note")
        for i in range(2)
    ]
    inner = [a_node(f"in{i}", x=1_000 * i + 50, y=100) for i in range(2)]
    nodes = {node.key: node for node in (*notes, *inner)}
    places = arrange(nodes, [an_edge("in0", "in1")], keys=["in0", "in1"])
    assert {"in0", "in1"} <= places.keys()
    assert holders(moved(nodes, places)) == holders(nodes) == {"in0": "note0", "in1": "note1"}
