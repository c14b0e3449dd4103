"""Constructs the services from the settings."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from datasources.base import Database, MutableGraphDataSource
from datasources.types import ROOT_WORKSPACE
from graphrag.agent.assistant import GraphAssistant
from graphrag.agent.loop import Agent
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.requested_calls import CallLog
from graphrag.agent.session_agent import RUN_LIMITS, SessionAgent
from graphrag.agent.thread_store import Thread, Threads
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.agent.turn_lease import TurnLeases, pause_run_of
from graphrag.agent.turn_steps import AgentLimits, TurnSteps
from graphrag.agent.turn_trace import Traces
from graphrag.agents.agent_store import KIND as AGENT_KIND
from graphrag.agents.chats import ChatAssistants
from graphrag.agents.deliveries import KIND as DELIVERY_KIND
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.app.agent_services import agents_of, load_all_builders, load_secrets
from graphrag.app.databases import open_database
from graphrag.app.listeners import ProcessListeners, WorkspaceListeners
from graphrag.app.models import Model, check_embedding_price, open_model
from graphrag.approvals import Approvals, Person, Policy
from graphrag.approvals.codemods import Codemods
from graphrag.automations.automation_store import Automations
from graphrag.automations.run_listeners import RunListeners
from graphrag.automations.runner import SLOT, Runner
from graphrag.automations.worker import Worker
from graphrag.commands import BlockChecker, BlockReader, GraphHistory
from graphrag.config import Settings
from graphrag.embedding import make_embedder
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.packaged import PACKAGED
from graphrag.embedding.queue import EmbeddingQueue, WorkspaceQueue
from graphrag.embedding.workspace_embedder import QueryEmbedder, WorkspaceEmbedder
from graphrag.i18n import Language
from graphrag.leases import now_ms
from graphrag.live import LiveGraphs, LiveSource, SavedSource
from graphrag.llm.base import LLMProvider
from graphrag.llm.metered import MeteredEmbedder
from graphrag.llm.registry import embedding_pricing
from graphrag.llm.usage_meter import Payer, UsageLimits, UsageMeter
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.workspace_search import WorkspaceSearch
from graphrag.roles import ClientInfo
from graphrag.sessions.machine import SessionLimits
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
        calendar = Calendar(
            timezone=settings.timezone,
            day_start_hour=settings.day_start_hour,
            first_day=settings.first_day,
        )
        stored = self.database.source(workspace)
        records = self.database.records(workspace)
        source = stored if live_graphs is None else LiveSource(stored, live_graphs)
        saved = stored if live_graphs is None else SavedSource(stored, live_graphs)
        embedder = self.embedders.of(workspace)
        retriever = Retriever(
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
        queue = self.embedding_queue.of(workspace)
        threads = Threads(records)
        is_first = workspace == self.settings.workspace
        # Authors of documents in other workspaces choose the hosts of requests, which must not
        # receive the secrets of this workspace.
        secrets = self.secrets if is_first else self.secrets.only_masking()
        agents, life = agents_of(
            settings,
            source,
            records,
            threads,
            secrets=secrets,
            listeners=listeners,
            keeps_lists=is_first,
        )
        return Services(
            settings=settings,
            database=self.database,
            source=source,
            embedder=embedder,
            embedding_queue=queue,
            retriever=retriever,
            threads=threads,
            approvals=Approvals(
                saved,
                records,
                policy=Policy.of(settings.deciders),
                require_validation=frozenset(settings.require_validation),
                on_applied=queue.applied,
                on_decided=listeners.decided,
                on_proposed=listeners.proposed,
            ),
            history=GraphHistory(records=records, calendar=calendar),
            traces=Traces(records, days=settings.trace_days),
            meter=self.meter,
            box=_tools(queue.renew),
            call_log=self.call_log,
            agents=agents,
            life=life,
            of=partial(self.services, live_graphs=live_graphs),
        )


def _tools(renew: Renew) -> ToolBox:
    return ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS, refresh_embeddings(renew)))


def tool_names() -> frozenset[str]:
    """Returns the names of the tools that every workspace has."""

    async def renew_nothing(_: str) -> Mapping[str, Any]:
        return {}

    return _tools(renew_nothing).names


@asynccontextmanager
async def open_shared(
    settings: Settings, *, listeners: ProcessListeners | None = None
) -> AsyncGenerator[Shared]:
    """Opens the database and the embedder, for every workspace, and closes them at the end.

    Raises: InvalidDatabaseUrl; SettingsError for secrets, or for a cost limit with an embedder of
    unknown price; the errors of opening the database.
    """
    limits = UsageLimits(
        call_tokens=settings.usage_limits.call_tokens,
        total_tokens=settings.usage_limits.total_tokens,
        total_cost_usd=settings.usage_limits.total_cost,
        workspace_tokens=settings.usage_limits.workspace_tokens,
        workspace_cost_usd=settings.usage_limits.workspace_cost,
        person_tokens=settings.usage_limits.person_tokens,
        person_cost_usd=settings.usage_limits.person_cost,
    )
    secrets = load_secrets(settings)
    load_all_builders(settings)
    embedder = make_embedder(settings)
    listeners = listeners or ProcessListeners()
    try:
        check_embedding_price(settings, embedder)
        async with (
            open_database(settings.db, settings.workspace) as database,
            UsageMeter(
                limits, database.records(ROOT_WORKSPACE), on_call=listeners.model_called
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


@asynccontextmanager
async def open_agent(
    services: Services, provider: LLMProvider | None = None
) -> AsyncGenerator[Agent]:
    """Yields the agent with the configured provider, or with a given one, which stays open.

    Raises: SettingsError if the provider's key, model or address is missing.
    """
    async with open_model(services.settings, provider, embedder=services.embedder) as model:
        yield agent_of(services, model)


def agent_of(services: Services, model: Model) -> Agent:
    """Returns the agent of a workspace's conversations. Runs of automations pause for them."""
    settings = services.settings
    records = services.database.records(settings.workspace)
    steps = _steps_of(services, model, AgentLimits())
    assistants = ChatAssistants(
        agents=services.agents,
        life=services.life,
        model=model.of,
        source=services.source,
        plain=GraphAssistant(steps=steps, options=services.context_options),
    )
    pause = partial(pause_run_of, TurnLeases(records, prefix=SLOT), TurnLeases(records))
    return Agent(
        assistants,
        caller=steps.caller,
        threads=services.threads,
        leases=TurnLeases(records),
        approvals=services.approvals,
        blocks=steps.blocks,
        language=services.context_options.language,
        limits=steps.limits,
        traces=services.traces if settings.trace_days else None,
        on_turn=pause if settings.automations_yield else None,
    )


