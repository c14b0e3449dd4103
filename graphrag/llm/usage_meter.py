"""Measures the monthly usage of models, stores it, and refuses calls beyond the limits.

Decision: a month is a calendar month in UTC, as providers bill. Before a call is sent, its maximum
usage is reserved in the record of each limited account, and replaced by the actual usage
afterwards. So concurrent calls, also on other servers, count each other. A killed process loses at
most its calls in progress; its reservations end after METER_LIMITS.reserved_s.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Self
from urllib.parse import quote

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict, SourceError
from graphrag.embedding.embedder import EmbeddingError
from graphrag.i18n import Language, LocalizedError, text
from graphrag.llm.base import UsageReport
from graphrag.llm.errors import ModelError
from graphrag.workers import end_tasks, repeat

log = logging.getLogger(__name__)

KIND = "usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterLimits:
    """Limits of the usage meter. Units: seconds."""

    flush_s: float = 5.0
    """Interval between writes of the sums."""
    attempts: int = 10
    """Number of compare-and-set attempts of one write."""
    reserved_s: float = 900.0
    """Lifetime of a reservation. Longer than any call; afterwards its server is gone."""
    max_accounts: int = 10_000
    """Number of accounts held in memory; those used longest ago are dropped."""


METER_LIMITS: Final = MeterLimits()


Limit = Literal["call_tokens", "total_tokens", "total_cost"]
Whose = Literal["person", "workspace", "service"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """The account of a call. `person` None: work of the workspace, such as embedding new nodes."""

    workspace: str
    person: str | None = None


NOBODY: Final = Payer(workspace="")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """Limits of usage; None: no limit.

    `call_tokens` is for the prompt of one call, the others for the calls of a month: of the
    service, of each workspace, of each person.
    """

    call_tokens: int | None = None
    total_tokens: int | None = None
    total_cost_usd: float | None = None
    workspace_tokens: int | None = None
    workspace_cost_usd: float | None = None
    person_tokens: int | None = None
    person_cost_usd: float | None = None

    @property
    def monthly(self) -> dict[Whose, tuple[int | None, float | None]]:
        """Maximum tokens and dollars of each limited account, the narrowest first."""
        limits: dict[Whose, tuple[int | None, float | None]] = {
            "person": (self.person_tokens, self.person_cost_usd),
            "workspace": (self.workspace_tokens, self.workspace_cost_usd),
            "service": (self.total_tokens, self.total_cost_usd),
        }
        return {whose: allowed for whose, allowed in limits.items() if allowed != (None, None)}

    @property
    def count_tokens(self) -> bool:
        """Whether the tokens of a prompt must be counted before it is sent."""
        return self.call_tokens is not None or any(
            tokens is not None for tokens, _ in self.monthly.values()
        )


class UsageLimitReached(LocalizedError, ModelError, EmbeddingError):
    """Raised instead of sending a request. Units: tokens, or US dollars for `total_cost`.

    `whose` names the account; the limit of one call is the same for all. It is also a ModelError
    and an EmbeddingError, so callers of both handle it.
    """

    def __init__(
        self,
        *,
        limit: Limit,
        allowed: float,
        reached: float,
        whose: Whose | Literal["call"] = "service",
    ) -> None:
        ModelError.__init__(self, provider="", reason="")
        self.limit: Limit = limit
        self.whose: Whose | Literal["call"] = "call" if limit == "call_tokens" else whose
        self.allowed = allowed
        self.reached = reached
        self.args = (self.text("en"),)

    @property
    def setting(self) -> str:
        """The name of the setting that an administrator can raise."""
        scope = "total" if self.whose == "service" else self.whose
        return f"max_{scope}_{'cost' if self.limit == 'total_cost' else 'tokens'}"

    def text(self, language: Language) -> str:
        """Returns the account and the figures in a person's language."""
        units = "dollars" if self.limit == "total_cost" else "tokens"
        digits = 4 if units == "dollars" else 0
        reached = f"{self.reached:.{digits}f}"
        allowed = f"{self.allowed:.{digits}f}"
        figures = text(f"usage_{units}", language, reached=reached, allowed=allowed)
        return text(f"usage_limit_{self.whose}", language, figures=figures, setting=self.setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """Usage of one call. `cost_usd` None: the price is unknown. `estimated`: not reported by the
    provider.
    """

    kind: Literal["chat", "embedding"]
    provider: str
    model: str
    tokens: UsageReport
    cost_usd: float | None
    estimated: bool = False
    payer: Payer = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedAmount:
    tokens: int = 0
    cost_usd: float = 0.0

    def plus(self, other: UsedAmount, sign: int = 1) -> UsedAmount:
        return UsedAmount(
            tokens=self.tokens + sign * other.tokens, cost_usd=self.cost_usd + sign * other.cost_usd
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountUsage:
    """The usage of one limited account this month, and its limits (None: no limit)."""

    whose: Whose
    max_tokens: int | None
    max_cost_usd: float | None
    used: UsedAmount


NOTHING: Final = UsedAmount()


@dataclass(slots=True)
class _Account:
    """Usage of an account in memory.

    `reserved`: by calls of this process; `stored_reserved`: the part of it in the stored record.
    `others`: reserved by other servers.
    """

    stored: UsedAmount = NOTHING
    unsaved: UsedAmount = NOTHING
    reserved: UsedAmount = NOTHING
    stored_reserved: UsedAmount = NOTHING
    others: UsedAmount = NOTHING
    read_at: float = float("-inf")

    @property
    def used(self) -> UsedAmount:
        return self.stored.plus(self.unsaved)

    @property
    def is_stored(self) -> bool:
        return self.unsaved == NOTHING and self.reserved == self.stored_reserved


class UsageMeter:
    """Checks the limits and records calls. Only accounts with a limit are stored.

    `records` None: in memory. With records, use it as `async with`: leaving the block stores the
    rest. `on_call` is called with each call and must not raise. Usage is always recorded: a limit
    refuses the next call, not an answer that was already paid.
    """

    def __init__(
        self,
        limits: UsageLimits | None = None,
        records: RecordStore | None = None,
        *,
        on_call: Callable[[CallUsage], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits or UsageLimits()
        self._records = records
        self._on_call = on_call
        self._monthly = self.limits.monthly
        self._clock = clock
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        # Identifies the reservations of this process in a record.
        self._name = secrets.token_hex(6)
        self._storing = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None

    async def check(self, prompt_tokens: int = 0, payer: Payer = NOBODY) -> None:
        """Checks the limits for a call with about this many prompt tokens. Raises:
        UsageLimitReached.
        """
        refusal = await self._reached(prompt_tokens, payer)
        if refusal is not None:
            facts = {"limit": refusal.limit, "allowed": refusal.allowed, "reached": refusal.reached}
            log.warning("usage_limit", extra=facts)
            raise refusal

    @asynccontextmanager
    async def reserved(
        self, prompt_tokens: int, most: UsedAmount, payer: Payer
    ) -> AsyncGenerator[None]:
        """Checks the limits as `check` does, and reserves the maximum usage of a call until the
        block ends.

        Raises: UsageLimitReached.
        """
        keys = [key for _, key in self._keys(payer)]
        async with self._storing:
            for attempt in range(METER_LIMITS.attempts):
                versions = await self._read(keys)
                await self.check(prompt_tokens, payer)
                if await self._write(versions, attempt, reserves=most):
                    break
            self._reserve(keys, most)
        try:
            yield
        finally:
            self._reserve(keys, most, -1)
            await self.flush()

    def _reserve(self, keys: Sequence[str], amount: UsedAmount, sign: int = 1) -> None:
        for key in keys:
            account = self._account(key)
            account.reserved = account.reserved.plus(amount, sign)

    async def _reached(self, prompt_tokens: int, payer: Payer) -> UsageLimitReached | None:
        maximum = self.limits.call_tokens
        if maximum is not None and prompt_tokens > maximum:
            return UsageLimitReached(limit="call_tokens", allowed=maximum, reached=prompt_tokens)
        for account in await self.account_usages(payer, reserved=True):
            tokens = account.used.tokens + prompt_tokens
            cost = account.used.cost_usd
            if account.max_tokens is not None and tokens >= account.max_tokens:
                facts = {"allowed": account.max_tokens, "reached": tokens}
                return UsageLimitReached(limit="total_tokens", whose=account.whose, **facts)
            if account.max_cost_usd is not None and cost >= account.max_cost_usd:
                facts = {"allowed": account.max_cost_usd, "reached": cost}
                return UsageLimitReached(limit="total_cost", whose=account.whose, **facts)
        return None

    def record(self, call: CallUsage) -> None:
        """Adds the usage of a call."""
        tokens = call.tokens.prompt + call.tokens.completion
        used = UsedAmount(tokens=tokens, cost_usd=call.cost_usd or 0.0)
        for _, key in self._keys(call.payer):
            account = self._account(key)
            account.unsaved = account.unsaved.plus(used)
        if self._on_call is not None:
            self._on_call(call)

    async def account_usages(self, payer: Payer, *, reserved: bool = False) -> list[AccountUsage]:
        """Returns the limited accounts that a payer's calls count for, the narrowest first.

        With `reserved`, the maximum usage of calls in progress is included. If the store cannot be
        read, the amounts in memory are used.
        """
        usages: list[AccountUsage] = []
        for whose, key in self._keys(payer):
            account, (tokens, cost) = await self._current(key), self._monthly[whose]
            used = account.used
            if reserved:
                used = used.plus(account.reserved).plus(account.others)
            usages.append(
                AccountUsage(whose=whose, max_tokens=tokens, max_cost_usd=cost, used=used)
            )
        return usages

    def _keys(self, payer: Payer) -> list[tuple[Whose, str]]:
        month = time.strftime("%Y-%m", time.gmtime(self._clock()))
        names: dict[Whose, str | None] = {
            "person": payer.person,
            "workspace": payer.workspace,
            "service": "",
        }
        return [
            # The key must be storable for any name of a person.
            (whose, f"{month}/{whose}/{quote(name, safe='', errors='backslashreplace')}")
            for whose in self._monthly
            if (name := names[whose]) is not None
        ]

    def _account(self, key: str) -> _Account:
        account = self._accounts[key] = self._accounts.pop(key, None) or _Account()
        if len(self._accounts) > METER_LIMITS.max_accounts:
            oldest = next((k for k, a in self._accounts.items() if a.is_stored and k != key), None)
            if oldest is not None:
                del self._accounts[oldest]
        return account

    async def _current(self, key: str) -> _Account:
        account = self._account(key)
        if self._records is not None and self._clock() - account.read_at > METER_LIMITS.flush_s:
            await self._read([key])
        return account

    async def _read(self, keys: Sequence[str]) -> dict[str, Record | None]:
        """Reads and returns the records of accounts; empty if the store cannot be read."""
        records: dict[str, Record | None] = {}
        if self._records is None:
            return records
        for key in keys:
            account = self._account(key)
            account.read_at = self._clock()
            try:
                records[key] = record = await self._records.get(KIND, key)
            except SourceError as exc:
                log.warning("usage_not_read", extra={"error": type(exc).__name__})
                return {}
            account.stored = _used(record)
            account.others = NOTHING
            for amount in self._reservations(record).values():
                account.others = account.others.plus(_amount(amount))
        return records

    def _reservations(self, record: Record | None) -> dict[str, Mapping[str, Any]]:
        """Returns the reservations of other servers that are still valid."""
        stored: Mapping[str, Any] = record.data.get("reserved", {}) if record else {}
        now = self._clock()
        return {
            name: reservation
            for name, reservation in stored.items()
            if name != self._name and reservation["until"] > now
        }

    async def flush(self) -> None:
        """Stores the usage since the last time. If that fails, it is stored with the next flush."""
        async with self._storing:
            for attempt in range(METER_LIMITS.attempts):
                keys = [key for key, account in self._accounts.items() if not account.is_stored]
                if not keys or await self._write(await self._read(keys), attempt):
                    return

    async def _write(
        self, records: Mapping[str, Record | None], attempt: int, *, reserves: UsedAmount = NOTHING
    ) -> bool:
        """Writes accounts over the records that were read. Returns False if another server wrote
        meanwhile.
        """
        unsaved = {key: self._account(key).unsaved for key in records}
        reserved = {key: self._account(key).reserved.plus(reserves) for key in records}
        writes: list[RecordWrite] = []
        for key, record in records.items():
            total = _used(record).plus(unsaved[key])
            others = self._reservations(record)
            if reserved[key].tokens or reserved[key].cost_usd > 0:
                until = self._clock() + METER_LIMITS.reserved_s
                own = {
                    "tokens": reserved[key].tokens,
                    "cost": reserved[key].cost_usd,
                    "until": until,
                }
                others = {**others, self._name: own}
            data = {"tokens": total.tokens, "cost": total.cost_usd, "reserved": others}
            version = record.version if record else None
            writes.append(RecordWrite(kind=KIND, key=key, data=data, expected_version=version))
        try:
            if self._records is not None and writes:
                await self._records.write(writes)
        except RecordConflict:
            await asyncio.sleep(random.uniform(0, 0.02 * (attempt + 1)))
            return False
        except SourceError as exc:
            log.warning("usage_not_stored", extra={"error": type(exc).__name__})
            return True
        for key in records:
            account = self._account(key)
            account.stored = account.stored.plus(unsaved[key])
            account.unsaved = account.unsaved.plus(unsaved[key], -1)
            account.stored_reserved = reserved[key]
        return True

    async def __aenter__(self) -> Self:
        if self._records is not None and self._monthly:
            flushing = repeat(
                self.flush, METER_LIMITS.flush_s, log, "usage_not_stored", waits_first=True
            )
            self._flusher = asyncio.create_task(flushing)
        return self

    async def __aexit__(self, *_: object) -> None:
        flusher = self._flusher
        self._flusher = None
        if flusher is not None:
            await end_tasks(flusher)
            await self.flush()


def _used(record: Record | None) -> UsedAmount:
    return NOTHING if record is None else _amount(record.data)


def _amount(data: Mapping[str, Any]) -> UsedAmount:
    return UsedAmount(tokens=int(data.get("tokens", 0)), cost_usd=float(data.get("cost", 0.0)))
