"""The seams to stored data: what a graph source, a record store and a database must do.

A source is opened for one workspace; a graph of another workspace does not exist for it. Every
implementation runs the whole contract suite in `tests/contracts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, Self, runtime_checkable

from datasources.errors import UnknownIndexField
from datasources.types import (
    Direction,
    Edge,
    Graph,
    GraphStats,
    GraphVersions,
    Hit,
    Link,
    LinkTable,
    Mutation,
    Node,
    NodeTypeConfig,
    NodeVector,
    SearchField,
    Subgraph,
    Vector,
    VectorInfo,
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
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Node]:
        """Return nodes whose key is greater than `after`; pages of a large graph are read with it."""
        ...

    async def get_edges(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Edge]:
        """Return edges whose key is greater than `after`, as `get_nodes` does."""
        ...

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        """Return the nodes that exist, in the order asked for, each once; one round trip."""
        ...

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        """Return every edge that starts or ends at one of the nodes; one round trip."""
        ...

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        """Return the ends of the edges of these nodes (None: of all), one per edge, in edge-key order.

        Of `keys`, nodes with more than `max_degree` edges are passed over. Lighter than `get_edges_of`: no
        document is built.
        """
        ...

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        """Return the node types of this workspace and of `root` (ours wins), optionally some of them."""
        ...

    async def search_text(
        self, graph_key: str, query: str, *, limit: int, field: SearchField = "content"
    ) -> list[Hit]:
        """Return the best nodes by BM25 of their words (`content`: all text, `name`: key, label, type)."""
        ...

    async def search_vectors(
        self,
        graph_key: str,
        vector: Vector,
        *,
        model: str,
        limit: int,
        min_score: float = 0.0,
        field: SearchField = "content",
    ) -> list[Hit]:
        """Return the nodes of greatest cosine ≥ `min_score`.

        Shapes: `vector` is float32[dim]. Vectors of another model or length are ignored.
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


@runtime_checkable
class UnmarkedVectors(Protocol):
    """Optional ability of a source: it may hold vectors of another program that name no model."""

    async def get_unmarked_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, Vector]:
        """Return these vectors by node. Raises: GraphNotFound."""
        ...


FURTHER_SHARE = 3
"""A second step over the edges begins at one node for so many candidates of the first."""
Further = Callable[[LinkTable], Sequence[str]]
"""Names, from the links of some nodes, those whose links are wanted as well."""


