"""Starts a server: makes its parts and connects them, in this place alone.

`ServerSetup` has the parts that need no database; `open_server` opens the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from datasources.types import ROOT_WORKSPACE
from graphrag.app import wiring
from graphrag.app.api_keys import ApiKeys
from graphrag.app.listeners import ProcessListeners
from graphrag.app.models import open_model
from graphrag.automations.automation import KIND as AUTOMATIONS
from graphrag.automations.scheduler import Scheduler, Wakeups
from graphrag.config import Settings
from graphrag.live import LiveGraphs
from graphrag.llm.base import LLMProvider
from graphrag.voice.call_slots import CallSlots
from graphrag.voice.dependencies import RecordedAnswers
from graphrag.workers import collect_all_rarely, repeat
from graphrag.workspace_ticker import WorkspaceTicker
from server.auth import Authenticator, TokenKeys
from server.downloads import Downloads
from server.housekeeping import (
    PURGE_S,
    expire_proposals,
    purge_old_records,
    watch_event_loop,
)
from server.http_connections import OpenConnections
from server.limits import RateLimits
from server.mcp.session_manager import running_sessions
from server.metrics import Metrics
from server.oidc import IdentityProvider
from server.open_workspaces import OpenWorkspaces, WorkspaceParts
from server.server_state import (
    Activity,
    Authentication,
    Backend,
    Monitoring,
    ServerState,
)
from server.turns import RunningTurns
from server.webhooks import Webhooks, WebhookTarget
from server.write_probe import WriteProbe

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetup:
    """The parts of a server that need no database.

    `provider`, if given, answers in place of the settings' model, and stays open; `recorded`
    replaces the results of tools in calls.
    """

    settings: Settings
    token_keys: TokenKeys
    identity_provider: IdentityProvider | None
    webhook_target: WebhookTarget
    metrics: Metrics
    provider: LLMProvider | None
    recorded: RecordedAnswers | None

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        provider: LLMProvider | None = None,
        recorded: RecordedAnswers | None = None,
    ) -> ServerSetup:
        """Raises: SettingsError for settings of sign-in or webhooks that cannot work."""
        return cls(
            settings=settings,
            token_keys=TokenKeys.of(settings),
            identity_provider=IdentityProvider(settings) if settings.oidc.issuer else None,
            webhook_target=WebhookTarget.of(settings),
            metrics=Metrics(wiring.tool_names()),
            provider=provider,
            recorded=recorded,
        )


@asynccontextmanager
async def open_server(setup: ServerSetup) -> AsyncGenerator[ServerState]:
    """Opens the database, the model and the settings' workspace, and starts the background work.

    Raises: SettingsError, and the errors of opening the database.
    """
    settings = setup.settings
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(_shared(setup))
        root = shared.database.records(ROOT_WORKSPACE)
        webhooks = Webhooks(setup.webhook_target, root)
        webhooks.start()
        stack.push_async_callback(webhooks.aclose)
        live = await stack.enter_async_context(_live_graphs(shared, webhooks, setup.metrics))
        model = await stack.enter_async_context(
            open_model(settings, setup.provider, embedder=shared.embedder)
        )
        wakeups = Wakeups()
        turns = RunningTurns()
        call_slots = CallSlots(settings.voice.max_calls)
        workspaces = OpenWorkspaces(
            WorkspaceParts(
                shared=shared,
                live=live,
                model=model,
                metrics=setup.metrics,
                webhooks=webhooks,
                wakeups=wakeups,
                turns=turns,
                call_slots=call_slots,
                recorded=setup.recorded,
            )
        )
        await workspaces.get(settings.workspace)  # a setting that cannot work fails the start
        scheduler = Scheduler(
            partial(shared.database.workspaces, AUTOMATIONS),
            workspaces.worker,
            at_once=settings.automations_at_once,
            wakeups=wakeups,
        )
        await _begin_work(stack, setup, shared, workspaces, scheduler)
        mcp_sessions = await stack.enter_async_context(running_sessions(settings, workspaces))
        api_keys = ApiKeys(root)
        yield ServerState(
            settings=settings,
            authentication=Authentication(
                authenticator=Authenticator(settings, setup.token_keys, api_keys),
                identity_provider=setup.identity_provider,
                api_keys=api_keys,
            ),
            limits=RateLimits.of(settings),
            activity=Activity(
                connections=OpenConnections(forwarded_allow_ips=settings.forwarded_allow_ips),
                turns=turns,
                downloads=Downloads(),
                call_slots=call_slots,
                mcp_sessions=mcp_sessions,
            ),
            monitoring=Monitoring(
                metrics=setup.metrics, webhooks=webhooks, write_probe=WriteProbe()
            ),
            backend=Backend(
                shared=shared,
                live=live,
                model=model.provider,
                workspaces=workspaces,
                scheduler=scheduler,
            ),
        )


@asynccontextmanager
async def _shared(setup: ServerSetup) -> AsyncGenerator[wiring.Shared]:
    metrics = setup.metrics
    listeners = ProcessListeners(
        model_called=metrics.model_call,
        tool_called=metrics.tool_call,
        batch_embedded=metrics.batch_embedded,
    )
    async with wiring.open_shared(setup.settings, listeners=listeners) as shared:
        metrics.watch_embedding(shared.embedding_queue)
        yield shared


@asynccontextmanager
async def _live_graphs(
    shared: wiring.Shared, webhooks: Webhooks, metrics: Metrics
) -> AsyncGenerator[LiveGraphs]:
    def saved(workspace: str, graph_key: str, node_keys: Sequence[str]) -> None:
        shared.embedding_queue.add(workspace, graph_key, node_keys)
        webhooks.graph_changed(workspace, graph_key, len(node_keys))

    database = shared.database
    async with LiveGraphs(database.source, database.records, embed=saved, watch=metrics) as live:
        yield live


async def _begin_work(
    stack: AsyncExitStack,
    setup: ServerSetup,
    shared: wiring.Shared,
    workspaces: OpenWorkspaces,
    scheduler: Scheduler,
) -> None:
    """Starts what runs in the background; the stack ends it."""
    purging = repeat(partial(purge_old_records, shared, workspaces), PURGE_S, log, "purge_failed")
    for work in (
        expire_proposals(shared, workspaces),
        watch_event_loop(setup.metrics),
        purging,
        collect_all_rarely(),
    ):
        stack.callback(asyncio.create_task(work).cancel)
    await stack.enter_async_context(scheduler.ticking())
    stack.push_async_callback(workspaces.aclose)
    agents = WorkspaceTicker(workspaces.with_agents, workspaces.agents, noun="agent")
    await stack.enter_async_context(agents.working())
    follows = WorkspaceTicker(workspaces.with_connections, workspaces.following, noun="connection")
    await stack.enter_async_context(follows.working())
