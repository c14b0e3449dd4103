"""The interfaces to stored data: graph sources, record stores and databases.

A source belongs to one workspace and raises GraphNotFound for graphs of other workspaces. Every
implementation passes the whole contract suite in `tests/contracts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, Unpack, runtime_checkable

from datasources.everywhere import FoundNode, WideHits
from datasources.hits import NodeVector, Vector, VectorInfo
from datasources.links import Direction, Link, LinkWalk, TypedLink
from datasources.notices import SILENT, NoticeRouter, WorkspaceNotices
from datasources.record_kinds import QueryOptions, Where
from datasources.search import SearchHits, SearchRequest
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


class ForeignVectors(Protocol):
    """Optional ability: vectors that another program stored without naming their model."""

    async def count_unmarked_vectors(self) -> dict[int, int]:
        """Returns the number of nodes of the workspace with such a vector, by its length.

        In a workspace with many of them only the first are counted.
        """
        ...

    async def get_unmarked_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, Vector]:
        """Returns these vectors by node. Raises: GraphNotFound."""
        ...

    async def adopt_vectors(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        """Stores model, hash and the vector of the name; the vector of the content is kept.

        Returns the number of nodes that still exist. Raises: GraphNotFound, InvalidMutation.
        """
        ...


class IndexBuilder(Protocol):
    """Optional ability: search indexes that are built in the background, or now on request."""

    async def build_indexes(self, graph_key: str) -> None:
        """Brings the indexes of a graph up to date. Raises: GraphNotFound."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The optional abilities of a source; None means that it lacks one."""

    foreign_vectors: ForeignVectors | None = None
    index_builder: IndexBuilder | None = None


