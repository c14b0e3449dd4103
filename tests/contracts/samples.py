"""Small documents and a sample graph that the contracts work with."""

from typing import Any

import numpy as np

from datasources import hits, types
from datasources.base import Database, MutableGraphDataSource

WORKSPACE = "acme"
OTHER = "globex"
FLOW = "flow"
MODEL = "model-a"


def a_graph(key: str = FLOW, workspace: str = WORKSPACE, **fields: Any) -> types.Graph:
    return types.Graph(
        key=key,
        name=f"Graph {key}",
        workspace=workspace,
        sheets_list={"0": "main", "1": "side"},
        **fields,
    )


def a_node(key: str, graph: str = FLOW, **fields: Any) -> types.Node:
    handles = {
        "L": types.HandleGroup(point=(types.HandlePoint(id="0", type="in"),)),
        "R": types.HandleGroup(point=(types.HandlePoint(id="0", type="out"),)),
    }
    return types.Node(
        **{"key": key, "graph_key": graph, "type": "task", "handles": handles, **fields}
    )


def an_edge(key: str, source: str, target: str, graph: str = FLOW, **fields: Any) -> types.Edge:
    return types.Edge(key=key, graph_key=graph, source=source, target=target, **fields)


def a_type(
    name: str, workspace: str = WORKSPACE, *, key: str | None = None, **fields: Any
) -> types.NodeTypeConfig:
    shown = {"display_name": name.title(), **fields}
    return types.NodeTypeConfig(
        key=key or name, workspace=workspace, node=types.TypeTemplate(type=name), **shown
    )


def a_vector(
    key: str,
    *content: float,
    name: tuple[float, ...] | None = None,
    model: str = MODEL,
    hash: str = "h",
) -> hits.NodeVector:
    return hits.NodeVector(
        key=key,
        model=model,
        hash=hash,
        content=floats(*content),
        name=None if name is None else floats(*name),
    )


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


async def make_flow(
    database: Database, workspace: str = WORKSPACE, key: str = FLOW
) -> MutableGraphDataSource:
    """Store the sample graph at revision 1: a cycle, a fork, a loop, a double edge, a node apart.

    a → b ⇉ c ↺      b → d → a      apart (on sheet "1")
    """
    source = database.source(workspace)
    await source.create_graph(a_graph(key, workspace))
    nodes = [
        a_node("a", key, type="starter", data={"name": "Begin here"}),
        a_node("b", key, data={"name": "Fetch invoices"}, process="fetch('/invoices')"),
        a_node("c", key, data={"name": "Sort invoices"}),
        a_node("d", key, type="log", data={"name": "Écrire le journal"}),
        a_node("apart", key, sheet="1", data={"name": "Nobody calls me"}),
    ]
    edges = [
        an_edge("ab", "a", "b", key),
        an_edge("bc1", "b", "c", key),
        an_edge("bc2", "b", "c", key, label="again"),
        an_edge("bd", "b", "d", key),
        an_edge("cc", "c", "c", key, sheet="1"),
        an_edge("da", "d", "a", key),
    ]
    await source.apply(types.Mutation(graph_key=key, put_nodes=nodes, put_edges=edges))
    return source


async def snapshot(source: MutableGraphDataSource, graph_key: str = FLOW) -> dict[str, Any]:
    """Return all that a graph's readers can see of it, in comparable form."""
    nodes = await source.get_nodes(graph_key)
    vectors = await source.get_vectors(graph_key, [node.key for node in nodes])
    stats: types.GraphStats = await source.get_stats(graph_key)
    return {
        "graph": (await source.get_graph(graph_key)).to_document(),
        "nodes": [node.to_document() for node in nodes],
        "edges": [edge.to_document() for edge in await source.get_edges(graph_key)],
        "links": await source.get_links(graph_key, [node.key for node in nodes]),
        "types": [config.to_document() for config in await source.get_node_configs()],
        "vectors": {key: plain(vector) for key, vector in vectors.items()},
        "stats": (stats.nodes, stats.edges, dict(stats.types), dict(stats.vectors)),
    }


def plain(vector: hits.NodeVector) -> tuple[str, str, list[float], list[float] | None]:
    """Return a vector as it is compared: every number exactly, but for the sign of a zero."""
    name = None if vector.name is None else vector.name.tolist()
    return vector.model, vector.hash, vector.content.tolist(), name


def keys_of(documents: Any) -> list[str]:
    return [document.key for document in documents]


def assert_found(found: list[hits.Hit], everything: list[hits.Hit], *, limit: int) -> None:
    """Compare hits with those of a search without limit: the same nodes, best first, by scores
    of its own.
    """
    assert len(found) == min(limit, len(everything)), (found, everything)
    assert {hit.key for hit in found} <= {hit.key for hit in everything}
    assert found == sorted(found, key=lambda hit: (-hit.score, hit.key))


def assert_same_hits(
    found: list[hits.Hit], everything: list[hits.Hit], *, limit: int, min_score: float = 0.0
) -> None:
    """Compare hits with those of an exact search without limit; float noise may
    reorder equal scores.

    A hit whose score is `min_score` but for noise may be there or not.
    """
    noise = 1e-4
    exact = dict(everything)
    sure = sum(score > min_score + noise for score in exact.values())
    assert min(limit, sure) <= len(found) <= min(limit, len(everything)), (found, everything)
    assert len({hit.key for hit in found}) == len(found)
    for hit, best in zip(found, everything, strict=False):
        assert abs(hit.score - best.score) <= noise * max(1.0, abs(best.score)), (found, everything)
        assert abs(hit.score - exact[hit.key]) <= noise * max(1.0, abs(hit.score)), (
            found,
            everything,
        )
