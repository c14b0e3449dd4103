"""The seams to stored data: what a graph source, a record store and a database must do.

A source is opened for one workspace; a graph of another workspace does not exist for it. Every
implementation runs the whole contract suite in `tests/contracts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, Unpack, runtime_checkable

from datasources.batches import BatchHits, BatchRequest
from datasources.everywhere import FoundNode, WideHits
from datasources.hits import Hit, NodeVector, SearchField, Vector, VectorInfo, VectorQuery
from datasources.links import Direction, Link, LinkWalk, NodeChoice, TypedLink
from datasources.record_kinds import QueryOptions, Where
from datasources.types import (
    Edge,
    Graph,
    GraphStats,
    GraphVersions,
    Mutation,
    Node,
    NodeTypeConfig,
    Subgraph,
)


@runtime_checkable
class GraphDataSource(Protocol):
    """Reads the graphs of one workspace.

    Raises (every method that takes a `graph_key`): GraphNotFound. Lists are in key order unless
    a method says otherwise. Ties of equal scores are in key order.
    """

    @property
    def workspace(self) -> str: ...

    async def list_graphs(self) -> list[Graph]: ...

    async def get_graph(self, graph_key: str) -> Graph: ...

    async def get_versions(self, graph_key: str) -> GraphVersions:
        """Return the graph and a mark of its vectors; one round trip."""
        ...

    async def get_stats(self, graph_key: str) -> GraphStats: ...

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        """Return nodes whose key is greater than `after`; pages of a large graph are
        read with it.
        """
        ...

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        """Return edges whose key is greater than `after`, as `get_nodes` does."""
        ...

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        """Return the nodes that exist, in the order asked for, each once; one round trip."""
        ...

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        """Return the edges that exist, as `get_nodes_by_key` does."""
        ...

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        """Return every edge that starts or ends at one of the nodes; one round trip."""
        ...

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        """Return the ends of the edges of these nodes, one per edge, in edge-key order.

        Nodes with more than `max_degree` edges are passed over. Lighter than `get_edges_of`: no
        document is built.
        """
        ...

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        """Return the edges that a walk finds, in any order; one round trip."""
        ...

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        """Return the node types of this workspace and of `root` (ours wins), optionally
        some of them.
        """
        ...

    async def search_text(
        self, graph_key: str, query: str, *, limit: int, field: SearchField = "content"
    ) -> list[Hit]:
        """Return the best nodes by BM25 of their words (`content`: all text, `name`:
        key, label, type).
        """
        ...

    async def search_vectors(self, graph_key: str, wanted: VectorQuery) -> list[Hit]:
        """Return the nodes whose vectors are nearest."""
        ...

    async def get_neighborhood(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        max_depth: int,
        direction: Direction = "any",
        limit: int,
    ) -> Subgraph:
        """Return the nodes within `max_depth` edges of the seeds, breadth first, at most `limit`.

        Order: existing seeds as given, then level by level, each level by key. Edges: all with
        both ends inside, by key.
        """
        ...

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        """Return model and hash of the stored vectors of these nodes (absent: none stored).

        The model is empty where another program stored a vector without saying whose it is.
        """
        ...

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        """Return the stored vectors of these nodes (an undo restores them)."""
        ...

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        """Return the nodes that have one of these entries (`datasources.uses`), by graph and key.

        Of all graphs of the workspace, or of those named; one round trip.
        """
        ...

    async def search_everywhere(
        self, asked: BatchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        """Search text, names and meanings of all graphs, or those named, without
        links or first nodes.

        Scores are those of one graph that holds them all.
        """
        ...


@runtime_checkable
class UnmarkedVectors(Protocol):
    """Optional ability of a source: it may hold vectors of another program that name no model."""

    async def count_unmarked_vectors(self) -> dict[int, int]:
        """Returns how many nodes of the workspace have such a vector, by length; of many
        nodes the first.
        """
        ...

    async def adopt_vectors(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        """Stores model, hash and vector of the name beside the vector of the content, which stays
        as it is.

        Returns the number of nodes that are still there. Raises: GraphNotFound, InvalidMutation.
        """
        ...

    async def get_unmarked_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, Vector]:
        """Return these vectors by node. Raises: GraphNotFound."""
        ...


NamedHits = Callable[[Sequence[Hit], Sequence[Hit]], Sequence[str]]
"""Picks from the hits in all text and in names the nodes whose names are
read; see `text.names_of`.
"""


class LinkTables(Protocol):
    """The two reads of a retrieval: by `ComputedTables` from any source, or by what a BatchSource
    answered.
    """

    async def search_hits(self, graph_key: str, asked: BatchRequest, named: NamedHits) -> BatchHits:
        """Searches all text and names, by words and by vector, without links or first nodes.

        `names` are those of the hits of words that `named` picks.
        """
        ...

    async def get_chosen(self, graph_key: str, wanted: NodeChoice) -> Subgraph:
        """Returns the nodes that are chosen from links, and the edges among them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored document that is not graph data. `version` is opaque; None: not stored yet."""

    kind: str
    key: str
    data: Mapping[str, Any]
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWrite:
    """One compare-and-set that joins a mutation's transaction. `data` None deletes the record."""

    kind: str
    key: str
    data: Mapping[str, Any] | None
    expected_version: str | None

    def stored(self, version: str | None) -> Record | None:
        """Return the record that this write leaves, None where it deletes it."""
        if self.data is None:
            return None
        return Record(kind=self.kind, key=self.key, data=self.data, version=version)


