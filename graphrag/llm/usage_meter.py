"""Counts what models were asked for this month, stores it, and refuses calls beyond the limits.

Decision: a calendar month in UTC, as providers bill. What a call may use at most is reserved in the
record of each limited account before it is sent, and replaced by what it used: calls at once, also
of several servers, see each other. A killed process loses at most its calls under way; its
reservations end after METER_LIMITS.reserved_s.
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
    """Who asks for a call. `person` None: work of the workspace, such as embedding
    what was saved.
    """

    workspace: str
    person: str | None = None


NOBODY: Final = Payer(workspace="")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """None: no limit. `call_tokens` is for the prompt of one call, the others for a month's calls:
    of the service, of each workspace, of each person.
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
        """Tokens and dollars of each account that is limited, the narrowest first."""
        found: dict[Whose, tuple[int | None, float | None]] = {
            "person": (self.person_tokens, self.person_cost_usd),
            "workspace": (self.workspace_tokens, self.workspace_cost_usd),
            "service": (self.total_tokens, self.total_cost_usd),
        }
        return {whose: allowed for whose, allowed in found.items() if allowed != (None, None)}

    @property
    def count_tokens(self) -> bool:
        """Whether the tokens of a prompt must be counted before it is sent."""
        return self.call_tokens is not None or any(
            tokens is not None for tokens, _ in self.monthly.values()
        )


