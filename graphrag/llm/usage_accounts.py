"""Keeps what people, workspaces and the service used this month, and the limits on it.

Decision: a calendar month in UTC, as providers bill. Usage is added up in memory and stored together every
few seconds: a killed process loses the last seconds, and servers learn of each other's usage that late.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict, SourceError

log = logging.getLogger(__name__)

KIND = "usage"
FLUSH_S = 5.0
ATTEMPTS = 10
MAX_ACCOUNTS = 10_000
"""So many are held in memory; those used longest ago are read again when needed."""

Whose = Literal["person", "workspace", "service"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """Who asks for a call. `person` None: work of the workspace, such as embedding what was saved."""

    workspace: str
    person: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedAmount:
    tokens: int = 0
    cost_usd: float = 0.0

    def plus(self, other: UsedAmount, sign: int = 1) -> UsedAmount:
        return UsedAmount(
            tokens=self.tokens + sign * other.tokens, cost_usd=self.cost_usd + sign * other.cost_usd
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """None: no limit."""

    tokens: int | None = None
    cost_usd: float | None = None

    @property
    def is_unlimited(self) -> bool:
        return self.tokens is None and self.cost_usd is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One limited account: what may be used in this month, and what was."""

    whose: Whose
    allowed: Allowed
    used: UsedAmount


@dataclass(slots=True)
class _Account:
    stored: UsedAmount
    unsaved: UsedAmount
    read_at: float


class UsageAccounts:
    """Accounts of one service; only those with a limit are kept. `records` None: in memory alone.

    Use it as `async with`: leaving stores what is not stored yet.
    """

    def __init__(
        self,
        limits: Mapping[Whose, Allowed],
        records: RecordStore | None = None,
        *,
        clock: Callable[[], float] = time.time,
        flush_s: float = FLUSH_S,
    ) -> None:
        self._limits = {whose: allowed for whose, allowed in limits.items() if not allowed.is_unlimited}
        self._records, self._clock, self._flush_s = records, clock, flush_s
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._flusher: asyncio.Task[None] | None = None

    async def standings(self, payer: Payer) -> list[Standing]:
        """Return the limited accounts that a payer's calls count for, the narrowest first.

        A store that cannot be read leaves what is known in memory.
        """
        found: list[Standing] = []
        for whose, key in self._keys(payer):
            account = await self._current(key)
            used = account.stored.plus(account.unsaved)
            found.append(Standing(whose=whose, allowed=self._limits[whose], used=used))
        return found

    def add(self, payer: Payer, used: UsedAmount) -> None:
        """Count a call that was made."""
        for _, key in self._keys(payer):
            account = self._known(key)
            account.unsaved = account.unsaved.plus(used)

    def _keys(self, payer: Payer) -> list[tuple[Whose, str]]:
        month = time.strftime("%Y-%m", time.gmtime(self._clock()))
        names: list[tuple[Whose, str]] = [("workspace", payer.workspace), ("service", "")]
        if payer.person is not None:
            names.insert(0, ("person", payer.person))
        return [
            # A key must be storable, whatever a person is called.
            (whose, f"{month}/{whose}/{quote(name, safe='', errors='backslashreplace')}")
            for whose, name in names
            if whose in self._limits
        ]

    def _known(self, key: str) -> _Account:
        account = self._accounts.pop(key, None) or _Account(UsedAmount(), UsedAmount(), float("-inf"))
        self._accounts[key] = account
        if len(self._accounts) > MAX_ACCOUNTS:
            oldest = next((k for k, a in self._accounts.items() if a.unsaved == UsedAmount()), None)
            if oldest is not None:
                del self._accounts[oldest]
        return account

    async def _current(self, key: str) -> _Account:
        account = self._known(key)
        if self._records is not None and self._clock() - account.read_at > self._flush_s:
            account.read_at = self._clock()
            try:
                account.stored = _used(await self._records.get(KIND, key))
            except SourceError as exc:
                log.warning("usage_not_read", extra={"error": type(exc).__name__})
        return account

    async def flush(self) -> None:
        """Store what was counted since the last time; what cannot be stored is kept for the next."""
        unsaved = {
            key: account.unsaved for key, account in self._accounts.items() if account.unsaved != UsedAmount()
        }
        if self._records is None or not unsaved:
            return
        for attempt in range(ATTEMPTS):
            try:
                totals = await self._stored(self._records, unsaved)
            except RecordConflict:  # another server stores at the same moment
                await asyncio.sleep(random.uniform(0, 0.02 * (attempt + 1)))
                continue
            except SourceError as exc:
                log.warning("usage_not_stored", extra={"error": type(exc).__name__})
                return
            for key, total in totals.items():
                account = self._known(key)
                account.stored, account.read_at = total, self._clock()
                account.unsaved = account.unsaved.plus(unsaved[key], -1)
            return

    async def _stored(self, records: RecordStore, unsaved: dict[str, UsedAmount]) -> dict[str, UsedAmount]:
        totals: dict[str, UsedAmount] = {}
        writes: list[RecordWrite] = []
        for key, more in unsaved.items():
            before = await records.get(KIND, key)
            totals[key] = total = _used(before).plus(more)
            data = {"tokens": total.tokens, "cost": total.cost_usd}
            version = before.version if before else None
            writes.append(RecordWrite(kind=KIND, key=key, data=data, expected_version=version))
        await records.write(writes)
        return totals

    async def __aenter__(self) -> Self:
        if self._records is not None and self._limits:
            self._flusher = asyncio.create_task(self._flush_on())
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.cancel()
            with suppress(asyncio.CancelledError):
                await flusher
            await self.flush()

    async def _flush_on(self) -> None:
        while True:
            await asyncio.sleep(self._flush_s)
            try:
                await self.flush()
            except Exception:  # whatever it was this time, what is counted must be stored later
                log.exception("usage_not_stored")


def _used(record: Record | None) -> UsedAmount:
    if record is None:
        return UsedAmount()
    return UsedAmount(tokens=int(record.data.get("tokens", 0)), cost_usd=float(record.data.get("cost", 0.0)))
