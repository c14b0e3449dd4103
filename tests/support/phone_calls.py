"""Telephone calls on a database: who speaks in them is a stand-in that a test leads, all
else is real.

Several `PhoneServer`s on one database are several servers; one that `dies_at` a
write is killed there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from datasources.base import Database
from graphrag.agent.requested_calls import CallLog
from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import StoredThread, Thread, Threads
from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLease, TurnLeases
from graphrag.agents.chat_values import with_part
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.deliveries import LifeParts
from graphrag.agents.errors import AgentNotFound, AgentNotRunning
from graphrag.agents.life import AgentLife
from graphrag.approvals import Approvals
from graphrag.bridge.phone_messages import PhoneSide, StreamStart
from graphrag.bridge.signals import CallOver
from graphrag.realtime.model_side import ModelSides
from graphrag.voice.call_records import Call, CallRecords
from graphrag.voice.call_service import CallService
from graphrag.voice.call_setup import EarlierPart
from graphrag.voice.call_slots import CallSlots
from graphrag.voice.dependencies import CallDependencies, ChatTurns
from graphrag.voice.follow_up import FollowUp
from tests.support.agent_life import (
    LOCALE,
    Api,
    ApiExecutor,
    DyingRecords,
    Shop,
    compiled,
    document,
)
from tests.support.clock import Clock
from tests.support.held_calls import FakeModel
from tools.tool_box import ToolBox

NUMBER, CALLED = "+33612345678", "+33199000000"
SID = "CA" + "5" * 32
SECOND = 1_000


@dataclass
class PhoneShop(Shop):
    """The one agent of a workspace, which a test may stop."""

    is_running: bool = True
    unreachable: int = 0

    async def running_version(self, agent_id: str) -> tuple[CompiledAgent, int]:
        if self.agent is None or agent_id != self.agent.agent_id:
            raise AgentNotFound(agent_id=agent_id)
        if not self.is_running:
            raise AgentNotRunning(agent_id=agent_id, state="stopped")
        return self.agent, 1

    async def model_failed(self, agent_id: str, refusal: Any = None) -> None:
        self.unreachable += 1


class NoPhone:
    """A caller's side that only notes that it was closed."""

    closed = False

    async def messages(self) -> AsyncIterator[str]:
        return
        yield ""

    async def send(self, text: str) -> None:
        pass

    async def close(self, code: int = 1000) -> None:
        self.closed = True


@dataclass
class Feed:
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    is_closed: bool = False

    def add(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def follow(self) -> AsyncGenerator[dict[str, Any]]:
        for message in self.messages:
            yield message

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Opening:
    agent: CompiledAgent
    thread: Thread
    earlier: EarlierPart | None = None
    is_closed: bool = False

    def begin(self) -> None:
        pass

    async def close(self) -> None:
        self.is_closed = True


@dataclass
class Speaker:
    """Stands for the model and the bridge: stores the thread, then waits for `over` or to be
    asked to end.
    """

    opening: Opening
    phone: PhoneSide
    hold: TurnLease
    case: PhoneServer
    feed: Feed = field(default_factory=Feed)
    over: asyncio.Future[CallOver] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self) -> CallOver:
        life = self.case.life
        threads = self.case.threads
        opening = self.opening
        if opening.earlier is None:
            session = await life.beginnings.resolve(opening.agent, opening.thread)
            draft = StoredThread(thread=opening.thread, version=None)
            stored = await life.beginnings.store(opening.agent, draft, session)
        else:
            stored = opening.earlier.stored
        said = {"role": "user", "content": f"I am {NUMBER}.", "timestamp": "", "itemId": "i1"}
        assert stored.thread.agent is not None
        before = stored.thread.agent.transcript
        thread = with_part(
            stored.thread,
            ctx={**stored.thread.agent.ctx, **self.case.ctx},
            transcript=[*before, said],
        )
        await threads.save(StoredThread(thread=thread, version=stored.version), [])
        self.started.set()
        if self.case.on_serving is not None:
            self.case.on_serving(self)
        ended = asyncio.create_task(self._wait_for_notes())
        try:
            return await self.over
        finally:
            ended.cancel()
            await self.phone.close()

    async def _wait_for_notes(self) -> None:
        while not self.over.done():
            if reason := self.hold._unwanted:  # pyright: ignore[reportPrivateUsage]
                self.end_soon(reason)  # type: ignore[arg-type]
            await asyncio.sleep(0.01)

    def end_soon(self, reason: EndReason) -> None:
        if not self.over.done():
            self.over.set_result(CallOver(reason, None, True))


