"""A merge of random edits by people and random new versions of a file is what an oracle says.

The oracle knows nodes as a file's ids with four fields each, and edges as pairs of ids: it shares
nothing with the importers, the alignment or the merge.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from datasources.types import Edge, Mutation, Node
from graphrag.importers.align import origin_of
from tests.graphrag.importers.helpers import Workbench, n8n, n8n_node, to

Fields = Mapping[str, Any]
Pair = tuple[str, str]


@dataclass(frozen=True)
class World:
    """A graph as the oracle sees it: the fields of each node, and who is connected to whom."""

    nodes: Mapping[str, Fields]
    edges: frozenset[Pair]


IDS = ("n1", "n2", "n3", "n4")
_VALUES = st.integers(0, 2)
_FIELDS = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"]), "x": _VALUES},
    optional={
        "p": _VALUES | st.none(),
        "q": st.fixed_dictionaries({}, optional={"r": _VALUES, "s": _VALUES}),
    },
)


@st.composite
def _files(draw: st.DrawFn) -> World:
    ids = draw(st.sets(st.sampled_from(IDS), min_size=1))
    nodes = {i: draw(_FIELDS) for i in sorted(ids)}
    pairs = st.tuples(st.sampled_from(sorted(ids)), st.sampled_from(sorted(ids)))
    return World(nodes, frozenset(draw(st.sets(pairs, max_size=4))))


_EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(IDS), _FIELDS),
        st.tuples(st.just("delete"), st.sampled_from(IDS), st.none()),
        st.tuples(st.just("add"), st.sampled_from(["p1", "p2"]), _FIELDS),
        st.tuples(st.just("connect"), st.sampled_from([*IDS, "p1"]), st.sampled_from([*IDS, "p2"])),
        st.tuples(st.just("cut"), st.sampled_from(IDS), st.sampled_from(IDS)),
    ),
    max_size=6,
)


def _document(world: World) -> Any:
    def named(i: str) -> str:
        return f"{world.nodes[i]['name']} {i}"  # connections go by names: they differ

    nodes = [
        n8n_node(
            named(i),
            id=i,
            position=[fields["x"], 0],
            parameters={k: v for k, v in fields.items() if k in ("p", "q")},
        )
        for i, fields in world.nodes.items()
    ]
    connections: dict[str, Any] = {}
    for a, b in sorted(world.edges):
        connections.setdefault(named(a), {"main": [[]]})["main"][0].append(to(named(b)))
    return n8n(nodes, connections)


def _fields(node: Node) -> Fields:
    return {
        "name": node.data["name"].split(" ")[0],
        "x": node.pos_x,
        **node.data.get("parameters", {}),
    }


async def _seen(bench: Workbench) -> World:
    content = await bench.content("g")
    ids = {key: str((origin_of(node) or {}).get("id", key)) for key, node in content.nodes.items()}
    edges = frozenset((ids[e.source], ids[e.target]) for e in content.edges.values())
    return World({ids[key]: _fields(node) for key, node in content.nodes.items()}, edges)


async def _connected(bench: Workbench) -> frozenset[tuple[str, str]]:
    """Return the ends of the edges that a person made."""
    own = [key.split("-") for key in (await bench.content("g")).edges if key.startswith("mine-")]
    return frozenset((one, other) for _, one, other in own)


async def _edit(bench: Workbench, kind: str, one: str, other: Any) -> None:
    """Do what a person does; what does not fit the graph is left."""
    content = await bench.content("g")
    keys = {str((origin_of(node) or {}).get("id", key)): key for key, node in content.nodes.items()}
    edges = {(edge.source, edge.target): key for key, edge in content.edges.items()}
    change: dict[str, Any] = {}
    if kind in ("set", "add") and (kind == "set") == (one in keys):
        node = (
            content.nodes[keys[one]]
            if kind == "set"
            else Node(key=one, graph_key="g", type="return")
        )
        parameters = {name: value for name, value in other.items() if name in ("p", "q")}
        data = {"name": f"{other['name']} {one}", "parameters": parameters}
        change["put_nodes"] = [node.replace(pos_x=other["x"], data=data)]
    elif kind == "delete" and one in keys:
        change["delete_nodes"] = [keys[one]]
    elif kind in ("connect", "cut") and {one, other} <= keys.keys():
        ends = (keys[one], keys[other])
        if kind == "cut" and ends in edges:
            change["delete_edges"] = [edges[ends]]
        elif kind == "connect" and ends not in edges:
            key = f"mine-{one}-{other}"
            change["put_edges"] = [Edge(key=key, graph_key="g", source=ends[0], target=ends[1])]
    if change:
        await bench.source.apply(Mutation(graph_key="g", **change))


def _flat(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return the values inside by their path."""
    if isinstance(value, dict):
        return {
            k: v for name, inner in value.items() for k, v in _flat(inner, (*path, name)).items()
        }
    return {path: value}


