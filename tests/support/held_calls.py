"""Calls that are held for tests: a phone and a model of fakes, a database and an agent
as they are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from datasources.base import Database, RecordStore
from graphrag.agent.requested_calls import CallLog
from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import Thread, Threads
from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.chat_values import Locale, agent_part, http_sentence
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.deliveries import LifeParts
from graphrag.agents.life import AgentLife
from graphrag.approvals import Approvals, Person
from graphrag.bridge.bridge import Bridge
from graphrag.bridge.phone_messages import StreamStart
from graphrag.bridge.signals import CallOver
from graphrag.realtime.model_side import ModelSides, RealtimeUnreachable
from graphrag.voice.active_call import ActiveCall
from graphrag.voice.call_records import CallRecords
from graphrag.voice.call_setup import CallSetup
from graphrag.voice.call_slots import CallSlots
from graphrag.voice.dependencies import CallDependencies, ChatTurns, RecordedAnswers
from tests.support.agent_life import Api, ApiExecutor, Sent, Shop, compiled, document
from tests.support.chosen_database import sample_database
from tests.support.clock import Clock
from tests.support.waiting import until
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpAnswer, HttpClient, PreparedRequest
from tools.http.secret_values import Secrets
from tools.tool_box import ToolBox


class VoiceExecutor(ApiExecutor):
    """Hands the requests of tools, too, to an API in this process."""

    def __init__(self, api: Api, clock: Callable[[], int]) -> None:
        HttpExecutor.__init__(self, cast(HttpClient, None), Secrets({}), clock, http_sentence)
        self.api = api
        self.now = clock

    async def _sent(self, request: PreparedRequest) -> HttpAnswer:
        body = None if request.body is None else json.loads(request.body)
        path, _, params = request.target.partition("?")
        return await self.api.take(
            Sent(method=request.method, path=path, key=request.key, body=body, params=params)
        )


class FakePhone:
    """A caller: what is put in comes as messages, what is sent is kept. Marks come back
    when asked for.
    """

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[str | None] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.closed: int | None = None
        self.closed_with: int | None = None
        self.blocks: asyncio.Event | None = None
        self.on_close: Callable[[], None] | None = None

    async def messages(self) -> AsyncIterator[str]:
        while (text := await self.inbox.get()) is not None:
            yield text

    async def send(self, text: str) -> None:
        if self.closed is not None:
            raise ConnectionError("closed")
        if self.blocks is not None:
            await self.blocks.wait()
        self.sent.append(json.loads(text))

    async def close(self, code: int = 1000) -> None:
        if self.closed is None:
            self.closed = code
            if self.on_close is not None:
                self.on_close()
        self.inbox.put_nowait(None)

    def says(self, event: str, **fields: Any) -> None:
        self.inbox.put_nowait(json.dumps({"event": event, **fields}))

    def sound(self, frames: int = 1) -> None:
        for _ in range(frames):
            self.says("media", media={"track": "inbound", "payload": "f39/"})

    def hang_up(self) -> None:
        self.says("stop", stop={})

    def play(self) -> None:
        """Send back the marks of all that came since the last time."""
        for frame in self.sent:
            if frame["event"] == "mark" and not frame.get("played"):
                frame["played"] = True
                self.says("mark", mark=frame["mark"])

    def of(self, event: str) -> list[dict[str, Any]]:
        return [frame for frame in self.sent if frame["event"] == event]


class FakeModel:
    """A model's connection: opens a session by itself, then says what the test lets it say."""

    def __init__(self, name: str, fails: Exception | None = None) -> None:
        self.name = name
        self.fails = fails
        self.inbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.opened, self.closed = False, False
        self.held: asyncio.Event | None = None
        self.number = 0

    async def open(self) -> None:
        if self.held is not None:
            await self.held.wait()
        if self.fails is not None:
            raise self.fails
        self.opened = True
        self.event("session.created", session={})

    async def send(self, text: str) -> None:
        if self.closed:
            raise RealtimeUnreachable(place="test", model=self.name, why="closed")
        event = json.loads(text)
        self.sent.append(event)
        if event["type"] == "session.update":
            self.event("session.updated")

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        while (event := await self.inbox.get()) is not None:
            yield event

    async def close(self) -> None:
        self.closed = True
        self.inbox.put_nowait(None)

    def event(self, kind: str, **fields: Any) -> None:
        self.inbox.put_nowait({"type": kind, **fields})

    def lose(self) -> None:
        self.inbox.put_nowait(None)

    def answers(self, words: str, ms: int = 400, *calls: tuple[str, dict[str, Any]]) -> None:
        """A whole response: words with their sound, then calls of tools."""
        self.number += 1
        response = f"r{self.number}"
        item = f"i{self.number}"
        where = {"response_id": response, "item_id": item}
        self.event("response.created", response={"id": response})
        if words:
            self.event("response.output_audio_transcript.delta", **where, delta=words)
            self.event("response.output_audio.delta", **where, delta="/" * (ms * 8 // 3 * 4))
            self.event("response.output_audio.done", **where)
            self.event("response.output_audio_transcript.done", **where, transcript=words)
        for place, (name, arguments) in enumerate(calls):
            call = {"type": "function_call", "status": "completed", "name": name}
            call |= {"call_id": f"{response}c{place}", "arguments": json.dumps(arguments)}
            self.event("response.output_item.done", response_id=response, item=call)
        usage = {
            "input_token_details": {"audio_tokens": 5},
            "output_token_details": {"audio_tokens": 7},
        }
        self.event(
            "response.done", response={"id": response, "status": "completed", "usage": usage}
        )

    def heard(self, words: str) -> None:
        """The caller has said something."""
        self.number += 1
        item = f"u{self.number}"
        self.event("input_audio_buffer.speech_started", item_id=item)
        self.event("input_audio_buffer.speech_stopped", item_id=item)
        self.event("input_audio_buffer.committed", item_id=item)
        kind = "conversation.item.input_audio_transcription.completed"
        self.event(kind, item_id=item, transcript=words)

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.sent]

    def outputs(self) -> dict[str, str]:
        """The outputs of tools, by the call's id."""
        items = [
            event["item"] for event in self.sent if event["type"] == "conversation.item.create"
        ]
        return {i["call_id"]: i["output"] for i in items if i["type"] == "function_call_output"}

    def notes(self) -> list[str]:
        items = [
            event["item"] for event in self.sent if event["type"] == "conversation.item.create"
        ]
        return [i["content"][0]["text"] for i in items if i["type"] == "message"]


class FakeRecords:
    """The record of the one call: what was stored of it."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.hangs: asyncio.Event | None = None

    async def change(self, call_id: str, change: Callable[[Any], Any]) -> Any:
        if self.hangs is not None:
            await self.hangs.wait()
        change(self)
        return self

    def model_copy(self, *, update: dict[str, Any]) -> FakeRecords:
        self.stored |= update
        return self


class Counts:
    """Keeps every measurement by its name."""

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {}
        self.agents: set[str] = set()

    def counted(self, name: str, value: float = 1.0, *, code: str = "", agent_id: str = "") -> None:
        self.seen.setdefault(f"{name}.{code}" if code else name, []).append(value)
        self.agents.add(agent_id)

    def state(self, call_id: str, agent_id: str, status: str | None) -> None:
        """Ignores the status of calls."""


@dataclass(kw_only=True)
class HeldCall:
    """A call under test."""

    phone: FakePhone
    models: list[FakeModel]
    runner: ActiveCall
    parts: CallDependencies
    api: Api
    stored: RecordStore
    task: asyncio.Task[CallOver] = field(init=False)

    def __post_init__(self) -> None:
        self.life = self.parts.life
        self.threads = self.parts.threads
        self.leases = self.parts.leases
        self.approvals = self.parts.approvals
        self.records = cast(FakeRecords, self.parts.records)
        self.counts = cast(Counts, self.parts.metrics)

    @property
    def bridge(self) -> Bridge | None:
        """The bridge of a call with a Realtime model, None until its session is open."""
        return cast(Bridge | None, self.runner.dialogue)

    @property
    def model(self) -> FakeModel:
        return self.models[-1]

    async def open(self) -> None:
        """Let the call run until its model can be reached."""
        await self.until(lambda: bool(self.models) and "session.update" in self.model.kinds())
        await self.rest()

    async def until(self, holds: Callable[[], bool]) -> None:
        await until(holds)

    async def rest(self, seconds: float = 0.05) -> None:
        """Let everybody do what they have to; the line is not silent."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end and not self.task.done():
            self.phone.sound()
            await asyncio.sleep(min(1.0, max(0.005, end - loop.time())))

    async def hang_up(self) -> CallOver:
        """Hang up as the caller; return how the call ended."""
        self.phone.hang_up()
        return await self.over()

    async def over(self) -> CallOver:
        over = await asyncio.wait_for(self.task, 120)
        assert self.phone.closed is not None
        assert all(model.closed for model in self.models)
        return over

    async def thread(self) -> Thread:
        return (await self.threads.get_of(self.runner.call_id, "default")).thread

    async def part(self) -> ThreadAgent:
        return agent_part(await self.thread())


def parts_of(
    database: Database,
    agents: Shop,
    clock: Clock,
    models: ModelSides | None,
    recorded: RecordedAnswers | None,
    turns: ChatTurns | None = None,
) -> CallDependencies:
    """Return what a call works with: all of it real but for the model, the counts and
    the call's record.
    """
    records = database.records("default")
    source = database.source("default")
    threads = Threads(records, clock=clock)
    leases = TurnLeases(records, clock=clock, look_s=0.05)
    approvals = Approvals(source, records)
    return CallDependencies(
        life=AgentLife(
            LifeParts(
                records,
                threads,
                agents,
                workspace="default",
                locale=Locale(),
                leases=leases,
                clock=clock,
            )
        ),
        agents=agents,
        threads=threads,
        leases=leases,
        records=cast(CallRecords, FakeRecords()),
        approvals=approvals,
        tools=ToolCalls(ToolBox(()), approvals, log=CallLog()),
        source=source,
        models=models,
        turns=turns,
        slots=CallSlots(1),
        metrics=Counts(),
        recorded=recorded,
    )


def opening_of(
    parts: CallDependencies, agent: CompiledAgent, graph: str, call_id: str
) -> CallSetup:
    """Return the opening of a call between two numbers."""
    caller = Person(f"caller:{call_id}", "viewer", "default")
    new = parts.threads.begin(graph, caller, title="call").thread.model_copy(
        update={"key": call_id}
    )
    part = ThreadAgent(
        agent_id=agent.agent_id,
        version=1,
        channel="voice",
        caller_phone="+33612345678",
        called_phone="+33123456789",
        call_sid="CA1",
    )
    return CallSetup(parts, agent, parts.life.beginnings.draft(new, part))


@asynccontextmanager
async def held_call(
    document: dict[str, Any],
    *,
    api: Api | None = None,
    database: Database | None = None,
    fails: list[Exception | None] | None = None,
    graph: str = "",
    call_id: str = "call1",
    sides: ModelSides | None = None,
    recorded: RecordedAnswers | None = None,
) -> AsyncGenerator[HeldCall]:
    """Yield a call whose stream has just started; `fails`: how the connections to the model fail.

    `sides`: connections to a model that is no fake. At its end no task may be left.
    """
    api = api or Api()
    clock = Clock()
    phone = FakePhone()
    models = list[FakeModel]()
    failures = list(fails or ())

    def new_side(name: str) -> FakeModel:
        models.append(FakeModel(name, failures.pop(0) if failures else None))
        return models[-1]

    async with AsyncExitStack() as stack:
        if database is None:
            database = await stack.enter_async_context(sample_database())
        agent = compiled(document)
        stored = database.records("default")
        parts = parts_of(
            database, Shop(agent, VoiceExecutor(api, clock)), clock, sides or new_side, recorded
        )
        before = asyncio.all_tasks()
        async with parts.leases.held(call_id) as hold:
            start = StreamStart(stream_id="MZ1", call_sid="CA1", token="")
            runner = ActiveCall(opening_of(parts, agent, graph, call_id), phone, start, hold)
            call = HeldCall(
                phone=phone, models=models, runner=runner, parts=parts, api=api, stored=stored
            )
            call.task = asyncio.create_task(runner.serve())
            try:
                yield call
            finally:
                call.task.cancel()
                await asyncio.gather(call.task, return_exceptions=True)
        await call.life.deliveries.wait_until_sent(timeout_s=5)
        await call.life.deliveries.close()
        await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() - before if not task.done()]
        assert left == [], f"tasks are left: {left}"


@asynccontextmanager
async def opened_call(document: dict[str, Any], **more: Any) -> AsyncGenerator[HeldCall]:
    """Yield a call of `held_call` whose model can be reached."""
    async with held_call(document, **more) as call:
        await call.open()
        yield call


async def ended(call: HeldCall, *, hangs_up: bool = False) -> tuple[str, ThreadAgent]:
    """Let the call end as who holds its lease does; return how, and what its thread knows."""
    over = await call.hang_up() if hangs_up else await call.over()
    await call.life.endings.end_held(call.runner.call_id, over.reason)
    await call.life.deliveries.wait_until_sent(timeout_s=5)
    return over.reason, await call.part()


def shop(**changes: Any) -> dict[str, Any]:
    declared = [{"type": "function", "name": name} for name in ("order", "look")]
    session = {"mode": "inline", "instructions": "You sell.", "tools": declared}
    tools = {**document()["tools"], "bye": {"type": "builtin", "action": "hangup"}}
    return document(session=session, tools=tools, **changes)
