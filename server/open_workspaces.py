"""The workspaces that a server has opened, each with its services.

A workspace is opened when a person who may work in it first asks. Idle workspaces stay open up to
the KEPT most recently used ones; one in use stays open as long as something refers to it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, final
from weakref import WeakValueDictionary

from graphrag.agent.loop import Agent
from graphrag.agents.agent_worker import WorkspaceAgents
from graphrag.app import model_services, wiring
from graphrag.app.automation_services import automation_service
from graphrag.app.automation_trial import AutomationTrial, try_automation
from graphrag.app.connection_services import connections_of, following_of, pushes_of, watch_of
from graphrag.app.listeners import WorkspaceListeners
from graphrag.app.models import Model
from graphrag.app.voice_services import calls_of
from graphrag.approvals import Approval
from graphrag.automations.run_listeners import RunListeners
from graphrag.automations.scheduler import Wakeups
from graphrag.automations.service import AutomationService
from graphrag.automations.worker import Worker
from graphrag.connections import Connections, Following, RunningSyncs
from graphrag.connections.pushes import Pushes
from graphrag.connections.stored_connection import CONNECTION_KIND
from graphrag.live import LiveGraphs
from graphrag.roles import Person
from graphrag.voice.call_service import CallService
from graphrag.voice.call_slots import CallSlots
from graphrag.voice.dependencies import RecordedAnswers
from server.change_feed import SessionFeed
from server.metrics import Metrics
from server.review_feed import ReviewFeed
from server.turns import RunningTurns
from server.voice.call_list_feed import CallListFeed
from server.webhooks import Webhooks

KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True, eq=False)
class Workspace:
    """One opened workspace. It stays open while something refers to it."""

    services: wiring.Services
    agent: Agent
    reviews: ReviewFeed
    worker: Worker
    automations: AutomationService
    # Tries an automation; see `try_automation`.
    try_automation: Callable[[str, Person], Coroutine[Any, Any, AutomationTrial]]
    sessions: SessionFeed
    agents: WorkspaceAgents
    calls: CallService
    listed_calls: CallListFeed
    connections: Connections
    pushes: Pushes
    syncs: RunningSyncs
    following: Following


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedWorkspace:
    """Follows the connections of a workspace, which stays open while this is referred to."""

    workspace: Workspace

    async def tick(self) -> None:
        await self.workspace.following.tick()

    async def close(self) -> None:
        await self.workspace.following.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceParts:
    """The parts of a server that every workspace works with."""

    shared: wiring.Shared
    live: LiveGraphs
    model: Model
    metrics: Metrics
    webhooks: Webhooks
    wakeups: Wakeups
    turns: RunningTurns
    call_slots: CallSlots
    recorded: RecordedAnswers | None = None


@final
class OpenWorkspaces:
    """Opens workspaces and keeps them open."""

    def __init__(self, parts: WorkspaceParts) -> None:
        self._parts = parts
        self._open: WeakValueDictionary[str, Workspace] = WeakValueDictionary()
        self._kept: OrderedDict[str, Workspace] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._reporting: set[asyncio.Task[None]] = set()

    async def get(self, name: str) -> Workspace:
        """Returns a workspace, opened if need be.

        Raises: SettingsError where the model's key or address is missing.
        """
        workspace = self._open.get(name)
        if workspace is None:
            # A lock for each workspace: the recovery of one does not delay another.
            async with self._opening.setdefault(name, asyncio.Lock()):
                workspace = self._open.get(name) or await self._opened(name)
                self._open[name] = workspace
        self._kept[name] = workspace
        self._kept.move_to_end(name)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return workspace

    def all_open(self) -> dict[str, Workspace]:
        """Returns the workspaces that are open now, by name."""
        return dict(self._open)

    async def with_agents(self) -> list[str]:
        """Returns the names of the workspaces that have agents, deliveries or calls."""
        shared = self._parts.shared
        return await wiring.workspaces_with_agents(shared.settings, shared.database)

    async def calls(self, name: str) -> CallService | None:
        """Returns the calls of a workspace.

        None if it has no agents; then it is not opened: its name may be a stranger's invention.
        """
        if name not in self._open and name not in await self.with_agents():
            return None
        return (await self.get(name)).calls

    async def agents(self, name: str) -> WorkspaceAgents:
        return (await self.get(name)).agents

    async def worker(self, name: str) -> Worker:
        return (await self.get(name)).worker

    async def with_connections(self) -> list[str]:
        """Returns the names of the workspaces that have connections, or that follow removed ones
        still.
        """
        stored = await self._parts.shared.database.workspaces(CONNECTION_KIND)
        following = [name for name, each in self._open.items() if each.following.is_busy]
        return sorted({*stored, *following})

    async def following(self, name: str) -> FollowedWorkspace:
        return FollowedWorkspace(workspace=await self.get(name))

    async def aclose(self) -> None:
        """Ends the work of agents here; another process, or the next start, continues it."""
        for workspace in list(self._open.values()):
            await workspace.syncs.close()
            await wiring.close_agents(workspace.services)
        self._kept.clear()

    async def _opened(self, name: str) -> Workspace:
        parts = self._parts
        services = parts.shared.services(
            name, live_graphs=parts.live, listeners=self._listeners(name)
        )
        await parts.live.recover(name)
        calls = calls_of(
            services,
            turns=model_services.chat_turns(services, parts.model),
            slots=parts.call_slots,
            metrics=parts.metrics,
            recorded=parts.recorded,
        )
        connections = connections_of(services)
        pushes = pushes_of(services, connections)
        syncs = RunningSyncs(connections, pushes, watch_of(services, connections))
        automations = automation_service(
            services,
            on_changed=parts.wakeups.wake,
            pricing=lambda provider, model: parts.model.of(provider, model)[1],
        )
        return Workspace(
            services=services,
            agent=model_services.agent_of(services, parts.model),
            reviews=ReviewFeed(services.approvals),
            worker=model_services.worker_of(
                services,
                parts.model,
                listeners=self._run_listeners(name),
                spread_s=services.settings.automation_spread_s,
            ),
            automations=automations,
            try_automation=partial(try_automation, services, parts.model, automations),
            sessions=SessionFeed(automations.store, services.threads),
            agents=WorkspaceAgents(
                manager=services.agents,
                life=services.life,
                source=services.source,
                calls=calls.endings.tick,
            ),
            calls=calls,
            listed_calls=CallListFeed(calls.records),
            connections=connections,
            pushes=pushes,
            syncs=syncs,
            following=following_of(services, connections, syncs),
        )

    def _listeners(self, name: str) -> WorkspaceListeners:
        metrics = self._parts.metrics
        return WorkspaceListeners(
            retrieved=partial(metrics.observe, "retrieval"),
            proposed=self._parts.webhooks.proposed,
            decided=partial(self._decided, name),
            agent_tool_ran=metrics.agent_tool,
            delivery_tried=partial(metrics.count, "deliveries"),
            list_synced=partial(metrics.count, "agent_lists"),
        )

    def _run_listeners(self, name: str) -> RunListeners:
        metrics = self._parts.metrics
        webhooks = self._parts.webhooks
        return RunListeners(
            following=self._parts.turns.following,
            left=partial(webhooks.run_left, name),
            announced=metrics.run_left,
            expiring=partial(webhooks.expiring, name),
            paused=webhooks.paused,
            late=webhooks.late,
            late_noted=lambda _: metrics.count("occurrences_late"),
            occurred=lambda _, result: metrics.count("occurrences", result),
        )

    def _decided(self, name: str, approval: Approval) -> None:
        self._parts.metrics.decided(approval)
        self._parts.webhooks.decided(approval)
        if (workspace := self._open.get(name)) is not None:  # callers on the telephone hear of it
            task = asyncio.create_task(workspace.calls.decided(approval))
            self._reporting.add(task)
            task.add_done_callback(self._reporting.discard)
        self._parts.wakeups.wake(name)