@runtime_checkable
class MutableGraphDataSource(GraphDataSource, Protocol):
    """Writes the graphs of one workspace."""

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        """Store a new graph and return it: empty at revision 0, or filled by a mutation
        at revision 1.

        One transaction, which record writes join where there is a mutation: nobody sees the graph
        without its content.
        Raises: GraphExists, also for another workspace's key, and what `apply` raises.
        """
        ...

    async def delete_graph(self, graph_key: str) -> None: ...

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        """Apply a mutation and record writes in one transaction and return the new revision.

        `expected_revision` None applies to whatever is there.
        Raises: RevisionConflict, RecordConflict, InvalidMutation (unknown key deleted, dangling
        edge, wrong graph, unknown sheet); then nothing has changed.
        """
        ...

    async def put_node_config(self, config: NodeTypeConfig) -> None: ...

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        """Store vectors without a new revision; those of vanished nodes are left out.
        Return how many.
        """
        ...


class RecordStore(ABC):
    """Keeps the records of one workspace, with compare-and-set by version."""

    @abstractmethod
    async def get(self, kind: str, key: str) -> Record | None: ...

    async def put(self, record: Record, *, expected_version: str | None) -> Record:
        """Store if the stored version is `expected_version` (None: if
        absent). Raises: RecordConflict.
        """
        kind = record.kind
        key = record.key
        write = RecordWrite(kind=kind, key=key, data=record.data, expected_version=expected_version)
        [stored] = await self.write([write])
        assert stored is not None
        return stored

    async def delete(self, kind: str, key: str, *, expected_version: str) -> None:
        """Delete if the stored version is `expected_version`. Raises: RecordConflict."""
        await self.write(
            [RecordWrite(kind=kind, key=key, data=None, expected_version=expected_version)]
        )

    @abstractmethod
    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        """Carry out writes in one transaction: all, or none of them. Raises: RecordConflict.

        Returns what each record is then, its data as given; None of a deleted one.
        """

    @abstractmethod
    async def query(
        self, kind: str, where: Where | None = None, **how: Unpack[QueryOptions]
    ) -> list[Record]:
        """Return records whose indexed fields equal `where`; ties and default order by key.

        A bounded query goes along the index of its `order_by` field, others along that of
        a field of
        `where`: bounds that most records keep are no help.
        Raises: UnknownIndexField for a field that the kind does not declare in RECORD_INDEXES.
        """


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a health report."""

    name: str
    status: Literal["ok", "warning", "error"]
    detail: str
    fix: str | None = None


Outcome = Literal["ok", "left out", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalStep:
    """One part of a rehearsal on a server. Units: `ms` is how long it took."""

    name: str
    status: Outcome
    detail: str
    ms: int


class Database(Protocol):
    """An opened database: hands out sources and record stores by workspace."""

    @property
    def url(self) -> str:
        """Its address without secrets."""
        ...

    def source(self, workspace: str) -> MutableGraphDataSource: ...

    def records(self, workspace: str) -> RecordStore: ...

    async def workspaces(self, kind: str | None = None) -> list[str]:
        """Return the names of the workspaces that have graphs, or records of a kind, in order."""
        ...

    async def check(self) -> list[Finding]:
        """Look at the store's health; never raises for what it can report."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...
