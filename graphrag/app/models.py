"""The models that answer: the configured one, and others that documents of agents name."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from graphrag.config import Settings, SettingsError
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.packaged import PACKAGED
from graphrag.llm.base import LLMProvider, UsageReport
from graphrag.llm.registry import Pricing, choose, embedding_pricing, make_provider
from graphrag.rules import RulesProvider

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The configured provider, shared by all workspaces of a process, with its prices.

    `others` are the models that agents name; if None, the configured one answers for them, too.
    """

    provider: LLMProvider
    pricing: Pricing
    others: OtherModels | None = None

    def of(self, provider: str | None, model: str | None) -> tuple[LLMProvider, Pricing]:
        """Returns the provider and prices for names given by an agent, None for the configured
        ones.

        Raises: SettingsError.
        """
        if self.others is None or not (provider or model):
            return self.provider, self.pricing
        return self.others.of(provider, model)


def rules_provider() -> LLMProvider:
    """Returns the provider that answers by rules without a model, independent of the settings."""
    return RulesProvider()


MAX_OTHERS = 32
CHAT_PRICE = "llm_price_input and llm_price_output"


class OtherModels:
    """The models that agents name, created on demand; the MAX_OTHERS most recently used are cached.

    A provider that is no longer cached is closed with its connections when the last turn using it
    ends.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._providers: OrderedDict[tuple[str | None, str | None], tuple[LLMProvider, Pricing]] = (
            OrderedDict()
        )

    def of(self, provider: str | None, model: str | None) -> tuple[LLMProvider, Pricing]:
        """Returns a provider for a model, with its prices. Raises: SettingsError."""
        if (provider, model) not in self._providers:
            choice = choose(self._settings, provider, model)
            check_price(self._settings, choice.pricing)
            self._providers[provider, model] = (
                make_provider(choice, offline=RulesProvider),
                choice.pricing,
            )
            if len(self._providers) > MAX_OTHERS:
                self._providers.popitem(last=False)
        self._providers.move_to_end((provider, model))
        return self._providers[provider, model]

    async def aclose(self) -> None:
        for provider, _ in self._providers.values():
            await provider.aclose()


def check_price(settings: Settings, pricing: Pricing, *, price: str = CHAT_PRICE) -> None:
    """Checks that limits on cost can be enforced; `price` names the settings of the price.

    Raises: SettingsError if there is such a limit and the price of the model is unknown.
    """
    limits = [name for name in COST_LIMITS if settings.value_of(name) is not None]
    if limits and pricing.cost_usd(UsageReport(prompt=1, completion=1)) is None:
        what = f"set {price}, or limit tokens"
        raise SettingsError(
            name=limits[0],
            origin=f"for model {pricing.model}",
            reason=f"its price is not known: {what}",
        )


def check_embedding_price(settings: Settings, embedder: EmbeddingProvider | None) -> None:
    """Checks the same for the embedding model. Raises: SettingsError."""
    if embedder is not None and embedder.model not in PACKAGED:
        check_price(settings, embedding_pricing(settings, embedder.model), price="embeddings_price")


COST_LIMITS = ("max_total_cost", "max_workspace_cost", "max_person_cost")


@asynccontextmanager
async def open_model(
    settings: Settings, provider: LLMProvider | None = None, *, embedder: EmbeddingProvider | None
) -> AsyncGenerator[Model]:
    """Yields the configured provider, or a given one, which stays open. Raises: SettingsError.

    `embedder` is only logged.
    """
    if provider is not None:  # the configured prices do not apply to a given provider
        yield Model(provider=provider, pricing=Pricing(model=provider.model))
        return
    choice = choose(settings)
    check_price(settings, choice.pricing)
    configured = make_provider(choice, offline=RulesProvider)
    facts = {
        "provider": configured.name,
        "model": configured.model,
        "embedder": embedder.model if embedder else "none",
    }
    log.info("started", extra=facts)
    others = OtherModels(settings)
    try:
        yield Model(provider=configured, pricing=choice.pricing, others=others)
    finally:
        await configured.aclose()
        await others.aclose()
