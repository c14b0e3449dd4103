"""Waits for decisions that are made elsewhere: by a reviewer, on the page, on the command line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from datasources.errors import SourceError
from graphrag.approvals import ApprovalNotFound, Approvals
from graphrag.people import Person
from graphrag.threads import ThreadError, Threads

log = logging.getLogger(__name__)


async def decided_elsewhere(
    *,
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

    Whoever decides in the thread itself takes it up at once: after a decision one more look is taken
    before the thread counts as left alone.
    """
    seen = False
    while True:
        await asyncio.sleep(poll_s)
        if is_busy():
            seen = False
            continue
        try:
            if not await _any_decided(approvals, approval_ids, person):
                seen = False
                continue
            thread = (await threads.get(thread_id, person)).thread
        except ThreadError:
            return False
        except SourceError as exc:  # the store may be back at the next look
            log.warning("wait_unreadable", extra={"thread_id": thread_id, "error": type(exc).__name__})
            continue
        if thread.turn.status != "waiting":
            return False
        if seen:
            return True
        seen = True


async def _any_decided(approvals: Approvals, approval_ids: Sequence[str], person: Person) -> bool:
    for approval_id in approval_ids:
        try:
            if not (await approvals.get(approval_id, person)).is_open:
                return True
        except ApprovalNotFound:
            return True
    return False