@runtime_checkable
class LinkTables(Protocol):
    """Optional ability of a source: edges as ranking computes with them, without a key for each end."""

    async def get_chosen(
        self,
        graph_key: str,
        keys: Sequence[str],
        further: Further,
        choose: Callable[[LinkTable], Sequence[str]],
        *,
        limit: int,
        max_degree: int,
    ) -> Subgraph:
        """Return the nodes that `choose` names from links, and the edges among them.

        The links are those of `keys`, in any order unless the limit cuts them, and those of the nodes that
        `further` names from these, but for nodes of more than `max_degree` edges. A link may come twice.
        One moment of the graph and one round trip. Both may be called in another thread.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHits:
    """Best hits of the four searches, the edges at them by key, the first nodes where nothing is found.

    `further` are the edges of the best nodes that `links` lead to, as `LinkTables.get_chosen` reads them.
    """

    text: list[Hit]
    name: list[Hit]
    vector: list[Hit]
    name_vector: list[Hit]
    links: list[Link] = field(default_factory=list[Link])
    further: list[Link] = field(default_factory=list[Link])
    first: list[str] = field(default_factory=list[str])


@runtime_checkable
class BatchSource(Protocol):
    """Optional ability of a source to which every question is a round trip: a retrieval in two of them.

    Decision: None means that it cannot be done for this graph now; the caller then asks one by one.
    Raises: GraphNotFound.
    """

    async def search_at_once(
        self,
        graph_key: str,
        query: str,
        *,
        vector: tuple[str, Vector] | None,
        limit: int,
        min_score: float,
        links: int,
        max_degree: int,
        first: int,
    ) -> BatchHits | None:
        """Search text, names and, by `vector` (model, float32[dim]), meanings: `limit` hits of each.

        `links` edges at most at the hits, and those of the best nodes that they lead to (one in
        `FURTHER_SHARE` of the limit), but for
        nodes of more than `max_degree`; `first` nodes at most where nothing is found.
        """
        ...

    async def read_at_once(
        self, graph_key: str, keys: Sequence[str], *, max_depth: int, limit: int
    ) -> tuple[Subgraph, list[NodeTypeConfig]] | None:
        """Return the nodes around these, in any direction, and the stored types of them."""
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


@runtime_checkable
class MutableGraphDataSource(GraphDataSource, Protocol):
    """Writes the graphs of one workspace."""

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        """Store a new graph and return it: empty at revision 0, or filled by a mutation at revision 1.

        One transaction, which record writes join where there is a mutation: nobody sees the graph
        without its content.
        Raises: GraphExists, also for another workspace's key, and what `apply` raises.
        """
        ...

    async def delete_graph(self, graph_key: str) -> None: ...

    async def apply(
        self, mutation: Mutation, *, expected_revision: int | None = None, records: Sequence[RecordWrite] = ()
    ) -> int:
        """Apply a mutation and record writes in one transaction and return the new revision.

        `expected_revision` None applies to whatever is there.
        Raises: RevisionConflict, RecordConflict, InvalidMutation (unknown key deleted, dangling
        edge, wrong graph, unknown sheet); then nothing has changed.
        """
        ...

    async def put_node_config(self, config: NodeTypeConfig) -> None: ...

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        """Store vectors without a new revision; those of vanished nodes are left out. Return how many."""
        ...


@runtime_checkable
class RecordStore(Protocol):
    """Keeps the records of one workspace, with compare-and-set by version."""

    async def get(self, kind: str, key: str) -> Record | None: ...

    async def put(self, record: Record, *, expected_version: str | None) -> Record:
        """Store if the stored version is `expected_version` (None: if absent). Raises: RecordConflict."""
        ...

    async def delete(self, kind: str, key: str, *, expected_version: str) -> None: ...

    async def write(self, writes: Sequence[RecordWrite]) -> None:
        """Carry out several writes in one transaction: all, or none of them. Raises: RecordConflict."""
        ...

    async def query(
        self,
        kind: str,
        where: Mapping[str, str | int | bool] | None = None,
        *,
        order_by: str | None = None,
        at_least: int | None = None,
        at_most: int | None = None,
        descending: bool = False,
        limit: int = 100,
    ) -> list[Record]:
        """Return records whose indexed fields equal `where`; ties and default order by key.

        `at_least` and `at_most` keep those whose `order_by` field is a number within them, both included.
        A bounded query goes along the index of that field, others along that of a field of `where`: bounds
        that most records keep are no help.
        Raises: UnknownIndexField for a field that the kind does not declare in RECORD_INDEXES.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of a health report."""

    name: str
    status: Literal["ok", "warning", "error"]
    detail: str
    fix: str | None = None


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

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class MemoryGraphProvider(Protocol):
    """The live working copy of a graph, while it holds what is not stored; the memory overlay reads it.

    Decision: without unsaved changes there is nothing to give (None): the store then says the same.
    """

    async def get_live_graph(self, graph_key: str) -> Graph | None:
        """Return the graph document; its revision differs from that of any other content of the graph."""
        ...

    async def get_live_nodes(self, graph_key: str) -> list[Node] | None: ...

    async def get_live_edges(self, graph_key: str) -> list[Edge] | None: ...


RECORD_INDEXES: Mapping[str, tuple[str, ...]] = {
    "thread": (
        *("agentOpen", "graphKey", "userId", "lastUpdatedTime"),
        *("agentId", "agentIdleTime"),
    ),
    "approval": (
        *("graphKey", "threadId", "status", "userId", "createdTime", "expiresTime"),
        *("automationId", "proposalHash", "spokenCode"),
    ),
    "audit": ("graphKey", "sequence", "userId", "approvalId"),
    "lease": ("owner", "expiresTime", "graphKey"),
    "journal": ("graphKey", "sequence"),
    "history": ("graphKey", "timestamp"),
    "session": (
        "graphKey",
        "userId",
        "automationId",
        "open",
        "tended",
        "phase",
        "queuedTime",
        "scheduledTime",
        "lastUpdatedTime",
    ),
    "automation": ("graphKey", "userId", "enabled", "nextTime"),
    "member": ("seenTime",),
    "policy": (),
    "agent": ("agentId", "desired", "updatedTime"),
    "agent_list": (),
    "agent_version": (),
    "delivery": ("agentId", "callId", "status", "nextTime"),
    "call": ("agentId", "open", "status", "outcome", "startedTime", "nextTime"),
}
"""The record kinds and the fields of `data` by which each may be queried."""


def indexed_fields(
    kind: str, where: Mapping[str, str | int | bool], order_by: str | None, *, bounded: bool
) -> tuple[str, ...]:
    """Return the fields by which a kind may be queried. Raises: UnknownIndexField for any other."""
    known = RECORD_INDEXES.get(kind, ())
    for name in (*where, *([] if order_by is None and not bounded else [order_by or ""])):
        if name not in known:
            raise UnknownIndexField(kind=kind, field=name, known=known)
    return known
