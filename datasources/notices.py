"""Notices of changes: a database that tells what was written wakes those who wait for it.

Whoever waits subscribes, reads the store, and calls `NoticeInbox.wait` before each further read.
Without notices, that is a pause: everything that waits also reads at intervals. So a notice only
makes a read earlier, and one that is lost only delays it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, final

import orjson

from datasources.record_kinds import GRAPH, TOLD_KINDS

if TYPE_CHECKING:
    from datasources.base import RecordWrite

# Time between two reads by one subscriber, however many notices arrive.
LEAST_S: Final = 0.01
# Notices that an inbox keeps; with more, everything is read.
MAX_KEPT: Final = 1_000
# Limit of PostgreSQL's NOTIFY, which a payload must stay below.
MAX_BYTES: Final = 8_000
# Records of one kind that a transaction tells by key; with more, it tells the kind alone.
MAX_KEYS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreNotice:
    """Says that a record was written or deleted, or a graph if `kind` is GRAPH.

    Without `key`, any of this kind may be concerned.
    """

    workspace: str
    kind: str
    key: str | None


class Listener(Protocol):
    """Receives the notices of a database, in its event loop."""

    def notice_told(self, notice: StoreNotice) -> None: ...

    def notices_connected(self, is_connected: bool) -> None:
        """Called when notices begin or cease to arrive. What was written meanwhile is not told."""
        ...


class NoticeSource(Protocol):
    """A database that tells changes."""

    async def listen(self, listener: Listener) -> None:
        """Passes on the notices until it is cancelled; reconnects by itself."""
        ...


@final
class NoticeInbox:
    """The notices for one subscriber. At most one read per `least_s` seconds is asked for."""

    def __init__(self, least_s: float = LEAST_S) -> None:
        self._least_s = least_s
        self._notices: dict[StoreNotice, None] = {}
        self._has_missed = False
        self._arrived = asyncio.Event()
        self._returned_time = self._whole_time = asyncio.get_running_loop().time()

    def put(self, notice: StoreNotice) -> None:
        self._notices[notice] = None
        if len(self._notices) > MAX_KEPT:
            self.wake()
        self._arrived.set()

    def wake(self) -> None:
        """Ends the wait under way, or the next one: anything may have changed."""
        self._notices.clear()
        self._has_missed = True
        self._arrived.set()

    async def wait(self, timeout_s: float) -> Collection[StoreNotice] | None:
        """Returns the notices since the last call, once there is one.

        None: everything is to be read. That is so after `timeout_s` seconds, where notices were
        missed, and as often as `timeout_s` while others keep arriving.
        """
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
                await asyncio.sleep(self._returned_time + self._least_s - loop.time())
        now = self._returned_time = loop.time()
        is_whole = self._has_missed or not self._notices or now >= self._whole_time + timeout_s
        notices = None if is_whole else tuple(self._notices)
        if is_whole:
            self._whole_time = now
        self._notices.clear()
        self._has_missed = False
        self._arrived.clear()
        return notices


_Topic = tuple[str | None, str, str | None]


@final
class NoticeRouter:
    """Passes the notices of one database on to subscribers. Without a source there are none."""

    def __init__(self, source: NoticeSource | None = None) -> None:
        self._source = source
        self._inboxes: dict[_Topic, set[NoticeInbox]] = {}

    @property
    def has_source(self) -> bool:
        return self._source is not None

    def of(self, workspace: str) -> WorkspaceNotices:
        return WorkspaceNotices(self, workspace)

    async def listen(self, observer: Listener) -> None:
        """Passes the notices on until it is cancelled, to the observer as well.

        Returns at once without a source.
        """
        if self._source is not None:
            await self._source.listen(_Observed(self, observer))

    @contextmanager
    def subscribed(
        self,
        *kinds: str,
        workspace: str | None = None,
        key: str | None = None,
        least_s: float = LEAST_S,
    ) -> Generator[NoticeInbox]:
        """Yields an inbox of notices about these kinds, in all workspaces and of all keys unless
        they are given.
        """
        inbox = NoticeInbox(least_s)
        topics: list[_Topic] = [(workspace, kind, key) for kind in kinds if self.has_source]
        for topic in topics:
            self._inboxes.setdefault(topic, set()).add(inbox)
        try:
            yield inbox
        finally:
            for topic in topics:
                self._inboxes[topic].discard(inbox)
                if not self._inboxes[topic]:
                    del self._inboxes[topic]

    def notice_told(self, notice: StoreNotice) -> None:
        workspace, kind, key = notice.workspace, notice.kind, notice.key
        topics: Collection[_Topic] = {
            (workspace, kind, key),
            (workspace, kind, None),
            (None, kind, None),
        }
        if key is None:
            topics = [
                one for one in self._inboxes if one[0] in (workspace, None) and one[1] == kind
            ]
        for topic in topics:
            for inbox in self._inboxes.get(topic, ()):
                inbox.put(notice)

    def wake_all(self) -> None:
        """Ends all waits: notices may have been missed."""
        for inboxes in self._inboxes.values():
            for inbox in inboxes:
                inbox.wake()


@final
class WorkspaceNotices:
    """The notices of one workspace."""

    def __init__(self, router: NoticeRouter, workspace: str) -> None:
        self._router = router
        self._workspace = workspace

    @contextmanager
    def subscribed(
        self, *kinds: str, key: str | None = None, least_s: float = LEAST_S
    ) -> Generator[NoticeInbox]:
        """Yields an inbox of notices about these kinds, of all keys unless one is given."""
        with self._router.subscribed(
            *kinds, workspace=self._workspace, key=key, least_s=least_s
        ) as inbox:
            yield inbox


@final
class _Observed:
    """Passes notices on to a router, and to an observer that counts them."""

    def __init__(self, router: NoticeRouter, observer: Listener) -> None:
        self._router = router
        self._observer = observer

    def notice_told(self, notice: StoreNotice) -> None:
        self._router.notice_told(notice)
        self._observer.notice_told(notice)

    def notices_connected(self, is_connected: bool) -> None:
        self._router.wake_all()
        self._observer.notices_connected(is_connected)


# Of databases that tell nothing.
SILENT: Final = NoticeRouter()


def notice_payloads(
    workspace: str, writes: Sequence[RecordWrite], graph_key: str | None = None
) -> list[str]:
    """Returns the payloads that tell a transaction's record writes and the graph that it changed.

    Records whose kind nothing waits for, and quiet writes, are left out.
    """
    keys: dict[str, dict[str, None]] = {}
    for write in writes:
        if write.kind in TOLD_KINDS and not write.is_quiet:
            keys.setdefault(write.kind, {})[write.key] = None
    if graph_key is not None:
        keys[GRAPH] = {graph_key: None}
    return [
        _payload(workspace, kind, key)
        for kind, named in keys.items()
        for key in (named if len(named) <= MAX_KEYS else (None,))
    ]


def _payload(workspace: str, kind: str, key: str | None) -> str:
    payload = orjson.dumps([workspace, kind, key])
    if len(payload) >= MAX_BYTES:
        payload = orjson.dumps([workspace, kind, None])
    return payload.decode()


def read_notice(payload: str) -> StoreNotice | None:
    """Returns the notice in a payload; None for one of another program or version."""
    try:
        match orjson.loads(payload):
            case [str(workspace), str(kind), str() | None as key] if kind in {GRAPH, *TOLD_KINDS}:
                return StoreNotice(workspace=workspace, kind=kind, key=key)
            case _:
                return None
    except orjson.JSONDecodeError:
        return None
