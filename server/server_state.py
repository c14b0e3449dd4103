"""What a running server holds: the database and, for each workspace that somebody asked
for, its services.

A workspace is opened when a person who may work in it first asks. Of those that nobody works with
the KEPT that were asked for last stay open.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

from datasources.types import ROOT_WORKSPACE
from graphrag.agent.thread_store import Thread
from graphrag.agents.agent_worker import AgentWorker, WorkspaceAgents
from graphrag.agents.chats import AgentChats
from graphrag.app import wiring
from graphrag.app.api_keys import ApiKeys
from graphrag.app.automation_services import automation_service
from graphrag.app.deleted_graphs import KIND, purge
from graphrag.app.history_term import compact_history
from graphrag.app.listeners import ProcessListeners, WorkspaceListeners
from graphrag.app.voice_services import calls_of
from graphrag.approvals import Approval
from graphrag.approvals.stored_parts import UNDO
from graphrag.automations.automation import KIND as AUTOMATIONS
from graphrag.automations.last_seen import KIND as MEMBER
from graphrag.automations.last_seen import forget_unseen, mark_tick
from graphrag.automations.run_listeners import RunListeners
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.service import AutomationService
from graphrag.automations.worker import Worker
from graphrag.config import Settings
from graphrag.leases import new_owner, now_ms
from graphrag.live import LiveGraphs
from graphrag.llm.base import LLMProvider
from graphrag.voice.call_service import CallService
from graphrag.voice.call_slots import CallSlots
from graphrag.voice.dependencies import RecordedAnswers
from graphrag.workers import collect_all_rarely, repeat
from server.auth import Authenticator
from server.change_feed import SessionFeed
from server.downloads import Downloads
from server.http_connections import OpenConnections
from server.limits import EDIT_BURST_BYTES, EDIT_BYTES_A_MINUTE, TRIALS_A_MINUTE, RateLimiter
from server.metrics import Metrics
from server.oidc import IdentityProvider
from server.review_feed import ReviewFeed
from server.turns import RunningTurns
from server.voice.call_list_feed import CallListFeed
from server.webhooks import Webhooks, page_url

if TYPE_CHECKING:
    from server.mcp.open_sessions import OpenSessions

log = logging.getLogger(__name__)

KEPT = 64
BEAT_S, LATE_S = 0.1, 0.25
"""An event loop that is so late is counted: sound stops for everybody on the telephone."""
EXPIRY_S, EXPIRED_AT_ONCE = 60.0, 20
"""So often, and so many of each workspace, proposals are closed that nobody decided in time."""
PURGE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True, eq=False)
class Workspace:
    """One opened workspace. It stays open while something refers to it."""

    services: wiring.Services
    agent: AgentChats
    reviews: ReviewFeed
    worker: Worker
    automations: AutomationService
    sessions: SessionFeed
    agents: WorkspaceAgents
    calls: CallService
    listed_calls: CallListFeed


class ServerState:
    """Lives from a server's start to its end; `provider`, where given, answers in place
    of the settings'.

    Raises, when it is made: SettingsError for keys of sign-in that are none.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        provider: LLMProvider | None = None,
        recorded: RecordedAnswers | None = None,
    ) -> None:
        self.settings = settings
        self._recorded = recorded
        self.authenticator = Authenticator(settings)
        self.identity_provider = IdentityProvider(settings) if settings.oidc_issuer else None
        self.limiter = RateLimiter(settings.rate_limit)
        self.trials = RateLimiter(min(settings.rate_limit, TRIALS_A_MINUTE))
        self.edit_bytes = RateLimiter(EDIT_BYTES_A_MINUTE, burst=EDIT_BURST_BYTES)
        self.metrics = Metrics(wiring.tool_names())
        secret = settings.notify_secret
        before = settings.notify_secret_before
        self.webhooks = Webhooks(
            settings.notify_url,
            secret=secret.get_secret_value() if secret else None,
            secret_before=before.get_secret_value() if before else None,
            page_url=page_url(settings),
        )
        self.turns = RunningTurns()
        self.downloads = Downloads()
        self.connections = OpenConnections(forwarded_allow_ips=settings.forwarded_allow_ips)
        self.mcp: OpenSessions | None = None
        """The sessions of MCP clients."""
        self.beside: list[Callable[[ServerState], AbstractAsyncContextManager[None]]] = []
        """What runs as long as the server, beside it."""
        self._provider = provider
        self.scheduler = Scheduler(
            lambda: self.shared.database.workspaces(AUTOMATIONS),
            self._worker,
            at_once=settings.automations_at_once,
        )
        """Begins and resumes the runs of automations."""
        self.agent_worker = AgentWorker(self._workspaces_of_agents, self._agents)
        self.call_slots = CallSlots(settings.voice_max_calls)
        """For the calls of this process."""
        self._reporting: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()
        self.shared: wiring.Shared
        self.live: LiveGraphs
        """The graphs that people edit here."""
        self._answering: wiring.Model
        self._open: WeakValueDictionary[str, Workspace] = WeakValueDictionary()
        self._kept: OrderedDict[str, Workspace] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def workspace(self, name: str) -> Workspace:
        """Return an opened workspace. Raises: SettingsError where the model's key or
        address is missing.
        """
        found = self._open.get(name)
        if found is None:
            opening = self._opening.setdefault(name, asyncio.Lock())
            async with (
                opening
            ):  # of this workspace alone: what another has to recover is not waited for
                found = self._open.get(name) or await self._opened(name)
                self._open[name] = found
        self._kept[name] = found
        self._kept.move_to_end(name)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)  # who works with it holds it, and finds it in `_open`
        return found

    async def services(self, name: str) -> wiring.Services:
        """Return the services of a workspace."""
        return (await self.workspace(name)).services

    async def calls(self, name: str) -> CallService | None:
        """Return the calls of a workspace; None where nobody has an agent in it, and
        it is not opened.
        """
        if name not in self._open and name not in await self._workspaces_of_agents():
            return None
        return (await self.workspace(name)).calls

    @property
    def model(self) -> LLMProvider:
        """The provider that answers here."""
        return self._answering.provider

    async def _opened(self, name: str) -> Workspace:
        listeners = WorkspaceListeners(
            retrieved=partial(self.metrics.observe, "retrieval"),
            proposed=self.webhooks.proposed,
            decided=partial(self._decided, name),
            agent_tool_ran=self.metrics.agent_tool,
            delivery_tried=partial(self.metrics.count, "deliveries"),
        )
        services = self.shared.services(name, live_graphs=self.live, listeners=listeners)
        await self.live.recover(name)
        calls = calls_of(
            services, slots=self.call_slots, metrics=self.metrics, recorded=self._recorded
        )
        agent = wiring.agent_of(services, self._answering)
        automations = automation_service(
            services, on_changed=self.scheduler.wake, pricing=lambda: self._answering.pricing
        )
        worker = wiring.worker_of(
            services,
            self._answering,
            listeners=RunListeners(
                following=self.turns.following,
                left=partial(self._run_left, name),
                announced=self.metrics.run_left,
                expiring=partial(self.webhooks.expiring, name),
                paused=self.webhooks.paused,
                occurred=lambda _, result: self.metrics.count("occurrences", result),
            ),
        )
        return Workspace(
            services=services,
            agent=agent,
            reviews=ReviewFeed(services.approvals),
            worker=worker,
            automations=automations,
            sessions=SessionFeed(automations.store, services.threads),
            agents=WorkspaceAgents(
                manager=services.agents,
                life=services.life,
                source=services.source,
                calls=calls.endings.tick,
            ),
            calls=calls,
            listed_calls=CallListFeed(calls.records),
        )

    async def _run_left(self, workspace: str, thread: Thread) -> bool:
        return await self.webhooks.run_left(workspace, thread)

    def _decided(self, name: str, approval: Approval) -> None:
        self.metrics.decided(approval)
        self.webhooks.decided(approval)
        if (workspace := self._open.get(name)) is not None:  # callers hear of it at once
            task = asyncio.create_task(workspace.calls.decided(approval))
            self._reporting.add(task)
            task.add_done_callback(self._reporting.discard)
        self.scheduler.wake(name)

    async def _close_agents(self) -> None:
        for workspace in list(self._open.values()):
            await wiring.close_agents(workspace.services)

    async def _workspaces_of_agents(self) -> list[str]:
        return await wiring.workspaces_with_agents(self.settings, self.shared.database)

    async def _agents(self, name: str) -> WorkspaceAgents:
        return (await self.workspace(name)).agents

    async def _worker(self, name: str) -> Worker:
        return (await self.workspace(name)).worker

    async def _expire(self) -> None:
        """Close proposals of the opened workspaces that nobody decided in time, again and again.

        Each time it is also marked that this server runs automations.
        """
        server = new_owner()
        while True:
            if self.settings.automations_at_once:
                await mark_tick(self.shared.database.records(ROOT_WORKSPACE), server, now_ms())
            await asyncio.sleep(EXPIRY_S)
            due = dict(self._open)
            while due:  # in turns: a workspace with many holds no other one up
                for name, workspace in list(due.items()):
                    closed = 0
                    try:
                        closed = len(
                            await workspace.services.approvals.expire_due(limit=EXPIRED_AT_ONCE)
                        )
                    except Exception:
                        log.exception("expiry_failed", extra={"workspace": name})
                    if closed < EXPIRED_AT_ONCE:
                        del due[name]
                    await asyncio.sleep(0)

    async def _purge(self) -> None:
        """Removes deleted graphs for good whose time is over, and ends deletions
        that a kill interrupted.

        Then removes what undoes changes beyond its term, and the records of people who were not
        seen for as long: their names are shown beside these changes.
        """
        for name in await self.shared.database.workspaces(KIND):
            await purge((await self.services(name)).approvals)
        days = self.settings.undo_days
        max_mb = self.settings.undo_mb
        for name in await self.shared.database.workspaces(UNDO):
            records = self.shared.database.records(name)
            await compact_history(records, now=now_ms(), days=days, max_mb=max_mb)
        for name in await self.shared.database.workspaces(MEMBER):
            await forget_unseen(self.shared.database.records(name), now=now_ms(), days=days)

    async def _watch_loop(self) -> None:
        """Count how often the event loop is late."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(BEAT_S)
            late = time.monotonic() - began - BEAT_S
            if late > LATE_S:
                self.metrics.count("event_loop_late")
                log.warning("event_loop_late", extra={"late_s": round(late, 3)})

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_async_context
        self.shared = await enter(
            wiring.open_shared(
                self.settings,
                listeners=ProcessListeners(
                    model_called=self.metrics.model_call,
                    tool_called=self.metrics.tool_call,
                    batch_embedded=self.metrics.batch_embedded,
                ),
            )
        )
        database = self.shared.database
        embed = self.shared.embedding_queue.add
        self.authenticator.keys = ApiKeys(database.records(ROOT_WORKSPACE))
        self.webhooks.open(database.records(ROOT_WORKSPACE))
        self._stack.push_async_callback(self.webhooks.aclose)
        self.metrics.watch_embedding(self.shared.embedding_queue)

        def saved(workspace: str, graph_key: str, node_keys: Sequence[str]) -> None:
            embed(workspace, graph_key, node_keys)
            self.webhooks.graph_changed(workspace, graph_key, len(node_keys))

        self.live = await enter(
            LiveGraphs(database.source, database.records, embed=saved, watch=self.metrics)
        )
        model = wiring.open_model(self.settings, self._provider, embedder=self.shared.embedder)
        self._answering = await enter(model)
        # what cannot work is said at the start
        await self.workspace(self.settings.workspace)
        purging = repeat(self._purge, PURGE_S, log, "purge_failed")
        for work in (self._expire(), self._watch_loop(), purging, collect_all_rarely()):
            self._stack.callback(asyncio.create_task(work).cancel)
        await enter(self.scheduler.ticking())
        self._stack.push_async_callback(self._close_agents)
        await enter(self.agent_worker.working())
        for work in self.beside:
            await enter(work(self))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        self._kept.clear()