def _steps_of(services: Services, model: Model, limits: AgentLimits) -> TurnSteps:
    """Returns the turns of a workspace with a model and all tools."""
    settings = services.settings
    caller = ModelCaller(
        model.provider,
        services.box,
        services.source,
        meter=services.meter,
        pricing=model.pricing,
        history_turns=settings.history_turns,
        second_look=settings.second_look,
    )
    calls = ToolCalls(services.box, services.approvals, log=services.call_log)
    blocks = BlockReader(
        checker=BlockChecker(source=services.source, history=services.history),
        box=services.box,
        guard=calls.guarded,
        budget=settings.block_tokens,
    )
    return TurnSteps(
        source=services.source,
        retriever=services.retriever,
        blocks=blocks,
        approvals=services.approvals,
        caller=caller,
        calls=calls,
        limits=limits,
    )


def worker_of(
    services: Services,
    model: Model,
    clock: Callable[[], int] = now_ms,
    *,
    limits: SessionLimits | None = None,
    listeners: RunListeners | None = None,
) -> Worker:
    """Returns the worker for the automations of a workspace. Units: `clock` in milliseconds since
    1970.

    Without `listeners`, notifications of runs are left for a server to send, if there is an
    address.
    """
    workspace = services.settings.workspace
    records = services.database.records(workspace)
    automations = Automations(records, workspace=workspace, clock=clock)
    steps = _steps_of(services, model, RUN_LIMITS)
    assistant = GraphAssistant(steps=steps, options=services.context_options)
    agent = SessionAgent(
        assistant=assistant, threads=automations.threads, leases=TurnLeases(records)
    )
    slots = TurnLeases(records, prefix=SLOT)
    settings = services.settings
    if listeners is None and settings.notify.url is not None:
        listeners = RunListeners(left=_left_to_a_server)
    runner = Runner(
        automations,
        agent,
        slots,
        limits=limits,
        keep=settings.automation_keep,
        keep_days=settings.automation_keep_days,
        listeners=listeners,
    )
    return Worker(automations, runner, services.approvals, TurnLeases(records))


async def _left_to_a_server(_: Thread) -> bool:
    """Reports that nothing was stored: a server stores and sends the notification later."""
    return False


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
