"""The models that answer: the settings' own, and those that agents of documents name
in its place.
"""

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
    """The provider that answers, for all workspaces of a process, and its prices.

    `others` has those that agents name in its place; None: it answers for them too.
    """

    provider: LLMProvider
    pricing: Pricing
    others: OtherModels | None = None

    def of(self, provider: str | None, model: str | None) -> tuple[LLMProvider, Pricing]:
        """Return the provider of a name, asked for a model; None: as
        here. Raises: SettingsError.
        """
        if self.others is None or not (provider or model):
            return self.provider, self.pricing
        return self.others.of(provider, model)


def rules_provider() -> LLMProvider:
    """Return the provider that answers without a model, whatever the settings name."""
    return RulesProvider()


MAX_OTHERS = 32
CHAT_PRICE = "llm_price_input and llm_price_output"


class OtherModels:
    """The models that agents name, each made when it is asked for; of very many the last
    used are kept.

    One that is not kept any more ends with the turns that use it, its connections with it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: OrderedDict[tuple[str | None, str | None], tuple[LLMProvider, Pricing]] = (
            OrderedDict()
        )

    def of(self, provider: str | None, model: str | None) -> tuple[LLMProvider, Pricing]:
        """Return a provider asked for a model, with its prices. Raises: SettingsError."""
        if (provider, model) not in self._made:
            choice = choose(self._settings, provider, model)
            check_price(self._settings, choice.pricing)
            self._made[provider, model] = (
                make_provider(choice, offline=RulesProvider),
                choice.pricing,
            )
            if len(self._made) > MAX_OTHERS:
                self._made.popitem(last=False)
        self._made.move_to_end((provider, model))
        return self._made[provider, model]

    async def aclose(self) -> None:
        for provider, _ in self._made.values():
            await provider.aclose()


def check_price(settings: Settings, pricing: Pricing, *, price: str = CHAT_PRICE) -> None:
    """Checks that limits in money can be kept; `price` names the settings that say the price.

    Raises: SettingsError where nobody knows the model's price.
    """
    limits = [name for name in COST_LIMITS if getattr(settings, name) is not None]
    if limits and pricing.cost_usd(UsageReport(prompt=1, completion=1)) is None:
        what = f"set {price}, or limit tokens"
        raise SettingsError(
            name=limits[0],
            origin=f"for model {pricing.model}",
            reason=f"its price is not known: {what}",
        )


def check_embedding_price(settings: Settings, embedder: EmbeddingProvider | None) -> None:
    """Does the same for the model that embeds. Raises: SettingsError."""
    if embedder is not None and embedder.model not in PACKAGED:
        check_price(settings, embedding_pricing(settings, embedder.model), price="embeddings_price")


COST_LIMITS = ("max_total_cost", "max_workspace_cost", "max_person_cost")


@asynccontextmanager
async def open_model(
    settings: Settings, provider: LLMProvider | None = None, *, embedder: EmbeddingProvider | None
) -> AsyncGenerator[Model]:
    """Yield the settings' provider, or one that is given and stays open. Raises: as `open_agent`.

    `embedder` is named in the log beside it.
    """
    if provider is not None:  # it is not of the settings, whose prices would be another's
        yield Model(provider=provider, pricing=Pricing(model=provider.model))
        return
    choice = choose(settings)
    check_price(settings, choice.pricing)
    made = make_provider(choice, offline=RulesProvider)
    facts = {
        "provider": made.name,
        "model": made.model,
        "embedder": embedder.model if embedder else "none",
    }
    log.info("started", extra=facts)
    others = OtherModels(settings)
    try:
        yield Model(provider=made, pricing=choice.pricing, others=others)
    finally:
        await made.aclose()
        await others.aclose()
