"""Changes of a workspace's approvals, read from the store for all readers, once a second and at
each notice of the database.

The store is read, not only this process: another server or a command may make a decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from datasources.errors import SourceError
from graphrag.agent.thread_store import ThreadError, Threads
from graphrag.approvals import ApprovalNotFound, Approvals
from graphrag.approvals.approval import KIND
from graphrag.approvals.audit import Entry
from graphrag.approvals.conflicts import Conflict, conflicts_of
from graphrag.approvals.discussion import COMMENTED
from graphrag.roles import Person
from server.change_feed import LOOK_S, StoreWatch

log = logging.getLogger(__name__)

# Changes kept for slow readers; a reader that is further behind misses the oldest.
KEPT = 64
DECIDED = 100  # decisions that one query may find
# Interval in which a thread is read also without a change: it may be deleted, and a slow reader
# misses changes.
ANYWAY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewChange:
    """A change of the approvals. `waiting` counts undecided proposals by graph and asker; `decided`
    are the decisions since the last change.

    `changed`: ids of approvals that are new or changed since then; `conflicts`: all current ones.
    `is_complete`: nothing else has changed since the last change that the reader received.
    """

    number: int
    waiting: Mapping[tuple[str, str], int]
    decided: tuple[Entry, ...] = ()
    changed: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    is_complete: bool = True

    def waiting_by_graph(self, counted: Callable[[str], bool] | None = None) -> dict[str, int]:
        """Returns the number of undecided proposals of each graph, only those of askers that
        `counted` accepts where it is given.
        """
        counts = Counter[str]()
        for (graph_key, asker), count in self.waiting.items():
            counts[graph_key] += count if counted is None or counted(asker) else 0
        return {key: count for key, count in counts.items() if count}


NextChange = Callable[[], Awaitable[ReviewChange]]


class ReviewFeed(StoreWatch):
    """Reads the approvals of one workspace while there are readers. Units: seconds."""

    unreadable = "review_unreadable"

    def __init__(self, approvals: Approvals) -> None:
        super().__init__(approvals.records.notices, KIND)
        self._approvals = approvals
        self._log: deque[ReviewChange] = deque(maxlen=KEPT)
        self._stamp: tuple[int, str] | None = None
        self._open: frozenset[str] = frozenset()
        self._is_unsettled = False

    @contextmanager
    def reading(self) -> Generator[NextChange]:
        """Yields a function that waits for the next change; its first result is the
        current state.
        """
        seen = -1

        async def next_change() -> ReviewChange:
            nonlocal seen
            while True:
                changed = self._changed
                new = [change for change in self._log if change.number > seen]
                if new:
                    change = new[0] if seen >= 0 else replace(new[-1], decided=(), changed=())
                    is_next = change.number == seen + 1 and seen >= 0
                    seen = change.number
                    return change if is_next else replace(change, is_complete=False)
                await changed.wait()

        with self.watching():
            yield next_change

    def forget(self) -> None:
        self._log.clear()
        self._stamp = None

    async def see(self) -> bool:
        earlier = self._stamp
        stamp = await self._approvals.stamp()
        # Two proposals of one millisecond have one stamp: after a change it is counted once more.
        if stamp == earlier and not self._is_unsettled:
            return False
        self._is_unsettled = stamp != earlier
        entries: list[Entry] = []
        if earlier is not None and stamp[0] > earlier[0]:
            latest = await self._approvals.audit.entries(limit=min(DECIDED, stamp[0] - earlier[0]))
            entries = [
                entry for entry in reversed(latest) if earlier[0] < entry.sequence <= stamp[0]
            ]
        waiting = await self._approvals.waiting()
        conflicts = await asyncio.to_thread(conflicts_of, waiting)
        was_open = self._open
        self._open = frozenset(approval.id for approval in waiting)
        self._stamp = stamp
        last = self._log[-1] if self._log else None
        if last is not None and not entries and self._open == was_open:
            return False
        new = [approval.id for approval in reversed(waiting) if approval.id not in was_open]
        change = ReviewChange(
            number=last.number + 1 if last else 0,
            waiting=Counter((one.graph_key, one.asker) for one in waiting),
            decided=tuple(entry for entry in entries if entry.facts.get("event") != COMMENTED),
            changed=tuple(dict.fromkeys([*_named(entries), *new])),
            conflicts=tuple(conflicts),
            is_complete=len(entries) < DECIDED,
        )
        self._log.append(change)
        return True


def _named(entries: Sequence[Entry]) -> Iterator[str]:
    """Yields the ids of the approvals of entries; an undo also changes the approval that
    it undoes.
    """
    for facts in (entry.facts for entry in entries):
        named = [facts.get("approvalId"), facts.get("undoes"), *(facts.get("undoesAlso") or ())]
        yield from (one for one in named if isinstance(one, str))


async def decided_elsewhere(
    *,
    reviews: ReviewFeed,
    approvals: Approvals,
    threads: Threads,
    thread_id: str,
    approval_ids: Sequence[str],
    person: Person,
    is_busy: Callable[[], bool],
    poll_s: float,
) -> bool:
    """Returns True when one of the approvals is decided and nobody has resumed the thread since;
    False if the thread continued or is gone. Reads nothing while `is_busy` here.

    Reads the store at each change of these approvals, and seldom otherwise. A decision in the
    thread itself resumes it at once, so after a decision the thread is read twice, `poll_s` apart.
    """
    seen = False
    with reviews.reading() as next_change:
        await _changed(next_change, None)  # from here on no decision is missed
        while True:
            if is_busy():
                seen = False
                await asyncio.sleep(poll_s)
                continue
            try:
                if not await _any_decided(approvals, approval_ids, person):
                    seen = False
                    await _changed(next_change, approval_ids)
                    continue
                thread = (await threads.get(thread_id, person)).thread
            except ThreadError:
                return False
            except SourceError as exc:  # the store may be back at the next look
                log.warning(
                    "wait_unreadable", extra={"thread_id": thread_id, "error": type(exc).__name__}
                )
                await asyncio.sleep(max(poll_s, LOOK_S))
                continue
            if thread.turn.status != "waiting":
                return False
            if seen:
                return True
            seen = True
            await asyncio.sleep(poll_s)


async def _changed(next_change: NextChange, approval_ids: Sequence[str] | None) -> None:
    """Returns when one of the approvals (None: any) was decided, at the latest after ANYWAY_S."""
    with suppress(TimeoutError):
        async with asyncio.timeout(ANYWAY_S):
            while True:
                decided = (await next_change()).decided
                if approval_ids is None or len(decided) >= DECIDED:
                    return
                if any(entry.facts.get("approvalId") in approval_ids for entry in decided):
                    return


async def _any_decided(approvals: Approvals, approval_ids: Sequence[str], person: Person) -> bool:
    for approval_id in approval_ids:
        try:
            if not (await approvals.get(approval_id, person)).is_open:
                return True
        except ApprovalNotFound:
            return True
    return False