class GraphDataSource(Protocol):
    """Reads the graphs of one workspace.

    Raises (every method that takes a `graph_key`): GraphNotFound. Lists are in key order unless
    a method says otherwise. Ties of equal scores are in key order.
    """

    @property
    def workspace(self) -> str: ...

    @property
    def abilities(self) -> Abilities:
        """The declared optional abilities. Callers read them instead of probing for methods."""
        ...

    async def list_graphs(self) -> list[Graph]: ...

    async def get_graph(self, graph_key: str) -> Graph: ...

    async def get_versions(self, graph_key: str) -> GraphVersions:
        """Returns the graph and an opaque version of its vectors; one round trip."""
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
        """Returns nodes whose key is greater than `after`; large graphs are read in pages."""
        ...

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        """Returns edges whose key is greater than `after`, as `get_nodes` does."""
        ...

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        """Returns the nodes that exist, in the order of `keys`, deduplicated; one round trip."""
        ...

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        """Returns the edges that exist, as `get_nodes_by_key` does."""
        ...

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        """Returns every edge that starts or ends at one of the nodes; one round trip."""
        ...

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        """Returns the ends of the edges of these nodes, one per edge, in edge-key order.

        Nodes with more than `max_degree` edges are skipped. Cheaper than `get_edges_of`: no
        document is read.
        """
        ...

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        """Returns the edges that a walk finds, in any order; one round trip."""
        ...

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        """Returns the node types of this workspace and of `root`, all or those named.

        A type of the workspace replaces one of `root`.
        """
        ...

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        """Returns the best nodes by words and by vector, in all text and in names; one round trip.

        Words are those of all text (`content`) or of key, label and type (`name`).
        """
        ...

    async def get_neighborhood(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        max_depth: int,
        direction: Direction = "any",
        limit: int,
        with_types: bool = False,
    ) -> Subgraph:
        """Returns the nodes within `max_depth` edges of the seeds, breadth first, at most `limit`.

        Order: existing seeds as given, then level by level, each level by key. Edges: all with
        both ends inside, by key. `with_types` adds the stored types of these nodes. One round trip.
        """
        ...

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        """Returns model and hash of the stored vectors; nodes without a vector are left out.

        The model is empty for a vector that another program stored without naming it.
        """
        ...

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        """Returns the stored vectors of these nodes, which an undo restores."""
        ...

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        """Returns the nodes that have one of these entries (`datasources.uses`), by graph and key.

        Searches all graphs of the workspace, or those named; one round trip.
        """
        ...

    async def search_everywhere(
        self, asked: SearchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        """Searches all graphs of the workspace, or those named, by words and by vector.

        Scores are those of one graph that holds all nodes. Names, first nodes and links are not
        returned.
        """
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
    """One compare-and-set that joins a mutation's transaction. `data` None deletes the record.

    `is_quiet`: no notice is sent for this write.
    """

    kind: str
    key: str
    data: Mapping[str, Any] | None
    expected_version: str | None
    is_quiet: bool = False

    def stored(self, version: str | None) -> Record | None:
        """Returns the record after this write, None if it deletes it."""
        if self.data is None:
            return None
        return Record(kind=self.kind, key=self.key, data=self.data, version=version)


class MutableGraphDataSource(GraphDataSource, Protocol):
    """Writes the graphs of one workspace."""

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        """Stores a new graph and returns it: empty at revision 0, or with content at revision 1.

        One transaction with the mutation and the record writes: no reader sees the graph without
        its content.
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
        """Applies a mutation and record writes in one transaction and returns the new revision.

        `expected_revision` None accepts any revision.
        Raises: RevisionConflict, RecordConflict, InvalidMutation (unknown key deleted, dangling
        edge, wrong graph, unknown sheet); then nothing has changed.
        """
        ...

    async def get_own_configs(self) -> list[NodeTypeConfig]:
        """Returns the node types stored in this workspace, also those that another type hides."""
        ...

    async def put_node_config(self, config: NodeTypeConfig) -> None: ...

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        """Stores vectors without a new revision and returns their number.

        Vectors of nodes that no longer exist are left out.
        """
        ...


class RecordStore(ABC):
    """Keeps the records of one workspace, with compare-and-set by version.

    A database that tells changes gives its `notices` to its stores.
    """

    notices: WorkspaceNotices = SILENT.of("")

    @abstractmethod
    async def get(self, kind: str, key: str) -> Record | None: ...

    async def put(self, record: Record, *, expected_version: str | None) -> Record:
        """Stores a record if the stored version is `expected_version` (None: no record yet).

        Raises: RecordConflict.
        """
        kind = record.kind
        key = record.key
        write = RecordWrite(kind=kind, key=key, data=record.data, expected_version=expected_version)
        [stored] = await self.write([write])
        assert stored is not None
        return stored

    async def delete(self, kind: str, key: str, *, expected_version: str) -> None:
        """Deletes a record if its version is `expected_version`. Raises: RecordConflict."""
        await self.write(
            [RecordWrite(kind=kind, key=key, data=None, expected_version=expected_version)]
        )

    @abstractmethod
    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        """Applies all writes in one transaction, or none. Raises: RecordConflict.

        Returns the new records in the order of the writes, None for a deleted one.
        """

    @abstractmethod
    async def query(
        self, kind: str, where: Where | None = None, **how: Unpack[QueryOptions]
    ) -> list[Record]:
        """Returns records whose indexed fields equal `where`; ties and default order by key.

        A bounded query uses the index of its `order_by` field, others that of a field of `where`:
        bounds that most records satisfy are no help.
        Raises: UnknownIndexField for a field that the kind does not declare in RECORD_INDEXES.
        """

    @abstractmethod
    async def get_page(self, kind: str, *, after: str | None = None, limit: int) -> list[Record]:
        """Returns the first records of a kind whose key is greater than `after`, by key.

        Reads a kind of any size in pages: `after` is the key of the last record of the page before.
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
    """One part of a rehearsal on a server. Units: `ms` is its duration."""

    name: str
    status: Outcome
    detail: str
    ms: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric of a database: values by the value of its label, or one under "" without a label.

    `is_total`: it only grows.
    """

    name: str
    meaning: str
    values: Mapping[str, float]
    label: str | None = None
    is_total: bool = False


@runtime_checkable
class Measured(Protocol):
    """A database that counts its work. An ability that a Database may have."""

    def figures(self) -> Sequence[Figure]:
        """Returns the figures of this process; none before the database is opened."""
        ...


class Database(Protocol):
    """An opened database: hands out sources and record stores by workspace."""

    @property
    def url(self) -> str:
        """Its address without secrets."""
        ...

    @property
    def notices(self) -> NoticeRouter:
        """Wakes those who wait for changes; `SILENT` where the database tells none."""
        ...

    def source(self, workspace: str) -> MutableGraphDataSource: ...

    def records(self, workspace: str) -> RecordStore: ...

    async def workspaces(self, kind: str | None = None) -> list[str]:
        """Returns the workspaces that have graphs, or records of a kind, in order."""
        ...

    async def check(self) -> list[Finding]:
        """Checks the store's health; reports problems instead of raising."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...
