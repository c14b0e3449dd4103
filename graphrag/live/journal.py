"""The journal of a live graph: keeps accepted changes until they are saved, so that a kill loses nothing.

A record holds what one write took in: documents as they became and, of those that had no unsaved change
before, also as they were stored. Applied to the store they give the live graph again, whatever was stored
meanwhile. Large messages to editors are not kept: an editor who missed one loads the graph again. A save
removes the records in its own transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import orjson

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument
from datasources.types import Document, Edge, Graph, Node, parse_document
from graphrag.changes.draft import Changes
from graphrag.live.members import Broadcast
from graphrag.live.merge_remote import PendingBase

D = TypeVar("D", bound=Document)
C = TypeVar("C", bound=Changes)
KIND = "journal"
MARK = 0
"""The number of a journal's first record, which holds no change: found, it says that there is a journal."""

_ALL = 1_000_000
_LARGE_BYTES = 50_000
_CLOSED = "it belongs to the journal, which was damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One accepted change. `base` are the documents that were unchanged before, as they are stored.

    Units: `timestamp` in milliseconds since 1970, that of its last message; `history_bytes` as JSON.
    """

    user_id: str
    timestamp: int
    broadcasts: tuple[Broadcast, ...]
    changes: Changes
    base: PendingBase
    history: tuple[dict[str, Any], ...] = ()
    history_bytes: int = 0
    text: bytes = b""
    """The change as JSON: encoded once, in the thread that tried it."""

    @property
    def is_complete(self) -> bool:
        """Whether its messages are all here."""
        return all(broadcast.text for broadcast in self.broadcasts)

    def encoded(self) -> JournalEntry:
        """Return it with its text."""
        history = orjson.dumps(self.history)
        sent = [
            {
                "timestamp": one.timestamp,
                "message": orjson.Fragment(one.text) if len(one.text) <= _LARGE_BYTES else None,
                "sheets": None if one.sheets is None else sorted(one.sheets),
            }
            for one in self.broadcasts
        ]
        document = {"userId": self.user_id, "broadcasts": sent, "changes": _parts(self.changes)}
        document |= {"base": _parts(self.base), "history": orjson.Fragment(history)}
        return replace(self, text=orjson.dumps(document), history_bytes=len(history))


class Journal:
    """Appends to and reads the journal of one graph; used by the holder of the graph's lease alone."""

    def __init__(self, records: RecordStore, graph_key: str) -> None:
        self._records, self._graph_key = records, graph_key
        self._sequence = 0
        self._written: dict[str, str] = {}
        self._doubtful: set[str] = set()

    def _key(self, sequence: int) -> str:
        return f"{self._graph_key}/{sequence:012}"

    @property
    def is_empty(self) -> bool:
        return self._written.keys() <= {self._key(MARK)}

    async def append(self, changes: Sequence[JournalEntry]) -> None:
        """Store changes, all or none. Raises: SourceError; then none of them counts."""
        await self._remove_doubtful()
        if not self._written:
            await self._put(MARK, [])
        self._sequence += 1
        await self._put(self._sequence, [orjson.Fragment(change.text) for change in changes])

    async def _put(self, sequence: int, changes: list[orjson.Fragment]) -> None:
        key = self._key(sequence)
        data = {"graphKey": self._graph_key, "sequence": sequence, "changes": changes}
        self._doubtful.add(key)
        stored = await self._records.put(Record(kind=KIND, key=key, data=data), expected_version=None)
        self._doubtful.discard(key)
        self._written[key] = str(stored.version)

    async def _remove_doubtful(self) -> None:
        """Remove what a failed append may have written all the same: its editor was refused."""
        for key in sorted(self._doubtful):
            found = await self._records.get(KIND, key)
            if found is not None:
                await self._records.delete(KIND, key, expected_version=str(found.version))
            self._doubtful.discard(key)

    async def retract(self) -> None:
        """Remove the latest record: its editors were not answered yet. Raises: SourceError."""
        key = next(reversed(self._written))
        del self._written[key]
        self._doubtful.add(key)
        await self._remove_doubtful()

    async def read(self) -> list[JournalEntry]:
        """Return what is written, oldest first. Raises: SourceError, BadDocument."""
        where = {"graphKey": self._graph_key}
        records = await self._records.query(KIND, where, order_by="sequence", limit=_ALL)
        self._written = {record.key: str(record.version) for record in records}
        found: list[JournalEntry] = []
        for record in records:
            try:
                self._sequence = max(self._sequence, int(record.data["sequence"]))
                found += [_entry(raw) for raw in record.data["changes"]]
            except (KeyError, TypeError, ValueError, AttributeError) as exc:
                raise BadDocument(collection=KIND, key=record.key, field="changes", reason=_CLOSED) from exc
        return found

    def clearing(self) -> list[RecordWrite]:
        """Return the writes that empty the journal; they join the transaction of a save."""
        return [
            RecordWrite(kind=KIND, key=key, data=None, expected_version=version)
            for key, version in self._written.items()
        ]

    def cleared(self) -> None:
        """Note that the writes of `clearing` took place."""
        self._written.clear()

    async def discard(self) -> None:
        """Empty the journal of a graph that is gone. Raises: SourceError."""
        await self._records.write(self.clearing())
        self.cleared()


async def journalled_history(records: RecordStore, graph_key: str) -> list[Mapping[str, Any]]:
    """Return what was done to a graph since its last save, on whichever server, oldest first.

    What of a journal cannot be read is left out. Raises: SourceError.
    """
    found = await records.query(KIND, {"graphKey": graph_key}, order_by="sequence", limit=_ALL)
    entries: list[Mapping[str, Any]] = []
    for record in found:
        for change in record.data.get("changes") or ():
            entries += change.get("history") or ()
    return entries


async def journalled_graphs(records: RecordStore) -> list[str]:
    """Return the keys of the graphs that have a journal; of each one small record is read."""
    marks = await records.query(KIND, {"sequence": MARK}, limit=_ALL)
    return sorted({str(record.data.get("graphKey")) for record in marks})


def _parts(part: Changes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, documents in (("nodes", part.nodes), ("edges", part.edges)):
        if documents:
            found[name] = {
                key: None if document is None else orjson.Fragment(document.to_json())
                for key, document in documents.items()
            }
    if part.graph is not None:
        found["graph"] = part.graph.to_document()
    return found


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
        return {k: None if one is None else parse_document(kind, one, KIND) for k, one in documents.items()}

    graph = raw.get("graph")
    return model(
        nodes=read(Node, raw.get("nodes", {})),
        edges=read(Edge, raw.get("edges", {})),
        graph=None if graph is None else parse_document(Graph, graph, KIND),
    )
