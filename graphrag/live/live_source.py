"""The graphs of a workspace as people see them: reads include unsaved edits, writes go through live
graphs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from datasources.base import MutableGraphDataSource, RecordWrite
from datasources.errors import SourceBusy, SourceError
from datasources.memory_overlay import MemoryOverlay
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.live.errors import LiveError, LiveGraphClosed
from graphrag.live.live_graph import LiveGraph
from graphrag.live.live_graphs import LiveGraphs


@contextmanager
def _live_errors() -> Generator[None]:
    """Continues with the store if a live graph was closed, and so saved, at this moment.

    Raises: SourceBusy for any other error of a live graph.
    """
    try:
        yield
    except LiveGraphClosed:
        return
    except LiveError as exc:
        raise SourceBusy(source="live editing", reason=str(exc)) from exc


class LiveSource(MemoryOverlay):
    """Implements MutableGraphDataSource. Editors see everything stored through it at once.

    It is the MemoryGraphProvider of its own reads: it provides the graphs with unsaved changes on
    this server.
    """

    def __init__(self, source: MutableGraphDataSource, graphs: LiveGraphs) -> None:
        super().__init__(source, self)
        self._writable = source
        self._graphs = graphs
        self.create_graph = source.create_graph
        self.get_own_configs = source.get_own_configs
        self.put_node_config = source.put_node_config
        self.put_embeddings = source.put_embeddings

    async def delete_graph(self, graph_key: str) -> None:
        await self._writable.delete_graph(graph_key)
        await self._graphs.forget(self.workspace, graph_key)

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        live = self._graphs.get(self.workspace, mutation.graph_key)
        if live is not None:
            with _live_errors():
                return await live.apply_mutation(
                    mutation, expected_revision=expected_revision, records=records
                )
        return await self._writable.apply(
            mutation, expected_revision=expected_revision, records=records
        )

    def _unsaved(self, graph_key: str) -> LiveGraph | None:
        live = self._graphs.get(self.workspace, graph_key)
        return live if live is not None and live.has_unsaved else None

    def live_keys(self) -> list[str]:
        opened = self._graphs.opened
        return [
            live.graph_key
            for live in opened
            if live.workspace == self.workspace and live.has_unsaved
        ]

    async def get_live_graph(self, graph_key: str) -> Graph | None:
        live = self._unsaved(graph_key)
        if live is None:
            return None
        try:
            await live.refresh()  # unsaved edits must not hide changes of others
        except SourceError:
            return None  # reading the store will raise the error
        live = self._unsaved(graph_key)
        return None if live is None else live.document()

    async def get_live_nodes(self, graph_key: str) -> list[Node] | None:
        live = self._graphs.get(self.workspace, graph_key)
        return None if live is None else live.nodes

    async def get_live_edges(self, graph_key: str) -> list[Edge] | None:
        live = self._graphs.get(self.workspace, graph_key)
        return None if live is None else live.edges


class SavedSource(LiveSource):
    """A LiveSource that saves graphs before they are read, so that each has a stored revision.

    Used by approvals, which record revisions and review the stored graph.
    """

    async def get_graph(self, graph_key: str) -> Graph:
        live = self._graphs.get(self.workspace, graph_key)
        if live is not None and live.has_unsaved:
            with _live_errors():
                await live.save()
        return await self._writable.get_graph(graph_key)
