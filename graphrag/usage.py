"""Counts what models were asked for: tokens and cost by thread and provider, and keeps limits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from graphrag.embeddings import EmbeddingError
from graphrag.providers.base import UsageReport
from graphrag.providers.errors import ModelError

MAX_THREADS = 10_000
"""Totals of so many threads are kept; the one used longest ago is forgotten first. Sums stay right."""

Limit = Literal["call_tokens", "total_tokens", "total_cost"]


class UsageLimitReached(ModelError, EmbeddingError):
    """Units: tokens, or US dollars for `total_cost`. Nothing was sent.

    To who asks a model or an embedder it is one of the errors that these may raise.
    """

    def __init__(self, *, limit: Limit, allowed: float, reached: float) -> None:
        super().__init__(provider="", reason="")
        self.limit: Limit = limit
        self.allowed, self.reached = allowed, reached
        if limit == "total_cost":
            figures = f"{reached:.4f} of {allowed:.4f} US dollars"
        else:
            figures = f"{reached:.0f} of {allowed:.0f} tokens"
        self.args = (f"{figures}; raise max_{limit} to go on",)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """None: no limit. `call_tokens` is for the prompt of one call, the others for all calls together."""

    call_tokens: int | None = None
    total_tokens: int | None = None
    total_cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """One call. `cost_usd` None: nobody knows the price. `estimated`: counted by us, not told."""

    kind: Literal["chat", "embedding"]
    provider: str
    model: str
    tokens: UsageReport
    cost_usd: float | None
    thread: str | None = None
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over calls. `cost_usd` leaves out the `unpriced` calls, whose price nobody knows."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    estimated: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion

    def plus(self, call: CallUsage) -> Totals:
        return Totals(
            calls=self.calls + 1,
            prompt=self.prompt + call.tokens.prompt,
            completion=self.completion + call.tokens.completion,
            cached=self.cached + call.tokens.cached,
            cost_usd=self.cost_usd + (call.cost_usd or 0.0),
            unpriced=self.unpriced + (call.cost_usd is None),
            estimated=self.estimated + call.estimated,
        )


class UsageMeter:
    """Adds up calls, from any thread.

    `on_call` hears of each call, `on_limit` once of each limit that is reached; neither may raise.
    What was used is always recorded: a limit refuses the next call, not the answer already paid.
    """

    def __init__(
        self,
        limits: UsageLimits | None = None,
        *,
        on_call: Callable[[CallUsage], None] | None = None,
        on_limit: Callable[[UsageLimitReached], None] | None = None,
    ) -> None:
        self._limits = limits or UsageLimits()
        self._on_call, self._on_limit = on_call, on_limit
        self._lock = threading.Lock()
        self._total = Totals()
        self._by_provider: dict[str, Totals] = {}
        self._by_thread: OrderedDict[str, Totals] = OrderedDict()
        self._told: set[Limit] = set()

    @property
    def limits(self) -> UsageLimits:
        return self._limits

    def total(self) -> Totals:
        return self._total

    def of_thread(self, thread: str) -> Totals:
        with self._lock:
            return self._by_thread.get(thread, Totals())

    def by_provider(self) -> dict[str, Totals]:
        """Return the totals by provider, embeddings apart as `PROVIDER (embedding)`."""
        with self._lock:
            return dict(self._by_provider)

    def check(self, prompt_tokens: int = 0) -> None:
        """Allow a call of about so many prompt tokens. Raises: UsageLimitReached."""
        reached = self._reached(prompt_tokens)
        if reached is not None:
            self._tell(reached)
            raise reached

    def record(self, call: CallUsage) -> None:
        """Add a call that was made."""
        with self._lock:
            self._total = self._total.plus(call)
            name = call.provider if call.kind == "chat" else f"{call.provider} (embedding)"
            self._by_provider[name] = self._by_provider.get(name, Totals()).plus(call)
            if call.thread is not None:
                self._by_thread[call.thread] = self._by_thread.pop(call.thread, Totals()).plus(call)
                if len(self._by_thread) > MAX_THREADS:
                    self._by_thread.popitem(last=False)
        if self._on_call is not None:
            self._on_call(call)
        reached = self._reached(0)
        if reached is not None:
            self._tell(reached)

    def _reached(self, prompt_tokens: int) -> UsageLimitReached | None:
        limits, total = self._limits, self._total
        if limits.call_tokens is not None and prompt_tokens > limits.call_tokens:
            return UsageLimitReached(limit="call_tokens", allowed=limits.call_tokens, reached=prompt_tokens)
        if limits.total_tokens is not None and total.tokens + prompt_tokens >= limits.total_tokens:
            reached = total.tokens + prompt_tokens
            return UsageLimitReached(limit="total_tokens", allowed=limits.total_tokens, reached=reached)
        if limits.total_cost_usd is not None and total.cost_usd >= limits.total_cost_usd:
            return UsageLimitReached(
                limit="total_cost", allowed=limits.total_cost_usd, reached=total.cost_usd
            )
        return None

    def _tell(self, reached: UsageLimitReached) -> None:
        with self._lock:
            again = reached.limit in self._told and reached.limit != "call_tokens"
            self._told.add(reached.limit)
        if self._on_limit is not None and not again:
            self._on_limit(reached)
