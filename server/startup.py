"""Starts a server: makes its parts and connects them, in this place alone.

`ServerSetup` has the parts that need no database; `open_server` opens the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from datasources.notices import NoticeRouter
from datasources.types import ROOT_WORKSPACE
from graphrag.app import wiring
from graphrag.app.api_keys import ApiKeys
from graphrag.app.automation_trial import TrialPlaces
from graphrag.app.listeners import ProcessListeners
from graphrag.app.models import open_model
from graphrag.app.service_settings import ServiceSettings, stored_before_start, with_stored
from graphrag.app.today import TodayPlace
from graphrag.automations.automation import KIND as AUTOMATIONS
from graphrag.automations.scheduler import Scheduler, Wakeups, wake_at_notices
from graphrag.config import Settings
from graphrag.connections.stored_connection import CONNECTION_KIND
from graphrag.live import LiveGraphs
from graphrag.llm.base import LLMProvider
from graphrag.roles import Person
from graphrag.voice.call_slots import CallSlots
from graphrag.voice.dependencies import RecordedAnswers
from graphrag.workers import collect_all_rarely, end_tasks, repeat
from graphrag.workspace_ticker import WorkspaceTicker
from server.auth import Authenticator, TokenKeys
from server.digest import LOOK_S as DIGEST_LOOK_S
from server.digest import Digests
from server.downloads import Downloads
from server.housekeeping import (
    PURGE_S,
    expire_proposals,
    purge_old_records,
    watch_event_loop,
)
from server.http_connections import OpenConnections
from server.limits import RateLimits
from server.mail import Mailer, MailTarget
from server.mcp.session_manager import OpenSessions, running_sessions
from server.metrics import Metrics
from server.oidc import IdentityProvider
from server.open_workspaces import OpenWorkspaces, WorkspaceParts
from server.server_backup import ServerBackup
from server.server_state import (
    Activity,
    Authentication,
    Backend,
    Monitoring,
    ServerState,
)
from server.turns import RunningTurns
from server.webhook_target import WebhookTarget
from server.webhooks import Webhooks
from server.write_probe import WriteProbe

log = logging.getLogger(__name__)

SETTINGS_S = 20.0  # interval in which settings that another server stored are read
LISTEN_AGAIN_S = 5.0  # after a failure of listening that was not expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetup:
    """The parts of a server that need no database.

    `provider`, if given, answers in place of the settings' model, and stays open; `recorded`
    replaces the results of tools in calls. `stores_records`: False for a trial, whose records end
    with it.
    """

    settings: Settings
    token_keys: TokenKeys
    identity_provider: IdentityProvider | None
    webhook_target: WebhookTarget
    mail_target: MailTarget | None
    metrics: Metrics
    provider: LLMProvider | None
    recorded: RecordedAnswers | None
    stores_records: bool

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        provider: LLMProvider | None = None,
        recorded: RecordedAnswers | None = None,
        stores_records: bool = True,
    ) -> ServerSetup:
        """Raises: SettingsError for settings of sign-in, webhooks or mail that cannot work."""
        return cls(
            settings=settings,
            token_keys=TokenKeys.of(settings),
            identity_provider=IdentityProvider(settings) if settings.oidc.issuer else None,
            webhook_target=WebhookTarget.of(settings),
            mail_target=MailTarget.of(settings),
            metrics=Metrics(wiring.tool_names()),
            provider=provider,
            recorded=recorded,
            stores_records=stores_records,
        )


@asynccontextmanager
async def open_server(setup: ServerSetup) -> AsyncGenerator[ServerState]:
    """Opens the database, the model and the settings' workspace, and starts the background work.

    Raises: SettingsError, and the errors of opening the database.
    """
    stored = await stored_before_start(setup.settings)
    environment = setup.settings
    settings = with_stored(environment, stored)
    setup = replace(setup, settings=settings)
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(_shared(setup))
        await stack.enter_async_context(_listening(shared.database.notices, setup.metrics))
        webhooks, mailer = await stack.enter_async_context(_messengers(setup, shared))
        live = await stack.enter_async_context(_live_graphs(shared, webhooks, setup.metrics))
        opening = open_model(environment, setup.provider, embedder=shared.embedder)
        model = await stack.enter_async_context(opening)
        records = shared.database.records(settings.workspace)
        service_settings = ServiceSettings(environment, records, model, started_with=stored)
        await service_settings.refresh()
        backup = ServerBackup(settings)
        stack.push_async_callback(backup.aclose)
        parts = WorkspaceParts(
            shared=shared,
            live=live,
            model=model,
            metrics=setup.metrics,
            webhooks=webhooks,
            wakeups=Wakeups(),
            turns=RunningTurns(),
            call_slots=CallSlots(settings.voice.max_calls),
            recorded=setup.recorded,
        )
        workspaces = OpenWorkspaces(parts)
        await workspaces.get(settings.workspace)  # a setting that cannot work fails the start
        scheduler = Scheduler(
            partial(shared.database.workspaces, AUTOMATIONS),
            workspaces.worker,
            at_once=settings.automations_at_once,
            wakeups=parts.wakeups,
        )
        setup.metrics.watch_automations(lambda: scheduler.late)
        following = repeat(service_settings.refresh, SETTINGS_S, log, "settings_not_read")
        _begin(stack, following)
        await _begin_work(stack, setup, shared, workspaces, scheduler)
        api_keys = ApiKeys(shared.database.records(ROOT_WORKSPACE))
        digests = _digests(settings, parts, mailer, workspaces)
        _begin(
            stack,
            repeat(digests.look, DIGEST_LOOK_S, log, "digest_failed"),
            wake_at_notices(shared.database.notices, parts.wakeups),
            api_keys.follow(),
        )
        mcp_sessions = await stack.enter_async_context(running_sessions(settings, workspaces))
        backend = Backend(
            shared=shared,
            live=live,
            model=model.provider,
            workspaces=workspaces,
            scheduler=scheduler,
            service_settings=service_settings,
            backup=backup,
        )
        yield _state(setup, parts, backend, api_keys, mcp_sessions)


def _state(
    setup: ServerSetup,
    parts: WorkspaceParts,
    backend: Backend,
    api_keys: ApiKeys,
    mcp_sessions: OpenSessions,
) -> ServerState:
    settings = setup.settings
    return ServerState(
        settings=settings,
        authentication=Authentication(
            authenticator=Authenticator(settings, setup.token_keys, api_keys),
            identity_provider=setup.identity_provider,
            api_keys=api_keys,
        ),
        limits=RateLimits.of(settings),
        activity=Activity(
            connections=OpenConnections(forwarded_allow_ips=settings.forwarded_allow_ips),
            turns=parts.turns,
            downloads=Downloads(),
            call_slots=parts.call_slots,
            mcp_sessions=mcp_sessions,
            trials=TrialPlaces(),
        ),
        monitoring=Monitoring(
            metrics=setup.metrics, webhooks=parts.webhooks, write_probe=WriteProbe()
        ),
        backend=backend,
    )


def _begin(stack: AsyncExitStack, *works: Coroutine[Any, Any, None]) -> None:
    """Runs each as a task until the stack ends."""
    for work in works:
        stack.callback(asyncio.create_task(work).cancel)


def _digests(
    settings: Settings, parts: WorkspaceParts, mailer: Mailer, workspaces: OpenWorkspaces
) -> Digests:
    return Digests(
        settings,
        parts.webhooks,
        mailer,
        workspaces=partial(parts.shared.database.workspaces, AUTOMATIONS),
        place=partial(_today_place, workspaces),
    )


@asynccontextmanager
async def _messengers(
    setup: ServerSetup, shared: wiring.Shared
) -> AsyncGenerator[tuple[Webhooks, Mailer]]:
    """Sends webhooks and mail during the block."""
    root = shared.database.records(ROOT_WORKSPACE)
    async with AsyncExitStack() as stack:
        webhooks = Webhooks(setup.webhook_target, root)
        webhooks.start()
        stack.push_async_callback(webhooks.aclose)
        mailer = Mailer(setup.mail_target, root)
        mailer.start()
        stack.push_async_callback(mailer.aclose)
        yield webhooks, mailer


async def _today_place(workspaces: OpenWorkspaces, person: Person) -> TodayPlace:
    workspace = await workspaces.get(person.workspace)
    store = workspace.automations.store
    return TodayPlace(services=workspace.services, automations=store, person=person)


@asynccontextmanager
async def _shared(setup: ServerSetup) -> AsyncGenerator[wiring.Shared]:
    metrics = setup.metrics
    listeners = ProcessListeners(
        model_called=metrics.model_call,
        tool_called=metrics.tool_call,
        batch_embedded=metrics.batch_embedded,
    )
    opening = wiring.open_shared(
        setup.settings, listeners=listeners, stores_records=setup.stores_records
    )
    async with opening as shared:
        metrics.watch_embedding(shared.embedding_queue)
        metrics.watch_database(shared.database)
        yield shared


@asynccontextmanager
async def _live_graphs(
    shared: wiring.Shared, webhooks: Webhooks, metrics: Metrics
) -> AsyncGenerator[LiveGraphs]:
    def saved(workspace: str, graph_key: str, node_keys: Sequence[str]) -> None:
        shared.embedding_queue.add(workspace, graph_key, node_keys)
        webhooks.graph_changed(workspace, graph_key, len(node_keys))

    database = shared.database
    async with LiveGraphs(
        database.source, database.records, embed=saved, watch=metrics, notices=database.notices
    ) as live:
        yield live


@asynccontextmanager
async def _listening(notices: NoticeRouter, metrics: Metrics) -> AsyncGenerator[None]:
    """Receives the notices of the database during the block, if it tells changes."""
    listening = None
    if notices.has_source:
        work = repeat(partial(notices.listen, metrics), LISTEN_AGAIN_S, log, "listening_failed")
        listening = asyncio.create_task(work)
    try:
        yield
    finally:
        await end_tasks(listening)


async def _begin_work(
    stack: AsyncExitStack,
    setup: ServerSetup,
    shared: wiring.Shared,
    workspaces: OpenWorkspaces,
    scheduler: Scheduler,
) -> None:
    """Starts what runs in the background; the stack ends it."""
    purging = repeat(partial(purge_old_records, shared, workspaces), PURGE_S, log, "purge_failed")
    _begin(
        stack,
        expire_proposals(shared, workspaces),
        watch_event_loop(setup.metrics),
        purging,
        collect_all_rarely(),
    )
    await stack.enter_async_context(scheduler.ticking())
    stack.push_async_callback(workspaces.aclose)
    agents = WorkspaceTicker(workspaces.with_agents, workspaces.agents, noun="agent")
    await stack.enter_async_context(agents.working())
    follows = WorkspaceTicker(
        workspaces.with_connections,
        workspaces.following,
        noun="connection",
        notices=shared.database.notices,
        kinds=(CONNECTION_KIND,),
    )
    await stack.enter_async_context(follows.working())
