"""Constructs the agent of conversations and the worker of automations, which use a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from graphrag.agent.assistant import GraphAssistant
from graphrag.agent.loop import Agent
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.session_agent import RUN_LIMITS, SessionAgent
from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLeases, pause_run_of
from graphrag.agent.turn_steps import AgentLimits, TurnSteps
from graphrag.agents.chats import ChatAssistants
from graphrag.app.models import Model, open_model
from graphrag.app.wiring import Services
from graphrag.automations.automation_store import Automations
from graphrag.automations.open_runs import OpenRuns
from graphrag.automations.run_listeners import RunListeners
from graphrag.automations.runner import SLOT, Runner
from graphrag.automations.worker import Worker
from graphrag.commands import BlockChecker, BlockReader
from graphrag.leases import now_ms
from graphrag.llm.base import LLMProvider
from graphrag.sessions.machine import SessionLimits
from graphrag.voice.dependencies import ChatTurns


@asynccontextmanager
async def open_agent(
    services: Services, provider: LLMProvider | None = None
) -> AsyncGenerator[Agent]:
    """Yields the agent with the configured provider, or with a given one, which stays open.

    Raises: SettingsError if the provider's key, model or address is missing.
    """
    async with open_model(services.settings, provider, embedder=services.embedder) as model:
        yield agent_of(services, model)


def chat_turns(services: Services, model: Model) -> ChatTurns:
    """Returns the turns of a workspace's conversations, with the tools of its graphs."""
    steps = _steps(services, model, AgentLimits())
    plain = GraphAssistant(steps=steps, options=services.context_options)
    return ChatTurns(plain=plain, model=model.of)


def agent_of(services: Services, model: Model) -> Agent:
    """Returns the agent of a workspace's conversations. Runs of automations pause for them."""
    settings = services.settings
    records = services.database.records(settings.workspace)
    turns = chat_turns(services, model)
    steps = turns.plain.steps
    assistants = ChatAssistants(
        agents=services.agents,
        life=services.life,
        model=turns.model,
        source=services.source,
        plain=turns.plain,
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


def _steps(services: Services, model: Model, limits: AgentLimits) -> TurnSteps:
    """Returns the turns of a workspace with a model and all tools."""
    settings = services.settings
    caller = ModelCaller(
        model.provider,
        services.box,
        services.source,
        meter=services.meter,
        pricing=lambda: model.pricing,
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
    spread_s: int = 0,
) -> Worker:
    """Returns the worker for the automations of a workspace. Units: `clock` in milliseconds since
    1970, `spread_s` in seconds.

    Without `listeners`, notifications of runs are left for a server to send, if there is an
    address.
    """
    workspace = services.settings.workspace
    records = services.database.records(workspace)
    automations = Automations(records, workspace=workspace, clock=clock)
    steps = _steps(services, model, RUN_LIMITS)
    assistant = GraphAssistant(steps=steps, options=services.context_options)
    settings = services.settings
    agent = SessionAgent(
        assistant=assistant,
        threads=automations.threads,
        leases=TurnLeases(records),
        traces=services.traces if settings.trace_days else None,
    )
    slots = TurnLeases(records, prefix=SLOT)
    if listeners is None and settings.notify.url is not None:
        listeners = RunListeners(left=_left_to_a_server, late=_left_to_a_server)
    runner = Runner(
        automations,
        agent,
        slots,
        limits=limits,
        keep=settings.automation_keep,
        keep_days=settings.automation_keep_days,
        listeners=listeners,
        models=model.usable,
    )
    approvals = services.approvals
    open_runs = OpenRuns(automations, runner, approvals, TurnLeases(records))
    return Worker(automations, runner, approvals, open_runs, spread_s=spread_s)


async def _left_to_a_server(*_: object) -> bool:
    """Reports that nothing was stored: a server stores and sends the notification later."""
    return False
