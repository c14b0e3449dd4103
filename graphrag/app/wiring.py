"""Constructs the services of workspaces from the settings."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from datasources.base import Database, MutableGraphDataSource, RecordStore
from datasources.types import ROOT_WORKSPACE
from graphrag.agent.requested_calls import CallLog
from graphrag.agent.thread_store import Threads
from graphrag.agent.tool_calls import CallPlace
from graphrag.agent.turn_trace import Traces
from graphrag.agents.agent_store import KIND as AGENT_KIND
from graphrag.agents.deliveries import KIND as DELIVERY_KIND
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.app.agent_services import agents_of, load_all_builders, load_secrets
from graphrag.app.databases import open_database, open_graphs_only
from graphrag.app.listeners import ProcessListeners, WorkspaceListeners
from graphrag.app.models import check_embedding_price
from graphrag.approvals import Approvals, Person, Policy
from graphrag.approvals.codemods import Codemods
from graphrag.commands import GraphHistory
from graphrag.config import Settings
from graphrag.embedding import make_embedder
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.packaged import PACKAGED
from graphrag.embedding.queue import EmbeddingQueue, WorkspaceQueue
from graphrag.embedding.workspace_embedder import QueryEmbedder, WorkspaceEmbedder
from graphrag.i18n import Language
from graphrag.live import LiveGraphs, LiveSource, SavedSource
from graphrag.llm.metered import MeteredEmbedder
from graphrag.llm.registry import embedding_pricing
from graphrag.llm.usage_meter import Payer, UsageLimits, UsageMeter
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.workspace_search import WorkspaceSearch
from graphrag.roles import ClientInfo
from graphrag.sessions.periods import Calendar
from graphrag.voice.call_records import KIND as CALL_KIND
from tools.base import Role, ToolContext
from tools.http.secret_values import Secrets
from tools.read_tools import READ_TOOLS
from tools.session_tools import SESSION_TOOLS, Renew, refresh_embeddings
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

LOCAL_USER = "local"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of one workspace, for commands and requests."""

    settings: Settings
    database: Database
    source: MutableGraphDataSource
    embedder: WorkspaceEmbedder | None
    embedding_queue: WorkspaceQueue
    retriever: Retriever
    threads: Threads
    approvals: Approvals
    history: GraphHistory
    traces: Traces
    meter: UsageMeter
    box: ToolBox
    call_log: CallLog
    agents: AgentManager
    # Continues the conversations with agents.
    life: AgentLife
    # Returns the services of another workspace of the same database.
    of: Callable[[str], Services]

    def local_person(self, role: Role = "admin") -> Person:
        """Returns the person at this machine's command line, in the given role."""
        return Person(LOCAL_USER, role, self.settings.workspace, ClientInfo(channel="cli"))

    def call_place(
        self, graph_key: str, person: Person, language: Language, **facts: Any
    ) -> CallPlace:
        """Returns the context of a tool call that is made outside of a conversation."""
        context = ToolContext(
            source=self.source,
            graph_key=graph_key,
            role=person.role,
            language=language,
            search=self.retriever.search,
            search_all=self.search_all,
            history=self.history,
        )
        return CallPlace(context=context, person=person, **facts)

    @property
    def search_all(self) -> WorkspaceSearch:
        return WorkspaceSearch(self.retriever)

    @property
    def codemods(self) -> Codemods:
        return Codemods(self.approvals)

    @property
    def context_options(self) -> ContextOptions:
        s = self.settings
        return ContextOptions(
            truncate_process=s.truncate_process,
            truncate_data=s.truncate_data,
            budget_tokens=s.budget_tokens,
            language=s.language,
        )


