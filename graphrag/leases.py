"""Leases: while a process renews its lease on a key, no other process takes that key.

A lease is a record that names its owner and when it ends. Another process takes it over once it has
lapsed, or at once when the owner was a process of this machine that has ended.

A process number means something only where it was given: two containers may share a host name, and
each has a process 1. So the name of an owner begins with the host, the start of its kernel and the
namespace of its process numbers.
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
HELD_MS = 15_000
_TRIES = 5

_owners_of_this_process: set[str] = set()


def now_ms() -> int:
    """Return the time. Units: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Lease:
    """One process's lease on one key; two leases of one process on a key are two, too.

    `facts` are stored beside the owner. `refused` makes the error that is raised where the lease is
    another's. Units: `held_ms` in milliseconds.
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
        """What tells this lease from every other, of this process and key too."""
        return str(self._data["hold"])

    @property
    def has_lapsed(self) -> bool:
        """Whether another process may have it, by this process's clock, or does have it."""
        return self._clock() >= self._until

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew."""
        return self._clock() >= self._until - self._held_ms * 2 // 3

    @property
    def data(self) -> Mapping[str, Any]:
        """The record as it was last read or written; another process may have added fields."""
        return self._data

    async def hold(self) -> None:
        """Take the lease, or hold it for longer: for its whole time from now on.

        Raises: what `refused` makes, RecordConflict, SourceError.
        """
        for attempt in range(1, _TRIES + 1):
            until = self._clock() + self._held_ms
            held = replace(self.fence(), data={**self._data, "expiresTime": until})
            try:
                [stored] = await self._records.write([held])
            except (
                RecordConflict
            ):  # another's, or a guarded write was faster, or our own had no answer
                found = await self._records.get(KIND, self._key)
                if not self._is_own(found) and not self._may_take(found):
                    raise self.refused() from None
                self._version = found.version if found else None
                if attempt == _TRIES:
                    raise
            else:
                self._is_own(stored)
                self._until = until
                return

    def _may_take(self, found: Record | None) -> bool:
        if "expiresTime" in self._data:  # it was held, and is lost
            return False
        if found is None:
            return True
        # One of this owner that is still there could not be given back: nothing works under it.
        return found.data.get("owner") == self._owner or is_free(
            found.data, self._owner, self._clock()
        )

    async def read(self) -> None:
        """Read the record again: its version, and what others noted on it.

        Raises: what `refused` makes, SourceError.
        """
        if not self._is_own(await self._records.get(KIND, self._key)):
            raise self.refused()

    def _is_own(self, found: Record | None) -> bool:
        """Take in the record as it was read; say whether it is still this lease's."""
        if found is None or found.data.get("hold") != self._data["hold"]:
            self._version, self._until = None, 0
            return False
        self._data = dict(found.data)
        self._version = found.version
        return True

    def fence(self) -> RecordWrite:
        """Return a write that lets its transaction through only while the lease is held,
        by any clock.

        The record has another version after it: `read` before the next one.
        """
        return RecordWrite(
            kind=KIND, key=self._key, data=self._data, expected_version=self._version
        )

    async def write(self, *writes: RecordWrite) -> list[Record | None]:
        """Carry out writes if the lease is still held, all in one transaction; return
        what they stored.

        Raises: what `refused` makes, RecordConflict, SourceError.
        """
        left = _TRIES
        while self._version is not None:
            try:
                own, *stored = await self._records.write([self.fence(), *writes])
            except RecordConflict as exc:
                left -= 1
                if exc.kind != KIND or not left:
                    raise
                await self.read()  # renewed, given back or taken over meanwhile
            else:
                self._is_own(own)
                return stored
        raise self.refused()

    async def give_back(self) -> None:
        """End the lease, if it is still held; where the store does not answer it ends by itself."""
        try:
            for _ in range(_TRIES):
                if self._version is None:
                    return
                try:
                    await self._records.write([replace(self.fence(), data=None)])
                except RecordConflict:
                    self._is_own(await self._records.get(KIND, self._key))
                else:
                    self._version, self._until = None, 0
        except SourceError as exc:
            log.warning("lease_kept", extra={"key": self._key, "error": type(exc).__name__})


def is_free(data: Mapping[str, Any], mine: str, now: int) -> bool:
    """Say whether a stored lease may be taken over by the owner `mine`."""
    until = data.get("expiresTime")
    if not isinstance(until, int) or until <= now:
        return True
    return is_local_process_dead(str(data.get("owner")), mine)


def new_owner() -> str:
    """Return a name for this process: its namespace of process numbers, its
    number, random characters.
    """
    owner = f"{_namespace()}/{os.getpid()}/{secrets.token_hex(6)}"
    _owners_of_this_process.add(owner)
    return owner


@cache
def _namespace() -> str:
    """Return what is the same for the processes whose numbers this one can look up."""
    boot = namespace = ""
    with suppress(OSError):  # only Linux has them
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").stat().st_ino)
    return ":".join(part for part in (socket.gethostname(), boot, namespace) if part)


def is_local_process_dead(owner: str, mine: str) -> bool:
    """Say whether the owner was a process of this machine that has ended; False where
    that is unknown.
    """
    host, _, rest = owner.partition("/")
    number = rest.partition("/")[0]
    if (
        host != mine.partition("/")[0]
        or not (number.isascii() and number.isdigit())
        or len(number) > 9
    ):
        return False
    if int(number) == os.getpid():  # numbers are given again: in a container always the same
        return owner not in _owners_of_this_process
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
