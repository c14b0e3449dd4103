"""Makes, lists, synchronises and removes the connections of one workspace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace

import orjson

from datasources.base import Record, RecordStore
from datasources.errors import BadDocument, RecordConflict
from datasources.types import parse_document
from graphrag.agent.thread_store import ThreadBusy
from graphrag.agent.turn_lease import TurnLeases
from graphrag.approvals import Approvals, Person
from graphrag.connections.editor import (
    Discovery,
    Editor,
    GivesNotices,
    RemoteWorkflow,
    ServerNotice,
)
from graphrag.connections.editors import OpenEditor, open_editor, page_of
from graphrag.connections.errors import (
    ConnectionBusy,
    ConnectionExists,
    ConnectionForbidden,
    ConnectionNotFound,
    ConnectionRefused,
    EditorFault,
    EditorUnreachable,
    WorkflowNotLinked,
)
from graphrag.connections.key_store import KeyStore
from graphrag.connections.local_changes import is_waiting, settled, without_marks
from graphrag.connections.new_connection import NewConnection, check_new, normal_address
from graphrag.connections.pull import Links, Pull, PulledWorkflow, read_link
from graphrag.connections.standing import Standing, standing_of
from graphrag.connections.stored_connection import (
    CONNECTION_KIND,
    LINK_KIND,
    ConnectionLink,
    EditorKind,
    ServerConnection,
)
from graphrag.importers.differences import Differences, differences
from graphrag.leases import now_ms
from graphrag.stored_records import change_record, delete_record, readable

LEASE_PREFIX = "connection"
LOOK_S = 0.2
"""Between two tries to get the lease of a connection."""
MAX_CONNECTIONS = 100
REMOVE_WAIT_S = 30.0
"""For others who read or write the server of a connection that is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """The outcome of one synchronisation, one entry for each workflow."""

    connection: ServerConnection
    workflows: tuple[PulledWorkflow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedGraph:
    """A workflow of a server, its graph, and where both stand to each other.

    `page` is the address at which people open the workflow in its own editor.
    """

    link: ConnectionLink
    standing: Standing
    page: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedWorkflow:
    """A workflow as its server has it now, and what changed on each side since the last
    synchronisation. `differences` is None where the graph was deleted or cannot be compared.
    """

    graph: LinkedGraph
    differences: Differences | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSession:
    """A connection whose server is open, held by this process alone until it is closed."""

    connection: ServerConnection
    editor: Editor
    links: Links
    pull: Pull


def no_progress(_done: int, _total: int) -> None:
    """Shows no progress."""


class Connections:
    """The connections of one workspace. `clock` gives milliseconds since 1970."""

    def __init__(
        self,
        records: RecordStore,
        approvals: Approvals,
        keys: KeyStore,
        *,
        clock: Callable[[], int] = now_ms,
        opens: OpenEditor = open_editor,
    ) -> None:
        self._records = records
        self._approvals = approvals
        self._keys = keys
        self._clock = clock
        self._opens = opens
        self._leases = TurnLeases(records, prefix=LEASE_PREFIX, clock=clock)

    async def list(self) -> list[ServerConnection]:
        """Returns the connections by name."""
        records = await self._records.query(CONNECTION_KIND, {}, limit=MAX_CONNECTIONS)
        return sorted(readable(records, _read), key=lambda connection: connection.key)

    async def get(self, name: str) -> ServerConnection:
        """Raises: ConnectionNotFound, BadDocument."""
        record = await self._records.get(CONNECTION_KIND, name)
        if record is None:
            raise ConnectionNotFound(name=name)
        return _read(record)

    async def links(self, connection: ServerConnection) -> list[ConnectionLink]:
        """Returns the links from the connection's workflows to graphs, by the workflow's name."""
        links = await Links(self._records, connection).all()
        return sorted(links.values(), key=lambda link: (link.name, link.workflow_id))

    async def graphs(self, connection: ServerConnection, by: Person) -> list[LinkedGraph]:
        """Returns where each workflow and its graph stand, by the workflow's name.

        The server is not asked: what changed there since the last synchronisation is not told.
        """
        links = await self.links(connection)
        revisions = await self._revisions()
        return [await self._linked(connection, link, revisions, by) for link in links]

    async def of_graph(
        self, graph_key: str, by: Person
    ) -> list[tuple[ServerConnection, LinkedGraph]]:
        """Returns the workflows that a graph belongs to, each with its connection.

        Raises: GraphNotFound.
        """
        records = await self._records.query(LINK_KIND, {"graphKey": graph_key})
        links = readable(records, read_link)
        if not links:
            return []
        connections = {connection.key: connection for connection in await self.list()}
        graph = await self._approvals.source.get_graph(graph_key)
        revisions = {graph_key: graph.revision}
        return [
            (connection, await self._linked(connection, link, revisions, by))
            for link in links
            if (connection := connections.get(link.connection)) is not None
        ]

    async def compare(self, name: str, workflow_id: str, by: Person) -> ComparedWorkflow:
        """Reads a workflow from its server and compares both sides; nothing is stored.

        Raises: ConnectionForbidden, ConnectionNotFound, ConnectionRefused, WorkflowNotLinked,
        EditorFault, UnreadableWorkflow, WorkersBusy.
        """
        connection = await self.check_sync(name, by)
        link = (await Links(self._records, connection).all()).get(workflow_id)
        if link is None:
            raise WorkflowNotLinked(name=name, workflow=workflow_id)
        async with self._opened(connection) as editor:
            read = await editor.read(workflow_id)
        revisions = await self._revisions()
        if read is None:
            link = link.model_copy(update={"state": "gone"})
        listed = read.workflow if read is not None else None
        graph = await self._linked(connection, link, revisions, by, listed)
        raw = orjson.dumps(read.document) if read is not None else None
        if link.graph_key not in revisions:
            return ComparedWorkflow(graph=graph, differences=None)
        found = await differences(self._approvals, link.graph_key, raw)
        if found is not None:
            found = replace(found, here=without_marks(found.here), there=without_marks(found.there))
        return ComparedWorkflow(graph=graph, differences=found)

    async def _revisions(self) -> dict[str, int]:
        """Returns the present revisions of the workspace's graphs, by key."""
        return {graph.key: graph.revision for graph in await self._approvals.source.list_graphs()}

    async def _linked(
        self,
        connection: ServerConnection,
        link: ConnectionLink,
        revisions: Mapping[str, int],
        by: Person,
        listed: RemoteWorkflow | None = None,
    ) -> LinkedGraph:
        if link.state == "conflict" and not await is_waiting(link, self._approvals, by):
            link = await settled(link, self._approvals)
        standing = standing_of(
            link,
            revision=revisions.get(link.graph_key),
            listed=listed,
            is_unreachable=connection.unreachable_since_time is not None,
        )
        return LinkedGraph(link=link, standing=standing, page=page_of(connection, link))

    async def add(self, new: NewConnection, by: Person) -> ServerConnection:
        """Stores a connection once its server has answered with what the key allows.

        One of the same name to the same server gets the new key and the new choice of workflows;
        its links stay.

        Raises: ConnectionForbidden, ConnectionRefused, ConnectionExists, EditorFault.
        """
        _require_admin(by)
        check_new(new)
        stored = await self._records.get(CONNECTION_KIND, new.name)
        if stored is not None and _server_of(_read(stored)) != (
            new.kind,
            normal_address(new.address),
        ):
            raise ConnectionExists(name=new.name)
        if len(await self.list()) >= MAX_CONNECTIONS:
            raise ConnectionRefused("connections_full", limit=str(MAX_CONNECTIONS))
        connection = ServerConnection(
            key=new.name,
            workspace=by.workspace,
            kind=new.kind,
            address=normal_address(new.address),
            allow_private=new.allow_private,
            key_variable=new.key_variable,
            sealed_key=self._keys.seal(new.key) if new.key else None,
            certificate_file=new.certificate_file,
            workflows=new.workflows,
            interval_s=new.interval_s,
            push=new.push,
            user_id=by.user_id,
            role=by.role,
            created_time=self._clock(),
        )
        async with self._opened(connection) as editor:
            facts = await editor.discover()
        connection = connection.model_copy(
            update={
                "server_version": facts.version,
                "rights": facts.rights,
                "missing_rights": facts.missing_for(writes=new.push != "never"),
            }
        )
        record = Record(kind=CONNECTION_KIND, key=connection.key, data=connection.to_document())
        try:
            await self._records.put(record, expected_version=stored.version if stored else None)
        except RecordConflict:
            raise ConnectionExists(name=new.name) from None
        return connection

    async def sync(
        self, name: str, by: Person, progress: Callable[[int, int], None] = no_progress
    ) -> PullReport:
        """Reads what changed on the server since the last time. `progress` is called with the
        number of workflows done and the number of all.

        Raises: ConnectionForbidden, ConnectionNotFound, ConnectionBusy, ConnectionRefused,
        EditorFault.
        """
        connection = await self.check_sync(name, by)
        try:
            async with self._leases.held(name):
                workflows = await self._pulled(connection, by, progress)
        except ThreadBusy:
            raise ConnectionBusy(name=name) from None
        except EditorFault as fault:
            await self._note(name, fault)
            raise
        connection = await self._note(name)
        return PullReport(connection=connection, workflows=tuple(workflows))

    async def discover(self, name: str) -> Discovery:
        """Asks a connection's server for its version and what the key allows; stores nothing.

        Raises: ConnectionNotFound, ConnectionRefused, EditorFault.
        """
        async with self.reading(name) as editor:
            return await editor.discover()

    @asynccontextmanager
    async def reading(self, name: str) -> AsyncGenerator[Editor]:
        """Opens the server of a connection, to read from it while others may write.

        Raises: ConnectionNotFound, ConnectionRefused, EditorFault.
        """
        async with self._opened(await self._usable(name)) as editor:
            yield editor

    async def check_sync(self, name: str, by: Person) -> ServerConnection:
        """Returns a connection that the person may synchronise.

        Raises: ConnectionForbidden, ConnectionNotFound; EditorFault where the server refused the
        key before.
        """
        if not by.at_least("editor"):
            raise ConnectionForbidden()
        return await self._usable(name)

    @asynccontextmanager
    async def session(self, name: str, by: Person, wait_s: float) -> AsyncGenerator[ServerSession]:
        """Opens the server of a connection, once nobody else reads or writes it.

        Raises: ConnectionNotFound, ConnectionBusy after `wait_s` seconds, ConnectionRefused,
        EditorFault.
        """
        connection = await self._usable(name)
        async with AsyncExitStack() as stack:
            await self._hold(stack, name, wait_s)
            editor = await stack.enter_async_context(self._opened(connection))
            links = Links(self._records, connection)
            pull = self._pull(connection, editor, links, by, no_progress)
            yield ServerSession(connection=connection, editor=editor, links=links, pull=pull)

    async def _hold(self, stack: AsyncExitStack, name: str, wait_s: float) -> None:
        """Waits for the lease of a connection and holds it until the stack is closed."""
        until = asyncio.get_running_loop().time() + wait_s
        with self._leases.watched(name) as inbox:
            while True:
                try:
                    await stack.enter_async_context(self._leases.held(name))
                except ThreadBusy:
                    if asyncio.get_running_loop().time() >= until:
                        raise ConnectionBusy(name=name) from None
                    await inbox.wait(LOOK_S)
                else:
                    return

    async def notices(self, name: str) -> AsyncGenerator[ServerNotice]:
        """Yields what the server tells, as long as it does; at once nothing for a kind of server
        that gives no notices.

        Raises: ConnectionNotFound, ConnectionRefused, EditorFault.
        """
        try:
            async with self.reading(name) as editor:
                if isinstance(editor, GivesNotices):
                    async with aclosing(editor.notices()) as notices:
                        async for notice in notices:
                            yield notice
        except EditorFault as fault:
            if fault.is_about_key:
                await self._note(name, fault)
            raise

    async def remove(self, name: str, by: Person) -> None:
        """Deletes a connection with its links; its graphs stay.

        It waits for a synchronisation that runs, which would store links again. Raises:
        ConnectionForbidden, ConnectionNotFound, ConnectionBusy.
        """
        _require_admin(by)
        connection = await self.get(name)
        async with AsyncExitStack() as stack:
            await self._hold(stack, name, REMOVE_WAIT_S)
            await Links(self._records, connection).remove()
            record = await self._records.get(CONNECTION_KIND, name)
            if record is not None:
                await delete_record(self._records, record)

    async def _usable(self, name: str) -> ServerConnection:
        """Raises: ConnectionNotFound; EditorFault where the server refused the key before."""
        connection = await self.get(name)
        if connection.is_key_refused:
            raise EditorFault("editor_key_refused", address=connection.address)
        return connection

    async def _pulled(
        self, connection: ServerConnection, by: Person, progress: Callable[[int, int], None]
    ) -> list[PulledWorkflow]:
        async with self._opened(connection) as editor:
            links = Links(self._records, connection)
            return await self._pull(connection, editor, links, by, progress).run()

    def _pull(
        self,
        connection: ServerConnection,
        editor: Editor,
        links: Links,
        by: Person,
        progress: Callable[[int, int], None],
    ) -> Pull:
        return Pull(
            connection,
            editor,
            self._approvals,
            links,
            by,
            now=self._clock(),
            progress=progress,
        )

    @asynccontextmanager
    async def _opened(self, connection: ServerConnection) -> AsyncGenerator[Editor]:
        async with aclosing(self._opens(connection, self._keys.key_of(connection))) as editor:
            yield editor

    async def _note(self, name: str, fault: EditorFault | None = None) -> ServerConnection:
        """Stores when a connection was synchronised, or why it failed."""
        now = self._clock()

        def noted(record: Record | None) -> dict[str, object] | None:
            if record is None:  # removed meanwhile
                return None
            since = record.data.get("unreachableSinceTime") or now
            return {
                **record.data,
                **({} if fault else {"lastSyncedTime": now}),
                "lastError": str(fault) if fault else None,
                "lastFault": {"code": fault.code, "facts": dict(fault.facts)} if fault else None,
                "isKeyRefused": fault is not None and fault.is_about_key,
                "unreachableSinceTime": since if isinstance(fault, EditorUnreachable) else None,
            }

        stored = await change_record(self._records, CONNECTION_KIND, name, noted)
        if stored is None:
            raise ConnectionNotFound(name=name)
        return _read(stored)


def _require_admin(by: Person) -> None:
    if not by.at_least("admin"):
        raise ConnectionForbidden()


def _server_of(connection: ServerConnection) -> tuple[EditorKind, str]:
    return connection.kind, connection.address


def _read(record: Record) -> ServerConnection:
    """Raises: BadDocument."""
    data = dict(record.data)
    if not isinstance(data.get("kind"), str):
        raise BadDocument(
            collection=CONNECTION_KIND, key=record.key, field="kind", reason="it is missing"
        )
    return parse_document(ServerConnection, data, CONNECTION_KIND)
