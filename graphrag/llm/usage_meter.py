"""Records what models were asked for, and refuses calls beyond the limits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from graphrag.embedding.base import EmbeddingError
from graphrag.i18n import Language, LocalizedError, text
from graphrag.llm.base import UsageReport
from graphrag.llm.errors import ModelError
from graphrag.llm.usage_accounts import Allowed, Payer, UsageAccounts, UsedAmount, Whose

NOBODY = Payer(workspace="")
Limit = Literal["call_tokens", "total_tokens", "total_cost"]

log = logging.getLogger(__name__)


class UsageLimitReached(LocalizedError, ModelError, EmbeddingError):
    """Units: tokens, or US dollars for `total_cost`. Nothing was sent.

    `whose` names the account; the limit of a call is everybody's. To who asks a model or an embedder it
    is one of the errors that these may raise.
    """

    def __init__(
        self, *, limit: Limit, allowed: float, reached: float, whose: Whose | Literal["call"] = "service"
    ) -> None:
        ModelError.__init__(self, provider="", reason="")
        self.limit: Limit = limit
        self.whose: Whose | Literal["call"] = "call" if limit == "call_tokens" else whose
        self.allowed, self.reached = allowed, reached
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
        reached, allowed = f"{self.reached:.{digits}f}", f"{self.allowed:.{digits}f}"
        figures = text(f"usage_{units}", language, reached=reached, allowed=allowed)
        return text(f"usage_limit_{self.whose}", language, figures=figures, setting=self.setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """None: no limit. `call_tokens` is for the prompt of one call, the others for a month's calls: of the
    service, of each workspace, of each person."""

    call_tokens: int | None = None
    total_tokens: int | None = None
    total_cost_usd: float | None = None
    workspace_tokens: int | None = None
    workspace_cost_usd: float | None = None
    person_tokens: int | None = None
    person_cost_usd: float | None = None

    @property
    def monthly(self) -> dict[Whose, Allowed]:
        return {
            "person": Allowed(tokens=self.person_tokens, cost_usd=self.person_cost_usd),
            "workspace": Allowed(tokens=self.workspace_tokens, cost_usd=self.workspace_cost_usd),
            "service": Allowed(tokens=self.total_tokens, cost_usd=self.total_cost_usd),
        }

    @property
    def count_tokens(self) -> bool:
        """Whether the tokens of a prompt must be counted before it is sent."""
        return self.call_tokens is not None or any(a.tokens is not None for a in self.monthly.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """One call. `cost_usd` None: nobody knows the price. `estimated`: counted by us, not by the provider."""

    kind: Literal["chat", "embedding"]
    provider: str
    model: str
    tokens: UsageReport
    cost_usd: float | None
    estimated: bool = False
    payer: Payer = NOBODY


class UsageMeter:
    """Passes calls on to the accounts and checks their limits.

    `on_call` is called with each call; it may not raise.
    What was used is always recorded: a limit refuses the next call, not the answer already paid.
    """

    def __init__(
        self,
        limits: UsageLimits | None = None,
        accounts: UsageAccounts | None = None,
        *,
        on_call: Callable[[CallUsage], None] | None = None,
    ) -> None:
        self._limits = limits or UsageLimits()
        self.accounts = accounts or UsageAccounts(self._limits.monthly)
        self._on_call = on_call

    @property
    def limits(self) -> UsageLimits:
        return self._limits

    async def check(self, prompt_tokens: int = 0, payer: Payer = NOBODY) -> None:
        """Allow a call of about so many prompt tokens. Raises: UsageLimitReached."""
        reached = await self._reached(prompt_tokens, payer)
        if reached is not None:
            facts = {"limit": reached.limit, "allowed": reached.allowed, "reached": reached.reached}
            log.warning("usage_limit", extra=facts)
            raise reached

    def record(self, call: CallUsage) -> None:
        """Add a call that was made."""
        self.accounts.add(
            call.payer,
            UsedAmount(tokens=call.tokens.prompt + call.tokens.completion, cost_usd=call.cost_usd or 0.0),
        )
        if self._on_call is not None:
            self._on_call(call)

    async def _reached(self, prompt_tokens: int, payer: Payer) -> UsageLimitReached | None:
        most = self._limits.call_tokens
        if most is not None and prompt_tokens > most:
            return UsageLimitReached(limit="call_tokens", allowed=most, reached=prompt_tokens)
        for standing in await self.accounts.standings(payer):
            allowed, used, whose = standing.allowed, standing.used, standing.whose
            tokens = used.tokens + prompt_tokens
            if allowed.tokens is not None and tokens >= allowed.tokens:
                return UsageLimitReached(
                    limit="total_tokens", allowed=allowed.tokens, reached=tokens, whose=whose
                )
            if allowed.cost_usd is not None and used.cost_usd >= allowed.cost_usd:
                return UsageLimitReached(
                    limit="total_cost", allowed=allowed.cost_usd, reached=used.cost_usd, whose=whose
                )
        return None
