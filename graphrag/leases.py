"""Leases: while a process renews its lease on a key, no other process can acquire it.

A lease is a record with its owner and the time at which it expires. Another process may take it
over after that time, or immediately if the owner was a process of the same machine that has ended.

A process id is only unique within its namespace: two containers may have the same host name, and
each has a process 1. So the name of an owner begins with the host name, the boot id of the kernel
and the namespace of its process ids.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict, SourceError

log = logging.getLogger(__name__)

KIND = "lease"
HELD_MS = 15_000  # Duration of a lease after each renewal.
_TRIES = 5  # Number of attempts to write while other writes change the record.

_owners_of_this_process: set[str] = set()


def now_ms() -> int:
    """Returns the current time. Units: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Lease:
    """A lease on one key. At most one lease on a key is held, also among those of one process.

    `facts` are stored with the owner. `refused` creates the error that is raised if the key is
    leased by another owner. Units: `held_ms`, the duration after each renewal, in milliseconds.
    """

    def __init__(
        self,
        records: RecordStore,
        key: str,
        owner: str,
        *,
        refused: Callable[[], Exception],
        facts: Mapping[str, str],
        clock: Callable[[], int] = now_ms,
        held_ms: int = HELD_MS,
    ) -> None:
        self._records = records
        self._key = key
        self._owner = owner
        self.refused = refused
        self._clock = clock
        self._held_ms = held_ms
        self._data: dict[str, Any] = {"owner": owner, "hold": secrets.token_hex(6), **facts}
        self._version: str | None = None
        self._until = 0

    @property
    def holder(self) -> str:
        """The unique id of this lease."""
        return str(self._data["hold"])

    @property
    def has_lapsed(self) -> bool:
        """Whether the lease is lost, or has expired by the clock of this process."""
        return self._clock() >= self._until

    @property
    def is_due(self) -> bool:
        """Whether the lease should be renewed."""
        return self._clock() >= self._until - self._held_ms * 2 // 3

    @property
    def data(self) -> Mapping[str, Any]:
        """The data of the record when it was last read or written, with fields that other processes
        added.
        """
        return self._data

    async def hold(self) -> None:
        """Acquires or renews the lease, for its whole duration from now on.

        Raises: the error of `refused`, RecordConflict, SourceError.
        """
        for attempt in range(1, _TRIES + 1):
            until = self._clock() + self._held_ms
            renewal = replace(
                self.fence(),
                data={**self._data, "expiresTime": until},
                is_quiet="expiresTime" in self._data,  # only a new owner is news
            )
            try:
                [stored] = await self._records.write([renewal])
            except RecordConflict:
                # Another owner has it, a fenced write was first, or the answer to an earlier
                # write of this lease was lost.
                current = await self._records.get(KIND, self._key)
                if not self._is_own(current) and not self._may_take(current):
                    raise self.refused() from None
                self._version = current.version if current else None
                if attempt == _TRIES:
                    raise
            else:
                self._is_own(stored)
                self._until = until
                return

    def _may_take(self, stored: Record | None) -> bool:
        if "expiresTime" in self._data:  # it was held before, so it is lost
            return False
        if stored is None:
            return True
        # A stored lease of the same owner could not be released earlier; it is no longer in use.
        return stored.data.get("owner") == self._owner or is_free(
            stored.data, self._owner, self._clock()
        )

    async def read(self) -> None:
        """Reads the record again: its version, and fields that other processes added.

        Raises: the error of `refused`, SourceError.
        """
        if not self._is_own(await self._records.get(KIND, self._key)):
            raise self.refused()

    def _is_own(self, stored: Record | None) -> bool:
        """Returns whether the record belongs to this lease, and stores its data and version."""
        if stored is None or stored.data.get("hold") != self._data["hold"]:
            self._version, self._until = None, 0
            return False
        self._data = dict(stored.data)
        self._version = stored.version
        return True

    def fence(self) -> RecordWrite:
        """Returns a write that fails its transaction unless the lease is held, whatever the clocks.

        It changes the version of the record, so call `read` before the next one.
        """
        return RecordWrite(
            kind=KIND,
            key=self._key,
            data=self._data,
            expected_version=self._version,
            is_quiet=True,
        )

    async def write(self, *writes: RecordWrite) -> list[Record | None]:
        """Performs writes in one transaction if the lease is held. Returns the stored records.

        Raises: the error of `refused`, RecordConflict, SourceError.
        """
        tries_left = _TRIES
        while self._version is not None:
            try:
                lease_record, *stored = await self._records.write([self.fence(), *writes])
            except RecordConflict as exc:
                tries_left -= 1
                if exc.kind != KIND or not tries_left:
                    raise
                await self.read()  # renewed, released or taken over concurrently
            else:
                self._is_own(lease_record)
                return stored
        raise self.refused()

    async def give_back(self) -> None:
        """Releases the lease if it is held. If the store does not answer, the lease expires."""
        try:
            for _ in range(_TRIES):
                if self._version is None:
                    return
                try:
                    await self._records.write([replace(self.fence(), data=None, is_quiet=False)])
                except RecordConflict:
                    self._is_own(await self._records.get(KIND, self._key))
                else:
                    self._version, self._until = None, 0
        except SourceError as exc:
            log.warning("lease_kept", extra={"key": self._key, "error": type(exc).__name__})


def is_free(data: Mapping[str, Any], mine: str, now: int) -> bool:
    """Returns whether the owner `mine` may take over a stored lease."""
    until = data.get("expiresTime")
    if not isinstance(until, int) or until <= now:
        return True
    return is_local_process_dead(str(data.get("owner")), mine)


def new_owner() -> str:
    """Returns a new owner name: the namespace and id of this process, and a random part."""
    owner = f"{_namespace()}/{os.getpid()}/{secrets.token_hex(6)}"
    _owners_of_this_process.add(owner)
    return owner


@cache
def _namespace() -> str:
    """Returns a name that is equal for all processes whose ids are visible to this one."""
    boot = namespace = ""
    with suppress(OSError):  # these files exist on Linux only
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").stat().st_ino)
    return ":".join(part for part in (socket.gethostname(), boot, namespace) if part)


def is_local_process_dead(owner: str, mine: str) -> bool:
    """Returns whether the owner was a process of this machine that has ended; False if unknown."""
    host, _, rest = owner.partition("/")
    number = rest.partition("/")[0]
    if (
        host != mine.partition("/")[0]
        or not (number.isascii() and number.isdigit())
        or len(number) > 9
    ):
        return False
    if int(number) == os.getpid():  # process ids are reused, in a container after each start
        return owner not in _owners_of_this_process
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