class States:
    """Keeps each status of calls that is reported."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []

    def counted(self, name: str, value: float = 1.0, *, code: str = "", agent_id: str = "") -> None:
        """Ignores measurements."""

    def state(self, call_id: str, agent_id: str, status: str | None) -> None:
        self.seen.append(status)


@dataclass(kw_only=True)
class PhoneServer:
    """One server of the workspace."""

    records: DyingRecords
    threads: Threads
    clock: Clock
    api: Api
    shop: PhoneShop
    life: AgentLife
    slots: CallSlots
    calls: CallService
    speakers: list[Speaker]
    openings: list[Opening]
    states: States
    on_serving: Callable[[Speaker], None] | None = None
    ctx: dict[str, Any] = field(default_factory=lambda: {"had_conversation": True})

    async def ring(self, sid: str | None = SID, **more: Any) -> tuple[Call, str]:
        channel = "phone" if sid else "browser"
        given: dict[str, Any] = {
            "caller_phone": NUMBER,
            "called_phone": CALLED,
            "channel": channel,
        } | more
        return await self.calls.begin("shop", call_sid=sid, **given)

    async def answer(self, token: str, sid: str | None = SID) -> asyncio.Task[None]:
        """Let the stream of a call come; return what serves it, which has begun."""
        call = await self.calls.take(token, sid)
        start = StreamStart(stream_id="MZ1", call_sid=sid, token=token)
        before = len(self.speakers)
        task = asyncio.create_task(self.calls.serve(call, NoPhone(), start))
        async with asyncio.timeout(10):
            while not (task.done() or self.speaks(call, before)):  # noqa: ASYNC110 - or it is refused
                await asyncio.sleep(0.001)
        return task

    async def connect(self, sid: str = SID) -> tuple[Call, asyncio.Task[None]]:
        """Let a call ring and its stream come; return it, and what serves it."""
        call, token = await self.ring(sid)
        return call, await self.answer(token, sid)

    def speaks(self, call: Call, before: int = 0) -> bool:
        return any(
            each.opening.thread.key == call.call_id and each.started.is_set()
            for each in self.speakers[before:]
        )

    async def quiet(self) -> None:
        assert await self.life.deliveries.wait_until_sent(timeout_s=60)
        await asyncio.sleep(0)

    async def tick(self) -> None:
        """Do what a server does in the background."""
        await self.life.endings.end_idle()
        await self.calls.endings.tick()
        await self.life.deliveries.send_due()
        await self.quiet()


def phone_server_on(
    database: Database,
    api: Api,
    *,
    clock: Clock | None = None,
    agent: CompiledAgent | None = None,
    workspace: str = "default",
    most: int = 50,
    dies_at: int = 0,
    after: bool = False,
    models: ModelSides | None = None,
    turns: ChatTurns | None = None,
    slots: CallSlots | None = None,
) -> PhoneServer:
    """Return a server. `models` or `turns`: speak in its calls in place of a `Speaker`."""
    clock = clock or Clock()
    records = DyingRecords(database.records(workspace), dies_at=dies_at, after=after)
    threads = Threads(records, clock=clock)
    source = database.source(workspace)
    shop = PhoneShop(agent or compiled(document()), ApiExecutor(api, clock))
    leases = TurnLeases(records, clock=clock, look_s=0.01)
    approvals = Approvals(source, records)
    states = States()
    parts = CallDependencies(
        records=CallRecords(records, workspace),
        agents=shop,
        threads=threads,
        leases=TurnLeases(records, clock=clock, look_s=0.01),
        life=AgentLife(
            LifeParts(
                records,
                threads,
                shop,
                workspace=workspace,
                locale=LOCALE,
                leases=leases,
                clock=clock,
            )
        ),
        approvals=approvals,
        tools=ToolCalls(ToolBox(()), approvals, log=CallLog()),
        source=source,
        models=models or (lambda name: FakeModel(name)),
        turns=turns,
        slots=slots or CallSlots(most, clock=lambda: clock() / 1000),
        clock=clock,
        metrics=states,
    )
    speakers = list[Speaker]()
    openings = list[Opening]()

    def new_setup(
        _: CallDependencies, agent: CompiledAgent, thread: Thread, earlier: EarlierPart | None
    ) -> Any:
        openings.append(Opening(agent, thread, earlier))
        return openings[-1]

    def new_call(setup: Any, phone: PhoneSide, _: StreamStart, hold: TurnLease) -> Any:
        speakers.append(Speaker(setup, phone, hold, server))
        return speakers[-1]

    calls = (
        CallService(parts)
        if models or turns
        else CallService(parts, new_setup=new_setup, new_call=new_call)
    )
    server = PhoneServer(
        records=records,
        threads=threads,
        clock=clock,
        api=api,
        shop=shop,
        life=parts.life,
        slots=parts.slots,
        calls=calls,
        speakers=speakers,
        openings=openings,
        states=states,
    )
    return server


def pair(database: Database, api: Api, **more: Any) -> tuple[PhoneServer, PhoneServer]:
    clock = Clock()
    return tuple(phone_server_on(database, api, clock=clock, **more) for _ in range(2))  # type: ignore[return-value]


async def call_of(server: PhoneServer, call_id: str) -> Call:
    call = await server.calls.records.get(call_id)
    assert call is not None
    return call


def with_limit(most: int) -> Any:
    return compiled(document(limits={"max_calls": most}))


async def dialled(
    server: PhoneServer, call_id: str, after: FollowUp, status: str, **report: str
) -> FollowUp:
    """Report to a server how an attempt ended, as the telephone service does."""
    return await server.calls.after_dial(
        call_id,
        agent_id="shop",
        tried=after.tried,
        number=after.number,
        report={"DialCallStatus": status, "CallStatus": "in-progress"} | report,
    )