NO_LISTENERS = WorkspaceListeners()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceEmbedders:
    """Creates the embedders of workspaces. Each uses the model of its workspace's vectors and is
    metered.
    """

    settings: Settings
    database: Database
    embedder: EmbeddingProvider | None
    meter: UsageMeter

    def of(self, workspace: str) -> WorkspaceEmbedder | None:
        """Returns the embedder of a workspace; None without one in the settings."""
        embedder = self.embedder
        if embedder is None:
            return None
        if embedder.model not in PACKAGED:  # packaged ones are free, and used for every question
            price = embedding_pricing(self.settings, embedder.model)
            payer = Payer(workspace=workspace)
            embedder = MeteredEmbedder(embedder, self.meter, price, provider="openai", payer=payer)
        return WorkspaceEmbedder(
            embedder, self.database.source(workspace), self.database.records(workspace)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The services that all workspaces of a process share."""

    settings: Settings
    database: Database
    embedder: EmbeddingProvider | None
    embedding_queue: EmbeddingQueue
    meter: UsageMeter
    # Secrets of agents in the configured workspace; masked in texts of all workspaces.
    secrets: Secrets
    call_log: CallLog
    embedders: WorkspaceEmbedders

    def services(
        self,
        workspace: str,
        *,
        live_graphs: LiveGraphs | None = None,
        listeners: WorkspaceListeners = NO_LISTENERS,
    ) -> Services:
        """Returns the services of a workspace. Keep them, because they have caches.

        With `live_graphs` of the same database, reads include unsaved edits, and editors see every
        stored change.
        """
        settings = self.settings.model_copy(update={"workspace": workspace})
        stored = self.database.source(workspace)
        source = stored if live_graphs is None else LiveSource(stored, live_graphs)
        saved = stored if live_graphs is None else SavedSource(stored, live_graphs)
        records = self.database.records(workspace)
        embedder = self.embedders.of(workspace)
        queue = self.embedding_queue.of(workspace)
        threads = Threads(records)
        agents, life = self._agents(settings, source, records, threads, listeners)
        return Services(
            settings=settings,
            database=self.database,
            source=source,
            embedder=embedder,
            embedding_queue=queue,
            retriever=_retriever(settings, source, embedder, listeners),
            threads=threads,
            approvals=_approvals(settings, saved, records, queue, listeners),
            history=GraphHistory(records=records, calendar=_calendar(settings)),
            traces=Traces(records, days=settings.trace_days),
            meter=self.meter,
            box=_tools(queue.renew),
            call_log=self.call_log,
            agents=agents,
            life=life,
            of=partial(self.services, live_graphs=live_graphs),
        )

    def _agents(
        self,
        settings: Settings,
        source: MutableGraphDataSource,
        records: RecordStore,
        threads: Threads,
        listeners: WorkspaceListeners,
    ) -> tuple[AgentManager, AgentLife]:
        is_first = settings.workspace == self.settings.workspace
        # Authors of documents in other workspaces choose the hosts of requests, which must not
        # receive the secrets of this workspace.
        secrets = self.secrets if is_first else self.secrets.only_masking()
        return agents_of(
            settings,
            source,
            records,
            threads,
            secrets=secrets,
            listeners=listeners,
            keeps_lists=is_first,
        )


def _calendar(settings: Settings) -> Calendar:
    return Calendar(
        timezone=settings.timezone,
        day_start_hour=settings.day_start_hour,
        first_day=settings.first_day,
    )


def _retriever(
    settings: Settings,
    source: MutableGraphDataSource,
    embedder: WorkspaceEmbedder | None,
    listeners: WorkspaceListeners,
) -> Retriever:
    return Retriever(
        source,
        None if embedder is None else QueryEmbedder(embedder),
        options=RetrievalOptions(
            mode=settings.mode,
            max_nodes=settings.max_nodes,
            max_depth=settings.max_depth,
            seeds=settings.seeds,
            min_cosine=settings.min_cosine,
        ),
        cache_ttl_s=settings.cache_ttl_s,
        on_retrieved=listeners.retrieved,
    )


def _approvals(
    settings: Settings,
    saved: MutableGraphDataSource,
    records: RecordStore,
    queue: WorkspaceQueue,
    listeners: WorkspaceListeners,
) -> Approvals:
    return Approvals(
        saved,
        records,
        policy=Policy.of(settings.deciders),
        require_validation=frozenset(settings.require_validation),
        on_applied=queue.applied,
        on_decided=listeners.decided,
        on_proposed=listeners.proposed,
    )


def _tools(renew: Renew) -> ToolBox:
    return ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS, refresh_embeddings(renew)))


def tools_without_renewal() -> ToolBox:
    """Returns the tools that every workspace has; embeddings stay as they are."""

    async def renew_nothing(_: str) -> Mapping[str, Any]:
        return {}

    return _tools(renew_nothing)


def tool_names() -> frozenset[str]:
    """Returns the names of the tools that every workspace has."""
    return tools_without_renewal().names


@asynccontextmanager
async def open_shared(
    settings: Settings,
    *,
    listeners: ProcessListeners | None = None,
    stores_records: bool = True,
) -> AsyncGenerator[Shared]:
    """Opens the database and the embedder, for every workspace, and closes them at the end.

    With `stores_records=False` records are kept in memory until then.

    Raises: InvalidDatabaseUrl; SettingsError for secrets, or for a cost limit with an embedder of
    unknown price; the errors of opening the database.
    """
    secrets = load_secrets(settings)
    load_all_builders(settings)
    embedder = make_embedder(settings)
    listeners = listeners or ProcessListeners()
    open_one = open_database if stores_records else open_graphs_only
    try:
        check_embedding_price(settings, embedder)
        async with (
            open_one(settings.db, settings.workspace) as database,
            UsageMeter(
                _usage_limits(settings),
                database.records(ROOT_WORKSPACE),
                on_call=listeners.model_called,
            ) as meter,
        ):
            embedders = WorkspaceEmbedders(
                settings=settings, database=database, embedder=embedder, meter=meter
            )
            async with EmbeddingQueue(
                database.source,
                embedder,
                on_batch=listeners.batch_embedded,
                embedder_of=embedders.of,
            ) as queue:
                yield Shared(
                    settings=settings,
                    database=database,
                    embedder=embedder,
                    embedding_queue=queue,
                    meter=meter,
                    secrets=secrets,
                    call_log=CallLog(listeners.tool_called),
                    embedders=embedders,
                )
    finally:
        if embedder is not None:
            await embedder.aclose()


def _usage_limits(settings: Settings) -> UsageLimits:
    limits = settings.usage_limits
    return UsageLimits(
        call_tokens=limits.call_tokens,
        total_tokens=limits.total_tokens,
        total_cost_usd=limits.total_cost,
        workspace_tokens=limits.workspace_tokens,
        workspace_cost_usd=limits.workspace_cost,
        person_tokens=limits.person_tokens,
        person_cost_usd=limits.person_cost,
    )


async def close_agents(services: Services) -> None:
    """Stops the work of a workspace's agents in this process; another process, or the next start,
    continues it.
    """
    await services.life.deliveries.close()
    await services.agents.aclose()


async def workspaces_with_agents(settings: Settings, database: Database) -> list[str]:
    """Returns the workspaces for which a worker ticks.

    The workspace of configured lists of agents may have none yet, and one without agents may have
    deliveries and calls left.
    """
    kinds = (AGENT_KIND, DELIVERY_KIND, CALL_KIND)
    stored = [name for kind in kinds for name in await database.workspaces(kind)]
    configured = [settings.workspace] if settings.agent_sources else []
    return sorted({*stored, *configured})
