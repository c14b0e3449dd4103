"""Actions drawn at random for the sample graph: most could be meant, some fit, some are hostile."""

from typing import Any

from hypothesis import strategies as st

from datasources.mock import MemoryDatabase
from datasources.types import Edge, Graph, HandleGroup, HandlePoint, Mutation, Node
from tests.contracts.samples import a_type, a_vector

GRAPH = "flow"
WORKSPACE = "acme"


def handles(*points: tuple[str, str, str, str]) -> dict[str, HandleGroup]:
    """Return handles from (side, id, direction, accept)."""
    found: dict[str, list[HandlePoint]] = {}
    for side, name, direction, accept in points:
        found.setdefault(side, []).append(HandlePoint(id=name, type=direction, accept=accept))
    return {side: HandleGroup(point=tuple(group)) for side, group in found.items()}


BOTH = handles(("L", "0", "in", "any"), ("R", "0", "out", "any"), ("R", "1", "out", "text"))


async def make_graph() -> MemoryDatabase:
    """Store a chain a → b → c with a branch, a node on a second sheet, types and
    vectors, all unevenly.
    """
    database = MemoryDatabase()
    source = database.source(WORKSPACE)
    await source.create_graph(
        Graph(key=GRAPH, name="Flow", workspace=WORKSPACE, sheets_list={"0": "main", "1": "side"})
    )
    code = "const a = 1;\nconst b = 2;\nnext(a + b);\n"
    nodes = [
        Node(
            key="a", graph_key=GRAPH, type="starter", handles=BOTH, data={"name": "Begin"}, extra={"k": 1.0}
        ),
        Node(
            key="b", graph_key=GRAPH, type="task", pos_x=300, process=code, handles=BOTH,
            data={"name": "Fetch", "list": [1, {"x": None}], "deep": {"a": {"b": "c"}}},
        ),
        Node(key="c", graph_key=GRAPH, type="task", pos_x=600, pos_y=40, handles=BOTH),
        Node(
            key="text", graph_key=GRAPH, type="typed", pos_x=300, pos_y=300,
            handles=handles(("L", "0", "in", "text"), ("R", "0", "out", "number")), data="plain",
        ),
        Node(key="far", graph_key=GRAPH, type="task", sheet="1", handles=BOTH, data={"name": "Far"}),
    ]  # fmt: skip
    edges = [
        Edge(
            key="ab", graph_key=GRAPH, source="a", target="b", source_handle="0", target_handle="0"
        ),
        Edge(
            key="bc",
            graph_key=GRAPH,
            source="b",
            target="c",
            source_handle="0",
            target_handle="0",
            label="ok",
        ),
        Edge(
            key="bt",
            graph_key=GRAPH,
            source="b",
            target="text",
            source_handle="1",
            target_handle="0",
        ),
    ]
    task = a_type("task", WORKSPACE)
    types = [
        task.replace(node=task.node.replace(handles=BOTH, process="const t = 1;\nnext(t);\n")),
        a_type("typed", WORKSPACE),
    ]
    vectors = [
        a_vector("a", 1.0, 0.5),
        a_vector("b", 0.25, 0.1, name=(1.0, 2.0)),
        a_vector("text", 3.0),
    ]
    await source.apply(
        Mutation(
            graph_key=GRAPH,
            put_nodes=nodes,
            put_edges=edges,
            put_configs=types,
            put_vectors=vectors,
        )
    )
    return database


keys = st.sampled_from(["a", "b", "c", "text", "far"])
new_keys = st.sampled_from(["$1", "$2"])
any_keys = st.one_of(keys, keys, new_keys, st.just("nobody"))
handle_ids = st.sampled_from(["0", "0", "1"])
sheets = st.sampled_from([None, None, "0", "1", "side"])
types = st.sampled_from(["task", "typed", "return", "starter", "made", "unknown"])
places = st.integers(-500, 500)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 3)
    | st.just("ab")
    | st.text(alphabet="ab\n", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)
    ),
    max_leaves=4,
)
paths = st.sampled_from(
    [
        "data.name",
        "data.deep.a.b",
        "data.deep.new.x",
        "data.list.1.x",
        "data",
        "process",
        "size.width",
        "data.z",
    ]
)


def _some(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    drawn = st.fixed_dictionaries(fields)
    return drawn.map(
        lambda found: {name: value for name, value in found.items() if value is not None}
    )


connections = _some(
    direction=st.sampled_from(["in", "out"]),
    handleId=handle_ids,
    targetNodeKey=any_keys,
    targetHandleId=handle_ids,
    label=st.sampled_from([None, "new"]),
)
_new: dict[str, Any] = {
    "typeKey": types,
    "key": st.none() | new_keys,
    "sheet": sheets,
    "data": values,
    "process": st.sampled_from([None, "return 1;"]),
}
PAYLOADS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "create_node": _some(**_new),
    "create_node_with_edges": _some(**_new, edges=st.lists(connections, min_size=1, max_size=3)),
    "create_edge": _some(
        sourceKey=any_keys,
        sourceHandle=handle_ids,
        targetKey=any_keys,
        targetHandle=handle_ids,
        sheet=sheets,
    ),
    "delete_node": _some(nodeKey=keys),
    "delete_edge": _some(edgeKey=st.sampled_from(["ab", "bc", "bt", "none"])),
    "update_node": _some(
        nodeKey=keys, changes=st.dictionaries(paths, values, min_size=1, max_size=3)
    ),
    "move_node": _some(nodeKey=any_keys, posX=places, posY=places | st.just(0.5)),
    "configure_node_type": _some(
        mode=st.sampled_from(["create", "update"]),
        typeKey=st.sampled_from(["task", "made", "return"]),
        displayName=st.sampled_from(["Made", None]),
        process=st.sampled_from([None, "x", "y\nz"]),
        handles=st.sampled_from([None, {"L": {"point": [{"id": "0", "type": "in"}]}}]),
    ),
    "reorganize_layout": _some(
        nodeKeys=st.lists(any_keys, min_size=1, max_size=5),
        strategy=st.sampled_from([None, "top_down", "left_to_right"]),
    ),
}
single_actions = st.sampled_from(sorted(PAYLOADS)).flatmap(
    lambda kind: PAYLOADS[kind].map(lambda payload: {"type": kind, "payload": payload})
)
batches = st.lists(single_actions, min_size=1, max_size=4).map(
    lambda actions: {"type": "batch", "payload": {"actions": actions}}
)
actions = st.one_of(single_actions, batches)
