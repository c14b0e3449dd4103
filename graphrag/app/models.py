"""The models that answer: the configured one, and others that documents of agents name."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, final

from graphrag.app.replaceable_provider import ReplaceableProvider
from graphrag.config import Settings, SettingsError
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.packaged import PACKAGED
from graphrag.llm.base import (
    DEFAULT_OPTIONS,
    Chunk,
    LLMProvider,
    Message,
    ModelOptions,
    ToolSchema,
    UsageReport,
)
from graphrag.llm.errors import ModelNotUsable
from graphrag.llm.registry import Pricing, choose, embedding_pricing, make_provider
from graphrag.rules import RulesProvider

log = logging.getLogger(__name__)


@final
class Model:
    """The configured provider, shared by all workspaces of a process, with its prices. It can be
    exchanged while the service runs.

    `others` are the models that agents name; if None, the configured one answers for them, too.
    """

    def __init__(
        self, *, provider: LLMProvider, pricing: Pricing, others: OtherModels | None = None
    ) -> None:
        self.provider = ReplaceableProvider(provider)
        self._pricing = pricing
        self._others = others
        self._replaced: list[OtherModels] = []  # agents may still ask them

    @property
    def pricing(self) -> Pricing:
        """The prices of the provider that is in use."""
        return self._pricing

    @property
    def is_given(self) -> bool:
        """Whether the provider does not come from the settings, and is not exchanged."""
        return self._others is None

    async def use(self, settings: Settings, client_options: Mapping[str, Any]) -> None:
        """Lets the model of these settings answer from the next request on. `client_options` are
        those of its HTTP client.

        Raises: SettingsError; the previous model then stays.
        """
        choice = choose(settings)
        check_price(settings, choice.pricing)
        if client_options:
            choice = replace(choice, client_options=client_options)
        await self.provider.use(make_provider(choice, offline=RulesProvider))
        self._pricing = choice.pricing
        if self._others is not None:
            self._replaced.append(self._others)
        self._others = OtherModels(settings)

    async def aclose(self) -> None:
        await self.provider.aclose()
        for others in (*self._replaced, self._others):
            if others is not None:
                await others.aclose()

    def of(self, provider: str | None, model: str | None) -> tuple[LLMProvider, Pricing]:
        """Returns the provider and prices for names given by an agent, None for the configured
        ones.

        Raises: SettingsError.
        """
        if self._others is None or not (provider or model):
            return self.provider, self.pricing
        return self._others.of(provider, model)

    def usable(self, provider: str | None, model: str | None) -> tuple[LLMProvider, Pricing]:
        """Returns the same as `of`. A model that cannot be used refuses each request with the
        reason.
        """
        try:
            return self.of(provider, model)
        except SettingsError as exc:
            refusing = RefusingProvider(provider or "", model or "", exc)
            return refusing, Pricing(model=refusing.model)


@final
class RefusingProvider:
    """Implements LLMProvider for a model that cannot be used, such as one without a key."""

    context_window = 128_000

    def __init__(self, name: str, model: str, problem: SettingsError) -> None:
        self.name, self.model = name or "the model", model
        self._problem = problem

    async def stream(
        self,
        messages: Sequence[Message],  # noqa: ARG002 - no request is sent
        tools: Sequence[ToolSchema] = (),  # noqa: ARG002
        options: ModelOptions = DEFAULT_OPTIONS,  # noqa: ARG002
    ) -> AsyncGenerator[Chunk]:
        """Raises: ModelNotUsable."""
        problem = self._problem
        raise ModelNotUsable(provider=self.name, reason=problem.reason, setting=problem.name)
        yield  # an asynchronous generator

    async def aclose(self) -> None:
        return None


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
    in_use = Model(provider=configured, pricing=choice.pricing, others=OtherModels(settings))
    try:
        yield in_use
    finally:
        await in_use.aclose()
