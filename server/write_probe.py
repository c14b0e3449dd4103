"""Tests whether the database accepts a small write, for the readiness endpoint."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import final

from datasources.base import RecordStore
from datasources.errors import RecordConflict, SourceError
from graphrag.leases import now_ms
from graphrag.stored_records import change_record

log = logging.getLogger(__name__)

LOOK_S = 2.0  # for one write
EVERY_S = 5.0  # between two writes
KEY = "readyz"


@final
class WriteProbe:
    """Tries a small write; between two tries it returns the last result."""

    def __init__(
        self, *, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every_s = every_s
        self._clock = clock
        self._lock = asyncio.Lock()
        self._tried_at = -math.inf
        self._failure = ""

    async def failure(self, records: RecordStore) -> str:
        """Returns the name of the error, "" if the write succeeded."""
        async with self._lock:
            if self._clock() - self._tried_at >= self._every_s:
                self._failure = await self._try(records)
                self._tried_at = self._clock()
            return self._failure

    async def _try(self, records: RecordStore) -> str:
        try:
            async with asyncio.timeout(LOOK_S):
                data = {"owner": KEY, "expiresTime": now_ms()}
                await change_record(records, "lease", KEY, lambda _: data, tries=1)
        except RecordConflict:
            return ""  # another server has just written it
        except (SourceError, TimeoutError) as exc:
            log.warning("not_ready", extra={"error": type(exc).__name__, "reason": str(exc)})
            return type(exc).__name__
        return ""
