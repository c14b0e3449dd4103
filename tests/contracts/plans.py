"""Random changes and documents for the state machine of sources: few keys and words, so
that they meet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from datasources.hits import NodeVector
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig
from tests.contracts.samples import a_graph, a_node, a_type, a_vector, an_edge

WORKSPACES = ["acme", "globex"]
GRAPHS = ["flow", "g'2"]
NODES = ["a", "b", "B", "c", "é", "文字", "fetch_user", "x y"]
EDGES = ["e1", "e2", "E1", "e3", "ü", "e5"]
TYPES = ["task", "log", "starter"]
CONFIGS = ["t1", "t2", "T1"]
MODELS = ["model-a", "model-b"]
WORDS = ["invoice", "fetch", "sort", "journal", "écrire", "文字列", "user", "log", "B2B", ""]
# Stores order true beside numbers in their own ways: here it is below all of them in each.
STATUSES: list[Any] = ["pending", "applied", "é", 3, 2.5, True, 10, None]


def few(strategy: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=most)


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
node_data = st.one_of(
    st.none(),
    texts,
    st.fixed_dictionaries({"name": texts}, optional={"rule": texts, "list": few(texts, 2)}),
)
nodes = st.fixed_dictionaries(
    {
        "key": st.sampled_from(NODES),
        "type": st.sampled_from(TYPES),
        "sheet": st.sampled_from(["0", "1", "7"]),
        "data": node_data,
        "process": st.none() | texts,
        "pos_x": st.integers(0, 3),
    }
)
edges = st.fixed_dictionaries(
    {
        "key": st.sampled_from(EDGES),
        "source": st.sampled_from(NODES),
        "target": st.sampled_from(NODES),
        "sheet": st.sampled_from(["0", "1", "7"]),
        "label": st.none() | texts,
    }
)
configs = st.fixed_dictionaries(
    {
        "key": st.sampled_from(CONFIGS),
        "type": st.sampled_from(TYPES),
        "display_name": texts,
        "description": texts,
        "process": st.none() | texts,
    }
)
small = st.integers(-2, 2).map(float)


def floats_of(dim: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.tuples(*[small] * dim)


def _vector(dim: int) -> st.SearchStrategy[NodeVector]:
    return st.builds(
        lambda key, model, digest, content, name: a_vector(
            key, *content, name=name, model=model, hash=digest
        ),
        st.sampled_from(NODES),
        st.sampled_from(MODELS),
        st.sampled_from(["h1", "h2"]),
        floats_of(dim),
        st.none() | floats_of(dim),
    )


# Mostly one length, so that there is something to search; the other must be ignored.
vectors = st.sampled_from([2, 2, 2, 3]).flatmap(_vector)
vector_queries = st.tuples(
    st.sampled_from([2, 2, 2, 3]).flatmap(floats_of), st.sampled_from(MODELS)
)
sheet_lists = st.none() | st.sampled_from([{"0": "main", "1": "side"}, {"0": "main", "7": "seven"}])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A change as drawn; `sane` asks that what contradicts the graph is left out of it."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    configs: list[dict[str, Any]]
    vectors: list[NodeVector]
    gone_nodes: list[str]
    gone_edges: list[str]
    gone_configs: list[str]
    sheets: dict[str, str] | None
    sane: bool

    def mutation(self, graph_key: str, workspace: str) -> Mutation:
        """Return the mutation as it was drawn."""
        graph = a_graph(graph_key, workspace)
        return Mutation(
            graph_key=graph_key,
            put_nodes=[a_node(graph=graph_key, **fields) for fields in self.nodes],
            put_edges=[an_edge(graph=graph_key, **fields) for fields in self.edges],
            delete_nodes=self.gone_nodes,
            delete_edges=self.gone_edges,
            put_configs=[a_config(workspace, fields) for fields in self.configs],
            delete_configs=self.gone_configs,
            put_vectors=self.vectors,
            graph=None if self.sheets is None else graph.replace(sheets_list=self.sheets),
        )


def a_config(workspace: str, fields: Mapping[str, Any]) -> NodeTypeConfig:
    rest = {name: value for name, value in fields.items() if name not in ("type", "process")}
    config = a_type(fields["type"], workspace, **rest)
    return config.replace(node=config.node.replace(process=fields["process"]))


def _plans(least: int, most: int, sane: st.SearchStrategy[bool]) -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        nodes=st.lists(nodes, min_size=least, max_size=most, unique_by=lambda node: node["key"])
        | few(nodes, 3),
        edges=st.lists(edges, min_size=least, max_size=most),
        configs=st.just([]) | few(configs, 2),
        vectors=st.lists(vectors, min_size=least, max_size=most),
        gone_nodes=few(st.sampled_from(NODES), 2),
        gone_edges=few(st.sampled_from(EDGES), 2),
        gone_configs=st.just([]) | few(st.sampled_from(CONFIGS), 1),
        sheets=st.none() | sheet_lists,
        sane=sane,
    )


starts = _plans(4, 8, st.just(True))
plans = _plans(0, 4, st.sampled_from([True, True, True, True, False]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a plan is made to fit. `nodes` gives each node's sheet."""

    graph: Graph
    nodes: Mapping[str, str]
    edges: list[Edge]
    configs: set[str]


def made_to_fit(mutation: Mutation, stored: Stored) -> Mutation:
    """Return the mutation without what would be refused."""
    graph = mutation.graph and _with_sheets_in_use(mutation.graph, stored)
    sheets = (graph or stored.graph).sheets_list
    put_nodes = {node.key: _on_a_sheet(node, sheets) for node in mutation.put_nodes}
    gone = stored.nodes.keys() & set(mutation.delete_nodes) - put_nodes.keys()
    there = (stored.nodes.keys() - gone) | put_nodes.keys()
    put_edges = {
        edge.key: _on_a_sheet(edge, sheets)
        for edge in mutation.put_edges
        if edge.source in there and edge.target in there
    }
    configs = {config.key: config for config in mutation.put_configs}
    return Mutation(
        graph_key=mutation.graph_key,
        put_nodes=list(put_nodes.values()),
        put_edges=list(put_edges.values()),
        delete_nodes=sorted(gone),
        delete_edges=sorted(
            {e.key for e in stored.edges}.intersection(mutation.delete_edges) - put_edges.keys()
        ),
        put_configs=list(configs.values()),
        delete_configs=sorted(
            stored.configs.intersection(mutation.delete_configs) - configs.keys()
        ),
        put_vectors=list({v.key: v for v in mutation.put_vectors if v.key in there}.values()),
        graph=graph,
    )


def _with_sheets_in_use(graph: Graph, stored: Stored) -> Graph:
    used = {*stored.nodes.values(), *(edge.sheet for edge in stored.edges)}
    kept = {key: name for key, name in stored.graph.sheets_list.items() if key in used}
    return graph.replace(sheets_list={**kept, **graph.sheets_list})


def _on_a_sheet(document: Any, sheets: Mapping[str, str]) -> Any:
    assert isinstance(document, Node | Edge)
    return document if document.sheet in sheets else document.replace(sheet="0")
