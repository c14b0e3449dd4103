"""What a running server holds: the database and, for each workspace that somebody asked for, its services.

A workspace is opened when a person who may work in it first asks, and stays open until the end.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from graphrag.agent import Agent
from graphrag.config import Settings
from graphrag.live import LiveGraphs
from graphrag.live.services import with_live
from graphrag.providers.base import LLMProvider
from graphrag.wiring import Services, Shared, open_agent, open_shared
from server.auth import Authenticator
from server.connections import Unsigned
from server.downloads import Downloads
from server.limits import EDIT_BURST_BYTES, EDIT_BYTES_A_MINUTE, RateLimiter
from server.metrics import Metrics
from server.review_feed import ReviewFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One opened workspace."""

    services: Services
    agent: Agent
    reviews: ReviewFeed


class ServerState:
    """Lives from a server's start to its end; `provider`, where given, answers in place of the settings'.

    Raises, when it is made: SettingsError for keys of sign-in that are none.
    """

    def __init__(self, settings: Settings, *, provider: LLMProvider | None = None) -> None:
        self.settings = settings
        self.authenticator = Authenticator(settings)
        self.limiter = RateLimiter(settings.rate_limit)
        self.edit_bytes = RateLimiter(EDIT_BYTES_A_MINUTE, burst=EDIT_BURST_BYTES)
        self.metrics = Metrics()
        self.downloads = Downloads()
        self.unsigned = Unsigned(forwarded_allow_ips=settings.forwarded_allow_ips)
        self.tools: frozenset[str] = frozenset()
        self._provider = provider
        self._stack = AsyncExitStack()
        self._shared: Shared | None = None
        self._live: LiveGraphs | None = None
        self._open: dict[str, Workspace] = {}
        self._opening = asyncio.Lock()

    @property
    def shared(self) -> Shared:
        if self._shared is None:
            raise RuntimeError("the server is not started")
        return self._shared

    @property
    def live(self) -> LiveGraphs:
        """The graphs that people edit here."""
        if self._live is None:
            raise RuntimeError("the server is not started")
        return self._live

    async def workspace(self, name: str) -> Workspace:
        """Return an opened workspace. Raises: SettingsError where the model's key or address is missing."""
        if name not in self._open:
            async with self._opening:
                if name not in self._open:
                    self._open[name] = await self._opened(name)
        return self._open[name]

    async def services(self, name: str) -> Services:
        """Return the services of a workspace."""
        return (await self.workspace(name)).services

    async def model(self) -> LLMProvider:
        """Return whoever answers here."""
        return (await self.workspace(self.settings.workspace)).agent.provider

    async def _opened(self, name: str) -> Workspace:
        services = with_live(self.shared.services(name), self.live)
        await self.live.recover(name)
        await services.approvals.recover()
        services.retriever.on_retrieved = self.metrics.retrieval
        services.approvals.on_decided = self.metrics.decided
        agent = await self._stack.enter_async_context(open_agent(services, self._provider))
        return Workspace(services=services, agent=agent, reviews=ReviewFeed(services.approvals))

    async def __aenter__(self) -> Self:
        opening = open_shared(self.settings, on_call=self.metrics.model_call)
        self._shared = await self._stack.enter_async_context(opening)
        database, embed = self._shared.database, self._shared.embedding_queue.add
        live = LiveGraphs(database.source, database.records, embed=embed, watch=self.metrics)
        self._live = await self._stack.enter_async_context(live)
        first = await self.workspace(self.settings.workspace)  # what cannot work is said at the start
        self.tools = frozenset(tool.name for tool in first.services.box.offered("admin"))
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._open.clear()
        await self._stack.aclose()
