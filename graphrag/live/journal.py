"""The journal of a live graph: stores accepted changes until they are saved, so that a crash loses
none.

A record holds the changes of one write: the new versions of documents and, for those without an
earlier unsaved change, the stored versions too. Applied to the store they give the live graph
again, whatever was stored meanwhile. Large messages to editors are not stored: an editor who missed
one loads the graph again. A save removes the records in its own transaction.

Decision: every write of a journal is one transaction with the fence of the graph's lease, and each
record names its holder. So no server changes a journal after another has taken the graph over,
whatever its clock says and however long it was paused, and the new holder has read every change
that was acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import orjson

from datasources.base import GraphDataSource, RecordStore, RecordWrite
from datasources.errors import BadDocument, GraphNotFound
from datasources.types import Document, Edge, Graph, Node, parse_document
from graphrag.changes.draft import Changes
from graphrag.leases import Lease
from graphrag.live.members import Broadcast
from graphrag.live.merge_remote import PendingBase
from graphrag.stored_records import delete_record

D = TypeVar("D", bound=Document)
C = TypeVar("C", bound=Changes)
KIND = "journal"
# The number of the first record of a journal. It holds no change and shows that the journal exists.
MARK = 0

# Limit of queries that read all records of a graph.
_ALL = 1_000_000
# Messages larger than this are not stored.
_LARGE_BYTES = 50_000
_CLOSED = "it belongs to the journal, which was damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One accepted change. `base` are the stored versions of documents that had no unsaved change
    before.

    Units: `timestamp` in milliseconds since 1970, that of its last message; `history_bytes` as
    JSON.
    """

    user_id: str
    timestamp: int
    broadcasts: tuple[Broadcast, ...]
    changes: Changes
    base: PendingBase
    history: tuple[dict[str, Any], ...] = ()
    history_bytes: int = 0
    # The change as JSON, encoded once, in the thread that tried it.
    text: bytes = b""

    @property
    def is_complete(self) -> bool:
        """Whether all its messages are stored."""
        return all(broadcast.text for broadcast in self.broadcasts)

    def encoded(self) -> JournalEntry:
        """Returns the entry with its `text`."""
        history = orjson.dumps(self.history)
        broadcasts = [
            {
                "timestamp": sent.timestamp,
                "message": orjson.Fragment(sent.text) if len(sent.text) <= _LARGE_BYTES else None,
                "sheets": None if sent.sheets is None else sorted(sent.sheets),
            }
            for sent in self.broadcasts
        ]
        document = {
            "userId": self.user_id,
            "broadcasts": broadcasts,
            "changes": _parts(self.changes),
        }
        document |= {"base": _parts(self.base), "history": orjson.Fragment(history)}
        return replace(self, text=orjson.dumps(document), history_bytes=len(history))


class Journal:
    """Appends to the journal of one graph and reads it, for the holder of the graph's lease."""

    def __init__(self, records: RecordStore, graph_key: str, lease: Lease) -> None:
        self._records = records
        self._graph_key = graph_key
        self._lease = lease
        self._sequence = 0
        self._written: dict[str, str] = {}
        # Keys of records that may or may not be stored: their write, or a save, had no answer.
        self._doubtful: set[str] = set()

    def _key(self, sequence: int) -> str:
        return f"{self._graph_key}/{sequence:012}"

    @property
    def is_empty(self) -> bool:
        return self._written.keys() <= {self._key(MARK)}

    async def append(self, changes: Sequence[JournalEntry]) -> None:
        """Stores changes, all or none, while the lease is held.

        Raises: SourceError, the error of a lost lease; then none of them is stored.
        """
        removals = await self._resolve_doubtful()
        self._sequence += 1
        content = [orjson.Fragment(change.text) for change in changes]
        puts = [self._put(self._sequence, content)]
        if self._key(MARK) not in self._written:
            puts.insert(0, self._put(MARK, []))
        self._doubtful.update(write.key for write in puts)
        for stored in filter(None, await self._lease.write(*removals, *puts)):
            self._written[stored.key] = str(stored.version)
        self._doubtful.clear()

    def _put(self, sequence: int, changes: list[orjson.Fragment]) -> RecordWrite:
        data = {"graphKey": self._graph_key, "sequence": sequence, "holder": self._lease.holder}
        key = self._key(sequence)
        return RecordWrite(
            kind=KIND, key=key, data={**data, "changes": changes}, expected_version=None
        )

    async def _resolve_doubtful(self) -> list[RecordWrite]:
        """Reads the doubtful records; returns the writes that remove the changes of failed appends.

        The editors of these changes got an error. Records of another holder are never removed: when
        the graph is opened again they are recovered. Raises: SourceError, the error of a lost
        lease.
        """
        removals: list[RecordWrite] = []
        for key in sorted(self._doubtful):
            record = await self._records.get(KIND, key)
            known_version = self._written.pop(key, None)
            if record is None:
                continue
            version = str(record.version)
            if record.data.get("holder") != self._lease.holder and version != known_version:
                raise self._lease.refused()
            if key == self._key(MARK):
                self._written[key] = version
            else:
                removals.append(
                    RecordWrite(kind=KIND, key=key, data=None, expected_version=version)
                )
        return removals

    async def read(self) -> list[JournalEntry]:
        """Returns the stored changes, oldest first. Raises: SourceError, BadDocument."""
        where = {"graphKey": self._graph_key}
        records = await self._records.query(KIND, where, order_by="sequence", limit=_ALL)
        self._written = {record.key: str(record.version) for record in records}
        journal_entries: list[JournalEntry] = []
        for record in records:
            try:
                self._sequence = max(self._sequence, int(record.data["sequence"]))
                journal_entries += [_entry(raw) for raw in record.data["changes"]]
            except (KeyError, TypeError, ValueError, AttributeError) as exc:
                raise BadDocument(
                    collection=KIND, key=record.key, field="changes", reason=_CLOSED
                ) from exc
        return journal_entries

    async def clearing(self) -> list[RecordWrite]:
        """Returns the writes that empty the journal, for the transaction of a save with the lease's
        fence.

        Raises: SourceError, the error of a lost lease.
        """
        writes = await self._resolve_doubtful()
        for key, version in self._written.items():
            writes.append(RecordWrite(kind=KIND, key=key, data=None, expected_version=version))
        self._doubtful.add(self._key(MARK))  # until it is known whether the save took place
        return writes

    def cleared(self) -> None:
        """Records that the writes of `clearing` were stored."""
        self._written.clear()
        self._doubtful.clear()

    async def discard(self) -> None:
        """Removes the records that were read, while the lease is held.

        Raises: SourceError, the error of a lost lease.
        """
        if self._written:
            await self._lease.write(*await self.clearing())
            self.cleared()


