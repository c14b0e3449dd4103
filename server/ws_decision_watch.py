"""Waits for decisions that are made elsewhere: by a reviewer, on the page, on the command line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing

from datasources.errors import SourceError
from graphrag.agent.thread_store import ThreadError, Threads
from graphrag.approvals import ApprovalNotFound, Approvals
from graphrag.roles import Person
from server.review_feed import DECIDED, LOOK_S, News, ReviewFeed

log = logging.getLogger(__name__)

ANYWAY_S = 60.0
"""So often it is looked without news: a thread may be deleted, and a slow reader misses some."""


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
    """Return True when one of the approvals is decided and nobody has taken the thread up since;
    False when the thread went on, or is gone. While it `is_busy` here nothing is looked at.

    It is looked when `reviews` has news of these approvals, and otherwise seldom. Whoever decides in the
    thread itself takes it up at once: after a decision one more look is taken before the thread counts as
    left alone.
    """
    seen = False
    async with aclosing(_Told(reviews, frozenset(approval_ids))) as told:
        while True:
            if is_busy():
                seen = False
                await asyncio.sleep(poll_s)
                continue
            try:
                if not await _any_decided(approvals, approval_ids, person):
                    seen = False
                    await told.next()
                    continue
                thread = (await threads.get(thread_id, person)).thread
            except ThreadError:
                return False
            except SourceError as exc:  # the store may be back at the next look
                log.warning("wait_unreadable", extra={"thread_id": thread_id, "error": type(exc).__name__})
                await asyncio.sleep(max(poll_s, LOOK_S))
                continue
            if thread.turn.status != "waiting":
                return False
            if seen:
                return True
            seen = True
            await asyncio.sleep(poll_s)


class _Told:
    """Waits for news of some approvals."""

    def __init__(self, reviews: ReviewFeed, approval_ids: frozenset[str]) -> None:
        self._news, self._ids = reviews.read(), approval_ids
        self._coming: asyncio.Future[News] | None = None
        self._listens = False

    async def next(self) -> None:
        """Return when one of the approvals was decided, and after ANYWAY_S without.

        The first time return as soon as nothing can be missed any more: what was decided before is not told.
        """
        end = asyncio.get_running_loop().time() + ANYWAY_S
        while (left := end - asyncio.get_running_loop().time()) > 0:
            coming = self._coming = self._coming or asyncio.ensure_future(anext(self._news))
            # A time limit on the reader itself would end it.
            if not (await asyncio.wait({coming}, timeout=left))[0]:
                return
            self._coming = None
            decided = coming.result().decided
            if not self._listens:
                self._listens = True
                return
            if len(decided) >= DECIDED or any(e.facts.get("approvalId") in self._ids for e in decided):
                return

    async def aclose(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)
        await self._news.aclose()


async def _any_decided(approvals: Approvals, approval_ids: Sequence[str], person: Person) -> bool:
    for approval_id in approval_ids:
        try:
            if not (await approvals.get(approval_id, person)).is_open:
                return True
        except ApprovalNotFound:
            return True
    return False