class UsageLimitReached(LocalizedError, ModelError, EmbeddingError):
    """Units: tokens, or US dollars for `total_cost`. Nothing was sent.

    `whose` names the account; the limit of a call is everybody's. To who asks a model or an
    embedder it is one of the errors that these may raise.
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
        """Return the name of the setting that an administrator can raise."""
        scope = "total" if self.whose == "service" else self.whose
        return f"max_{scope}_{'cost' if self.limit == 'total_cost' else 'tokens'}"

    def text(self, language: Language) -> str:
        """Return whose limit is reached, with figures, in a person's language."""
        units = "dollars" if self.limit == "total_cost" else "tokens"
        digits = 4 if units == "dollars" else 0
        reached = f"{self.reached:.{digits}f}"
        allowed = f"{self.allowed:.{digits}f}"
        figures = text(f"usage_{units}", language, reached=reached, allowed=allowed)
        return text(f"usage_limit_{self.whose}", language, figures=figures, setting=self.setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """One call. `cost_usd` None: nobody knows the price. `estimated`: counted by us, not
    by the provider.
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
class Standing:
    """One limited account: what may be used in this month (None: no limit), and what was."""

    whose: Whose
    max_tokens: int | None
    max_cost_usd: float | None
    used: UsedAmount


NOTHING: Final = UsedAmount()


@dataclass(slots=True)
class _Account:
    """`reserved` is for calls of this process, `noted` what its record says of that, `others` for
    calls of other servers.
    """

    stored: UsedAmount = NOTHING
    unsaved: UsedAmount = NOTHING
    reserved: UsedAmount = NOTHING
    noted: UsedAmount = NOTHING
    others: UsedAmount = NOTHING
    read_at: float = float("-inf")

    @property
    def used(self) -> UsedAmount:
        return self.stored.plus(self.unsaved)

    @property
    def is_stored(self) -> bool:
        return self.unsaved == NOTHING and self.reserved == self.noted


class UsageMeter:
    """Checks the limits and counts calls; only accounts with a limit are kept. `records`
    None: in memory.

    Use it as `async with` where there are records: leaving stores what is not stored yet. `on_call`
    is called with each call; it may not raise. What was used is always recorded: a limit refuses
    the next call, not the answer already paid.
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
        self._name = secrets.token_hex(6)
        """What this process's reservations stand under in a record."""
        self._storing = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None

    async def check(self, prompt_tokens: int = 0, payer: Payer = NOBODY) -> None:
        """Allow a call of about so many prompt tokens. Raises: UsageLimitReached."""
        reached = await self._reached(prompt_tokens, payer)
        if reached is not None:
            facts = {"limit": reached.limit, "allowed": reached.allowed, "reached": reached.reached}
            log.warning("usage_limit", extra=facts)
            raise reached

    @asynccontextmanager
    async def reserved(
        self, prompt_tokens: int, most: UsedAmount, payer: Payer
    ) -> AsyncGenerator[None]:
        """Allow a call, as `check`, and reserve the most that it may use until the block ends.

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
            account = self._known(key)
            account.reserved = account.reserved.plus(amount, sign)

    async def _reached(self, prompt_tokens: int, payer: Payer) -> UsageLimitReached | None:
        most = self.limits.call_tokens
        if most is not None and prompt_tokens > most:
            return UsageLimitReached(limit="call_tokens", allowed=most, reached=prompt_tokens)
        for one in await self.standings(payer, reserved=True):
            tokens = one.used.tokens + prompt_tokens
            cost = one.used.cost_usd
            if one.max_tokens is not None and tokens >= one.max_tokens:
                facts = {"allowed": one.max_tokens, "reached": tokens}
                return UsageLimitReached(limit="total_tokens", whose=one.whose, **facts)
            if one.max_cost_usd is not None and cost >= one.max_cost_usd:
                facts = {"allowed": one.max_cost_usd, "reached": cost}
                return UsageLimitReached(limit="total_cost", whose=one.whose, **facts)
        return None

    def record(self, call: CallUsage) -> None:
        """Add a call that was made."""
        tokens = call.tokens.prompt + call.tokens.completion
        used = UsedAmount(tokens=tokens, cost_usd=call.cost_usd or 0.0)
        for _, key in self._keys(call.payer):
            account = self._known(key)
            account.unsaved = account.unsaved.plus(used)
        if self._on_call is not None:
            self._on_call(call)

    async def standings(self, payer: Payer, *, reserved: bool = False) -> list[Standing]:
        """Return the limited accounts that a payer's calls count for, the narrowest first.

        With `reserved`, what calls under way may use counts as used. A store that cannot be read
        leaves what is known in memory.
        """
        found: list[Standing] = []
        for whose, key in self._keys(payer):
            account, (tokens, cost) = await self._current(key), self._monthly[whose]
            used = account.used
            if reserved:
                used = used.plus(account.reserved).plus(account.others)
            found.append(Standing(whose=whose, max_tokens=tokens, max_cost_usd=cost, used=used))
        return found

    def _keys(self, payer: Payer) -> list[tuple[Whose, str]]:
        month = time.strftime("%Y-%m", time.gmtime(self._clock()))
        names: dict[Whose, str | None] = {
            "person": payer.person,
            "workspace": payer.workspace,
            "service": "",
        }
        return [
            # A key must be storable, whatever a person is called.
            (whose, f"{month}/{whose}/{quote(name, safe='', errors='backslashreplace')}")
            for whose in self._monthly
            if (name := names[whose]) is not None
        ]

    def _known(self, key: str) -> _Account:
        account = self._accounts[key] = self._accounts.pop(key, None) or _Account()
        if len(self._accounts) > METER_LIMITS.max_accounts:
            oldest = next((k for k, a in self._accounts.items() if a.is_stored and k != key), None)
            if oldest is not None:
                del self._accounts[oldest]
        return account

    async def _current(self, key: str) -> _Account:
        account = self._known(key)
        if self._records is not None and self._clock() - account.read_at > METER_LIMITS.flush_s:
            await self._read([key])
        return account

    async def _read(self, keys: Sequence[str]) -> dict[str, Record | None]:
        """Read the records of accounts, and return them; none where the store cannot be read."""
        found: dict[str, Record | None] = {}
        if self._records is None:
            return found
        for key in keys:
            account = self._known(key)
            account.read_at = self._clock()
            try:
                found[key] = record = await self._records.get(KIND, key)
            except SourceError as exc:
                log.warning("usage_not_read", extra={"error": type(exc).__name__})
                return {}
            account.stored = _used(record)
            account.others = NOTHING
            for amount in self._reservations(record).values():
                account.others = account.others.plus(_amount(amount))
        return found

    def _reservations(self, record: Record | None) -> dict[str, Mapping[str, Any]]:
        """Return what other servers have reserved and may still use."""
        stored: Mapping[str, Any] = record.data.get("reserved", {}) if record else {}
        now = self._clock()
        return {
            name: one for name, one in stored.items() if name != self._name and one["until"] > now
        }

    async def flush(self) -> None:
        """Store what was counted since the last time; what cannot be stored is kept
        for the next.
        """
        async with self._storing:
            for attempt in range(METER_LIMITS.attempts):
                keys = [key for key, account in self._accounts.items() if not account.is_stored]
                if not keys or await self._write(await self._read(keys), attempt):
                    return

    async def _write(
        self, found: Mapping[str, Record | None], attempt: int, *, reserves: UsedAmount = NOTHING
    ) -> bool:
        """Store accounts over the records that were read; False: another server stored at
        the same moment.
        """
        unsaved = {key: self._known(key).unsaved for key in found}
        reserved = {key: self._known(key).reserved.plus(reserves) for key in found}
        writes: list[RecordWrite] = []
        for key, record in found.items():
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
        for key in found:
            account = self._known(key)
            account.stored = account.stored.plus(unsaved[key])
            account.unsaved = account.unsaved.plus(unsaved[key], -1)
            account.noted = reserved[key]
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