async def remove_journal_of_gone(
    records: RecordStore, source: GraphDataSource, graph_key: str
) -> None:
    """Removes the journal of a graph that does not exist; that of a graph created again meanwhile
    stays.

    The records are read before the graph is seen to be missing, so no edit can come between.
    Raises: SourceError.
    """
    journal_records = await records.query(KIND, {"graphKey": graph_key}, limit=_ALL)
    with suppress(GraphNotFound):
        await source.get_graph(graph_key)
        return
    for record in journal_records:
        await delete_record(records, record)


async def journalled_history(records: RecordStore, graph_key: str) -> list[Mapping[str, Any]]:
    """Returns the history entries of a graph since its last save on any server, oldest first.

    Omits unreadable parts of the journal. Raises: SourceError.
    """
    journal_records = await records.query(
        KIND, {"graphKey": graph_key}, order_by="sequence", limit=_ALL
    )
    entries: list[Mapping[str, Any]] = []
    for record in journal_records:
        for change in record.data.get("changes") or ():
            entries += change.get("history") or ()
    return entries


async def journalled_graphs(records: RecordStore) -> list[str]:
    """Returns the keys of the graphs that have a journal. Reads one small record for each."""
    marks = await records.query(KIND, {"sequence": MARK}, limit=_ALL)
    return sorted({str(record.data.get("graphKey")) for record in marks})


def _parts(part: Changes) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for name, documents in (("nodes", part.nodes), ("edges", part.edges)):
        if documents:
            encoded[name] = {
                key: None if document is None else orjson.Fragment(document.to_json())
                for key, document in documents.items()
            }
    if part.graph is not None:
        encoded["graph"] = part.graph.to_document()
    return encoded


def _entry(raw: Mapping[str, Any]) -> JournalEntry:
    broadcasts = tuple(
        Broadcast(
            timestamp=int(sent["timestamp"]),
            text=b"" if sent["message"] is None else orjson.dumps(sent["message"]),
            sheets=None if sent["sheets"] is None else frozenset(sent["sheets"]),
        )
        for sent in raw["broadcasts"]
    )
    return JournalEntry(
        user_id=str(raw["userId"]),
        timestamp=max(broadcast.timestamp for broadcast in broadcasts),
        broadcasts=broadcasts,
        changes=_read_parts(Changes, raw["changes"]),
        base=_read_parts(PendingBase, raw["base"]),
        history=tuple(raw["history"]),
        history_bytes=len(orjson.dumps(raw["history"])),
    )


def _read_parts(model: type[C], raw: Mapping[str, Any]) -> C:
    def read(kind: type[D], documents: Mapping[str, Any]) -> dict[str, D | None]:
        return {
            key: None if raw_document is None else parse_document(kind, raw_document, KIND)
            for key, raw_document in documents.items()
        }

    graph = raw.get("graph")
    return model(
        nodes=read(Node, raw.get("nodes", {})),
        edges=read(Edge, raw.get("edges", {})),
        graph=None if graph is None else parse_document(Graph, graph, KIND),
    )