def _oracle(base: World, ours: World, theirs: World) -> World:
    def one_side(b: Any, o: Any, t: Any) -> Any:
        return o if t == b or o != b else t

    pairs = base.edges | ours.edges | theirs.edges
    edges = {p for p in pairs if one_side(p in base.edges, p in ours.edges, p in theirs.edges)}
    nodes: dict[str, Fields] = {}
    for i in {*base.nodes, *ours.nodes, *theirs.nodes}:
        b, o, t = (world.nodes.get(i) for world in (base, ours, theirs))
        is_used = any(i in pair for pair in edges if pair in ours.edges)
        if o is None or t is None:
            if o is not None and (t is not None or o != b or b is None or is_used):
                nodes[i] = o
            elif o is None and b is None and t is not None:
                nodes[i] = t
            continue
        nodes[i] = _fields_of_both(b or {}, o, t)
    return World(nodes, frozenset(pair for pair in edges if set(pair) <= nodes.keys()))


def _fields_of_both(base: Fields, ours: Fields, theirs: Fields) -> Fields:
    """Take each field from who changed it; an object of fields that one of both has as a
    value is one.
    """
    found: dict[str, Any] = {}
    for name in {**ours, **theirs}:
        b, o, t = (world.get(name, ...) for world in (base, ours, theirs))
        if isinstance(o, dict) and isinstance(t, dict):
            value = _fields_of_both(b if isinstance(b, dict) else {}, o, t)
        else:
            value = o if t == b or o != b else t
        if value is not ...:
            found[name] = value
    return found


async def _check(first: World, edits: Any, second: World) -> None:
    bench = Workbench()
    await bench.take(_document(first), graph_key="g")
    base = await _seen(bench)
    for edit in edits:
        await _edit(bench, *edit)
    ours = await _seen(bench)
    # An edge that was cut and made again is a person's.
    base = World(base.nodes, base.edges - await _connected(bench))
    outcome = await bench.take(_document(second), graph_key="g")
    after = await _seen(bench)
    assert after == _oracle(base, ours, second)
    was, is_, now = (_flat(dict(world.nodes)) for world in (base, ours, after))
    changed = [path for path in {**was, **is_} if was.get(path, ...) != is_.get(path, ...)]
    assert [path for path in changed if now.get(path, ...) != is_.get(path, ...)] == []
    assert ours.edges - base.edges <= after.edges
    if outcome.approval:
        waiting = await bench.approvals.get(outcome.approval, bench.person)
        assert waiting.status == "pending"
    again = await bench.take(_document(second), graph_key="g")
    assert (again.action, again.conflicts) == ("unchanged", 0)


@example(
    first=World(
        {name: {"name": "a", "x": 0} for name in ("n1", "n3", "n4")}, frozenset({("n3", "n4")})
    ),
    edits=[("cut", "n3", "n4"), ("connect", "n3", "n4")],
    second=World({"n1": {"name": "a", "x": 0}}, frozenset()),
)
@given(first=_files(), edits=_EDITS, second=_files())
async def test_a_merge_is_what_the_oracle_says(first: World, edits: Any, second: World) -> None:
    await _check(first, edits, second)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=_files(), edits=_EDITS, second=_files())
async def test_of_a_thousand_merges_none_loses_what_people_changed(
    first: World, edits: Any, second: World
) -> None:
    await _check(first, edits, second)
