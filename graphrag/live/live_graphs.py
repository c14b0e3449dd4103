"""Opens and closes the live graphs of a server, and does their periodic work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from typing import Self

from datasources.base import MutableGraphDataSource, RecordStore
from datasources.errors import DatabaseBusy, GraphNotFound, SourceBusy
from datasources.notices import SILENT, NoticeRouter, StoreNotice
from datasources.record_kinds import GRAPH
from graphrag.leases import KIND as LEASE
from graphrag.leases import Lease, new_owner, now_ms
from graphrag.live.errors import EditingStopped, LiveElsewhere, LiveError
from graphrag.live.journal import journalled_graphs, remove_journal_of_gone
from graphrag.live.live_graph import LiveGraph
from graphrag.live.options import LiveOptions, LiveWatch
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

LEAST_S = 0.02  # between two looks for notices
# Time in which graphs are tried again that could not be recovered: longer than a lease of a server
# that crashed (15 s), and than ArangoDB keeps what it was writing locked (60 s).
RECOVERY_MS = 90_000

Name = tuple[str, str]


def _lease_key(graph_key: str) -> str:
    return f"live/{graph_key}"


class LiveGraphs:
    """The live graphs of a server. `sources` and `records` return the stores of a workspace.

    `embed` is called with the workspace, the graph and the nodes of each save, and may not raise.
    `notices` are those of the same database.
    Used as `async with`: leaving saves and closes all graphs.
    """

    def __init__(
        self,
        sources: Callable[[str], MutableGraphDataSource],
        records: Callable[[str], RecordStore],
        *,
        embed: Callable[[str, str, Sequence[str]], None] = lambda _workspace, _graph_key, _nodes: (
            None
        ),
        options: LiveOptions | None = None,
        clock: Callable[[], int] = now_ms,
        watch: LiveWatch | None = None,
        notices: NoticeRouter = SILENT,
    ) -> None:
        self._sources = sources
        self._records = records
        self._embed = embed
        self.options = options or LiveOptions()
        self._clock = clock
        self._watch = watch or LiveWatch()
        self._notices = notices
        self._owner = new_owner()
        self._open: dict[Name, LiveGraph] = {}
        self._locks: dict[Name, asyncio.Lock] = {}
        self._unrecovered: dict[Name, int] = {}  # until when each is tried again
        self._ticker: asyncio.Task[None] | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._ticker = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True
        await end_tasks(self._ticker)
        for name in list(self._open):
            await self._close(name, "the server stops")

    def get(self, workspace: str, graph_key: str) -> LiveGraph | None:
        """Returns a graph that is open on this server, otherwise None."""
        live = self._open.get((workspace, graph_key))
        return None if live is None or live.is_closed else live

    @property
    def opened(self) -> list[LiveGraph]:
        return [live for live in self._open.values() if not live.is_closed]

    async def open(self, workspace: str, graph_key: str) -> LiveGraph:
        """Returns the live graph, after opening it if necessary.

        Raises: GraphNotFound, LiveElsewhere, SourceError.
        """
        name = (workspace, graph_key)
        # Raises for a missing graph before a lock is stored for it.
        await self._sources(workspace).get_graph(graph_key)
        async with self._locks.setdefault(name, asyncio.Lock()):
            live = self.get(workspace, graph_key)
            if live is not None:
                return live
            await self._close(name, "it is opened again")
            if self._is_closed:
                raise EditingStopped
            records = self._records(workspace)
            live = LiveGraph(
                self._sources(workspace),
                records,
                graph_key,
                lease=Lease(
                    records,
                    _lease_key(graph_key),
                    self._owner,
                    facts={"graphKey": graph_key},
                    refused=lambda: LiveElsewhere(graph_key=graph_key),
                    clock=self._clock,
                    held_ms=self.options.held_ms,
                ),
                clock=self._clock,
                options=self.options,
                watch=self._watch,
                on_saved=lambda key, keys: self._embed(workspace, key, keys),
            )
            await live.start()
            self._open[name] = live
            return live

    async def _close(self, name: Name, reason: str) -> None:
        live = self._open.pop(name, None)
        if live is not None:
            await live.close(reason)

    async def forget(self, workspace: str, graph_key: str) -> None:
        """Closes a deleted graph and removes its journal. Raises: SourceError."""
        live = self._open.pop((workspace, graph_key), None)
        if live is not None:
            await live.abandon("it was deleted")
        await remove_journal_of_gone(self._records(workspace), self._sources(workspace), graph_key)

    async def recover(self, workspace: str) -> list[str]:
        """Saves the changes in journals of servers that crashed; returns the keys of their graphs.

        Skips graphs that another server holds, or that the database locks; it may have crashed a
        moment ago, so `tick` tries them again for a while. To be called once when a workspace is
        opened. Raises: SourceError.
        """
        until = self._clock() + RECOVERY_MS
        recovered: list[str] = []
        for graph_key in await journalled_graphs(self._records(workspace)):
            self._unrecovered[workspace, graph_key] = until
            if await self._is_recovered((workspace, graph_key)):
                recovered.append(graph_key)
        return recovered

    async def _is_recovered(self, name: Name) -> bool:
        """Saves the changes in the journal of one graph. Returns False if it was skipped."""
        until = self._unrecovered.pop(name)
        if self.get(*name) is not None:
            return False
        try:
            live = await self.open(*name)
            await live.save()
        except GraphNotFound:
            await self.forget(*name)
            return False
        except (SourceBusy, DatabaseBusy, LiveError) as exc:
            if self._clock() < until:
                self._unrecovered[name] = until
            log.info("not_recovered", extra={"error": type(exc).__name__})
            return False
        return True

    async def _serve(self) -> None:
        with self._notices.subscribed(GRAPH, LEASE, least_s=LEAST_S) as inbox:
            while True:
                told = await inbox.wait(self.options.tick_ms / 1000)
                try:
                    await (self.tick() if told is None else self._look({*told}))
                except Exception:
                    log.exception("tick_failed")

    async def _look(self, told: Set[StoreNotice]) -> None:
        """Lets each open graph that a notice is about read its owner or its revision."""
        for live in self.opened:
            workspace = live.workspace
            lease = StoreNotice(workspace=workspace, kind=LEASE, key=_lease_key(live.graph_key))
            if lease in told:
                await live.check_owner()
            if StoreNotice(workspace=workspace, kind=GRAPH, key=live.graph_key) in told:
                await live.show_stored()

    async def tick(self) -> None:
        """Does the due work of every open graph once, and recovers those that were skipped."""
        for name in list(self._unrecovered):
            await self._is_recovered(name)
        opened = list(self._open.items())
        await asyncio.gather(*(live.tick() for _, live in opened if not live.is_closed))
        for name, live in opened:
            if live.is_closed or live.is_idle:
                async with self._locks.setdefault(name, asyncio.Lock()):
                    if self._open.get(name) is live and (live.is_closed or live.is_idle):
                        await self._close(name, "nobody edits it")
