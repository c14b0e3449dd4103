"""A database that lives in the process, empty or with the NBA sample graph."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from datasources.base import Finding, MutableGraphDataSource, RecordStore
from datasources.mock.records import MemoryRecords
from datasources.mock.source import MemorySource, Store
from datasources.mock.state import GraphState
from datasources.mutations import Existing, check_mutation
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig, parse_document
from mock_data import load_json

NBA_WORKSPACE = "test"
NBA_GRAPH = "testgraph001"


class MemoryDatabase:
    """Implements Database. Gone with the object; opening and closing mean nothing to it."""

    def __init__(self) -> None:
        self._store = Store()

    @property
    def url(self) -> str:
        return "memory:"

    def source(self, workspace: str) -> MutableGraphDataSource:
        return MemorySource(self._store, workspace)

    def records(self, workspace: str) -> RecordStore:
        return self._store.records.setdefault(workspace, MemoryRecords())

    async def workspaces(self, kind: str | None = None) -> list[str]:
        if kind is None:
            return sorted({state.graph.workspace for state in self._store.graphs.values()})
        records = self._store.records.items()
        return sorted(name for name, of in records if any(of_kind == kind for of_kind, _ in of.stored))

    async def check(self) -> list[Finding]:
        graphs = self._store.graphs.values()
        nodes = sum(len(state.nodes) for state in graphs)
        return [
            Finding(
                "memory", "ok", f"{len(graphs)} graphs, {nodes} nodes; nothing is kept when the program ends"
            )
        ]

    def load(self, document: dict[str, Any], workspace: str) -> None:
        """Add a graph from Nodius JSON (graph, nodes, edges, configs), owned by `workspace`.

        Raises: BadDocument, InvalidMutation.
        """
        graph = parse_document(Graph, {**document["graph"], "workspace": workspace}, "graphs")
        configs = [
            parse_document(NodeTypeConfig, {**config, "workspace": workspace}, "node_configs")
            for config in document["configs"]
        ]
        content = Mutation(
            graph_key=graph.key,
            put_nodes=[parse_document(Node, node, "nodes") for node in document["nodes"]],
            put_edges=[parse_document(Edge, edge, "edges") for edge in document["edges"]],
        )
        check_mutation(content, graph=graph, existing=Existing())
        self._store.graphs[graph.key] = GraphState(graph=graph.replace(revision=0)).after(content)
        self._store.set_configs(
            workspace,
            {**self._store.configs.get(workspace, {}), **{config.key: config for config in configs}},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        return None


def open_nba(workspace: str = NBA_WORKSPACE) -> MemoryDatabase:
    """Return a memory database that holds the NBA sample graph in this workspace."""
    database = MemoryDatabase()
    database.load(load_json("nba.json"), workspace)
    return database
