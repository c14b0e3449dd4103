"""The hold of one process on a live graph: while it is renewed nobody else edits the graph live.

A process that died on this machine is not waited for; one on another machine is, until its hold ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict
from graphrag.live.errors import LiveElsewhere
from graphrag.process_identity import is_local_process_dead
from graphrag.process_identity import new_owner as new_owner

KIND = "lease"
HELD_MS = 15_000


class Lease:
    """Takes, renews and gives back the hold on one graph."""

    def __init__(
        self,
        records: RecordStore,
        graph_key: str,
        owner: str,
        clock: Callable[[], int],
        *,
        held_ms: int = HELD_MS,
    ) -> None:
        self._records, self._graph_key, self._owner = records, graph_key, owner
        self._clock, self._held_ms = clock, held_ms
        self._key = f"live/{graph_key}"
        self._version: str | None = None
        self._until = 0

    @property
    def has_lapsed(self) -> bool:
        return self._clock() >= self._until

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew."""
        return self._clock() >= self._until - self._held_ms * 2 // 3

    async def take(self) -> None:
        """Hold the graph. Raises: LiveElsewhere, SourceError."""
        found = await self._records.get(KIND, self._key)
        if found is not None and not self._is_free(found.data):
            raise LiveElsewhere(graph_key=self._graph_key, until=_until(found.data))
        self._version = found.version if found else None
        await self.renew()

    async def renew(self) -> None:
        """Hold it for longer. Raises: LiveElsewhere when another took it, SourceError."""
        until = self._clock() + self._held_ms
        record = Record(kind=KIND, key=self._key, data=self._data(until))
        while True:
            try:
                stored = await self._records.put(record, expected_version=self._version)
            except RecordConflict:
                await self.read_version()  # a save wrote it, or our own write had no answer
            else:
                self._version, self._until = stored.version, until
                return

    async def read_version(self) -> None:
        """Read the version that the next write expects: a save writes one that it does not return.

        Raises: LiveElsewhere when another took the graph, SourceError.
        """
        found = await self._records.get(KIND, self._key)
        if found is None or found.data.get("owner") != self._owner:
            until = _until(found.data) if found else self._clock()
            raise LiveElsewhere(graph_key=self._graph_key, until=until)
        self._version = found.version

    def fence(self) -> RecordWrite:
        """Return a write that lets a transaction through only while the hold is ours, by any clock."""
        return RecordWrite(
            kind=KIND, key=self._key, data=self._data(self._until), expected_version=self._version
        )

    def _data(self, until: int) -> dict[str, Any]:
        return {"owner": self._owner, "expiresTime": until, "graphKey": self._graph_key}

    async def give_back(self) -> None:
        """End the hold, if it is still ours. Raises: SourceError."""
        version, self._version, self._until = self._version, None, 0
        if version is None:
            return
        try:
            await self._records.delete(KIND, self._key, expected_version=version)
        except RecordConflict:
            found = await self._records.get(KIND, self._key)
            if found is None or found.data.get("owner") != self._owner:
                return  # another one has it
            with suppress(RecordConflict):  # a save has written it since
                await self._records.delete(KIND, self._key, expected_version=str(found.version))

    def _is_free(self, data: Mapping[str, Any]) -> bool:
        return _until(data) <= self._clock() or is_local_process_dead(str(data.get("owner")), self._owner)


def _until(data: Mapping[str, Any]) -> int:
    until = data.get("expiresTime")
    return until if isinstance(until, int) else 0
