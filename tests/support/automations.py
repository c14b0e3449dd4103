"""Automations on the sample graph: a scripted model, a clock that is set by hand,
everything else real.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from datasources.base import Database
from graphrag.agent.assistant import GraphAssistant
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.session_agent import RUN_LIMITS, SessionAgent
from graphrag.agent.thread_store import SESSION_KIND, Thread, Threads, session_of
from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agent.turn_steps import TurnSteps
from graphrag.approvals import Approvals, Policy
from graphrag.approvals.validation import CLASSES, ActionClass
from graphrag.automations.automation import Automation
from graphrag.automations.automation_store import Automations
from graphrag.automations.open_runs import OpenRuns
from graphrag.automations.run_listeners import RunListeners
from graphrag.automations.runner import SLOT, Runner
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.session_control import SessionControl
from graphrag.automations.worker import Worker
from graphrag.commands import BlockChecker, BlockReader, GraphHistory, SentBlock
from graphrag.leases import now_ms
from graphrag.llm.base import LLMProvider, UserMessage
from graphrag.llm.registry import FREE, Pricing
from graphrag.llm.usage_meter import UsageMeter
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.retriever import Retriever
from graphrag.sessions.agent_session import AgentSession
from graphrag.sessions.machine import SessionLimits
from graphrag.sessions.phases import EventName
from tests.support.agents import EDITOR, GRAPH
from tests.support.chosen_database import sample_database
from tests.support.clock import MONDAY, Clock
from tests.support.scripted_provider import Says, ScriptedProvider, Step, call
from tools.read_tools import READ_TOOLS
from tools.session_tools import SESSION_TOOLS
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TWO = MONDAY + 2 * HOUR


def finish(outcome: str = "ok", report: str = "Nothing was found.") -> Says:
    """The answer that ends a run."""
    return Says(calls=[call("finish_automation", {"outcome": outcome, "report": report})])


def move(key: str = "root", x: int = 10, **more: Any) -> Any:
    """A call that proposes to move a node."""
    return call(
        "propose_move_node", {"nodeKey": key, "posX": x, "posY": 20, "reason": "tidier", **more}
    )


@dataclass(kw_only=True)
class Night:
    """What tests of runs look at; several of them on one database are several servers."""

    database: Database
    clock: Clock
    automations: Automations
    approvals: Approvals
    threads: Threads
    agent: SessionAgent
    worker: Worker
    scheduler: Scheduler
    conversations: TurnLeases

    async def automation(
        self, text: str = "Look for what is wrong.", blocks: Sequence[SentBlock] = (), **fields: Any
    ) -> Automation:
        """Store an automation for every day at two."""
        said = UserMessage(content=text)
        if blocks:
            said = await self.agent.assistant.steps.blocks.checker.checked(
                GRAPH, text, blocks, "en", keep_relative=True
            )
        given = {"name": "Nightly check", "cron": "0 2 * * *", "mode": "propose", **fields}
        made = self.automations.begin(EDITOR, str(given.pop("graph_key", GRAPH)), **given)
        made = made.model_copy(update={"next_time": made.schedule.next(self.clock())})
        return await self.automations.create(made, [said])

    async def ran(
        self, text: str = "Look for what is wrong.", blocks: Sequence[SentBlock] = (), **fields: Any
    ) -> Automation:
        """Store an automation, as `automation` does, and run it on Monday at two."""
        made = await self.automation(text, blocks, **fields)
        await self.run_at(TWO)
        return made

    async def run_at(self, now: int) -> int:
        """Set the clock and run what is due; return how many runs were started."""
        self.clock.now = now
        return await self.scheduler.run_due()

    async def runs(self, automation: Automation) -> list[Thread]:
        """Return the runs of an automation, newest first."""
        found = await self.automations.sessions({"automationId": automation.key})
        return [each.thread for each in found if each.thread.key != automation.seed_id]

    async def session(self, automation: Automation) -> AgentSession:
        """Return the newest run of an automation."""
        return session_of((await self.runs(automation))[0])

    async def stored(self, automation: Automation) -> Automation:
        return await self.automations.get(automation.key)

    @property
    def control(self) -> SessionControl:
        """What people do with runs; their conversations are not looked at."""
        threads = Threads(self.automations.records)
        return SessionControl(
            self.automations, self.agent.leases, chats=threads, approvals=self.approvals
        )

    async def activate(self, thread: Thread, event: EventName) -> AgentSession | None:
        return await self.worker.runner.run(thread.key, event)


def night_on(
    database: Database,
    provider: LLMProvider,
    *,
    clock: Clock | None = None,
    limits: SessionLimits | None = None,
    policy: Policy | None = None,
    at_once: int = 2,
    lease_clock: Callable[[], int] = now_ms,
    look_s: float = 0.05,
    pricing: Pricing | None = None,
    free: frozenset[ActionClass] = frozenset(),
    listeners: RunListeners | None = None,
    spread_s: int = 0,
) -> Night:
    clock = clock or Clock()
    source = database.source("default")
    records = database.records("default")
    box = ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS))
    required = CLASSES - free
    approvals = Approvals(source, records, policy=policy, clock=clock, require_validation=required)
    threads = Threads(records, kind=SESSION_KIND, clock=clock)
    price = pricing or Pricing(model=provider.model, genai_provider=None, fixed=None, fallback=FREE)
    calls = ToolCalls(box, approvals)
    steps = TurnSteps(
        source=source,
        retriever=Retriever(source, None),
        blocks=BlockReader(
            checker=BlockChecker(
                source=source, history=GraphHistory(records=records, clock=clock), clock=clock
            ),
            box=box,
            guard=calls.guarded,
        ),
        approvals=approvals,
        caller=ModelCaller(provider, box, source, meter=UsageMeter(None), pricing=lambda: price),
        calls=calls,
        limits=RUN_LIMITS,
    )
    agent = SessionAgent(
        assistant=GraphAssistant(steps=steps, options=ContextOptions()),
        threads=threads,
        leases=TurnLeases(records, look_s=look_s, clock=lease_clock),
    )
    automations = Automations(records, workspace="default", clock=clock)
    slots = TurnLeases(records, prefix=SLOT, look_s=look_s, clock=lease_clock)
    runner = Runner(
        automations, agent, slots, limits=limits, listeners=listeners, sleep=clock.sleep
    )
    conversations = TurnLeases(records)
    open_runs = OpenRuns(automations, runner, approvals, conversations)
    worker = Worker(automations, runner, approvals, open_runs, spread_s=spread_s)

    async def names() -> list[str]:
        return ["default"]

    async def opened(_: str) -> Worker:
        return worker

    return Night(
        database=database,
        clock=clock,
        automations=automations,
        approvals=approvals,
        threads=threads,
        agent=agent,
        worker=worker,
        scheduler=Scheduler(names, opened, at_once=at_once),
        conversations=conversations,
    )


@asynccontextmanager
async def night_of(provider: LLMProvider, **more: Any) -> AsyncGenerator[Night]:
    async with sample_database() as database:
        yield night_on(database, provider, **more)


@asynccontextmanager
async def scripted_night(
    *steps: Step, **more: Any
) -> AsyncGenerator[tuple[Night, ScriptedProvider]]:
    """Yield a night whose model plays these steps, all of them, and the model."""
    async with ScriptedProvider(*steps) as model, night_of(model, **more) as night:
        yield night, model
