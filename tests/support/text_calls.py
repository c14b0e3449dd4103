"""Calls that a scripted model of chats answers: the telephone side of ConversationRelay is the
test's, everything else is real.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from datasources.base import Database
from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import Thread
from graphrag.agents.chat_values import agent_part
from graphrag.bridge.phone_messages import StreamStart
from graphrag.bridge.signals import CallOver
from graphrag.llm.base import LLMProvider
from graphrag.llm.registry import FREE, Pricing
from graphrag.voice.active_call import ActiveCall
from graphrag.voice.dependencies import CallDependencies, ChatTurns
from tests.support.agent_life import Api, Shop, compiled
from tests.support.agents import setting_on
from tests.support.chosen_database import sample_database
from tests.support.clock import Clock
from tests.support.held_calls import Counts, FakeRecords, VoiceExecutor, opening_of, parts_of
from tests.support.waiting import until


class RelayPhone:
    """The telephone service: what is put in comes as messages, what is sent is kept."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[str | None] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.closed: int | None = None
        self.closed_with: int | None = None

    async def messages(self) -> AsyncIterator[str]:
        while (text := await self.inbox.get()) is not None:
            yield text

    async def send(self, text: str) -> None:
        if self.closed is not None:
            raise ConnectionError("closed")
        self.sent.append(json.loads(text))

    async def close(self, code: int = 1000) -> None:
        self.closed = code if self.closed is None else self.closed
        self.inbox.put_nowait(None)

    def tells(self, kind: str, **fields: Any) -> None:
        self.inbox.put_nowait(json.dumps({"type": kind, **fields}))

    def hears(self, words: str) -> None:
        """The caller has said something."""
        self.tells("prompt", voicePrompt=words, lang="en-US", last=True)

    def interrupts(self, until: str, after_ms: int = 500) -> None:
        self.tells("interrupt", utteranceUntilInterrupt=until, durationUntilInterruptMs=after_ms)

    def spoken(self) -> None:
        """The agent's words were spoken to their end."""
        self.tells("info", name="agentSpeaking", value="on")
        self.tells("info", name="agentSpeaking", value="off")

    def hang_up(self, code: int = 1000) -> None:
        self.closed_with = code
        self.inbox.put_nowait(None)

    @property
    def words(self) -> str:
        """All that was sent to be spoken, an answer a line."""
        said = (
            frame["token"] + ("\n" if frame["last"] else "")
            for frame in self.sent
            if frame["type"] == "text"
        )
        return "".join(said)


@dataclass(kw_only=True)
class TextCall:
    """A call under test."""

    phone: RelayPhone
    runner: ActiveCall
    parts: CallDependencies
    api: Api
    task: asyncio.Task[CallOver] = field(init=False)

    def __post_init__(self) -> None:
        self.records = cast(FakeRecords, self.parts.records)
        self.counts = cast(Counts, self.parts.metrics)

    async def until(self, holds: Callable[[], bool]) -> None:
        await until(holds)

    async def said(self, words: str) -> None:
        """Wait until these words were sent to be spoken."""
        await until(lambda: words in self.phone.words)

    async def over(self) -> CallOver:
        over = await asyncio.wait_for(self.task, 600)
        assert self.phone.closed is not None
        return over

    async def hang_up(self, code: int = 1000) -> CallOver:
        self.phone.hang_up(code)
        return await self.over()

    async def thread(self) -> Thread:
        return (await self.parts.threads.get_of(self.runner.call_id, "default")).thread

    async def part(self) -> ThreadAgent:
        return agent_part(await self.thread())

    async def transcript(self) -> list[tuple[str, str]]:
        return [(each["role"], each["content"]) for each in (await self.part()).transcript]


@asynccontextmanager
async def text_call(
    document: dict[str, Any],
    provider: LLMProvider,
    *,
    api: Api | None = None,
    database: Database | None = None,
    graph: str = "",
    call_id: str = "call1",
) -> AsyncGenerator[TextCall]:
    """Yield a call whose connection has just started. At its end no task may be left."""
    api = api or Api()
    clock = Clock()
    phone = RelayPhone()
    voice = {**document.get("voice", {}), "engine": "text"}
    async with AsyncExitStack() as stack:
        if database is None:
            database = await stack.enter_async_context(sample_database())
        turns = turns_of(database, provider)
        agent = compiled({**document, "voice": voice})
        shop = Shop(agent, VoiceExecutor(api, clock))
        parts = parts_of(database, shop, clock, None, None, turns)
        before = asyncio.all_tasks()
        async with parts.leases.held(call_id) as hold:
            start = StreamStart(stream_id="VX1", call_sid="CA1", token="")
            runner = ActiveCall(opening_of(parts, agent, graph, call_id), phone, start, hold)
            call = TextCall(phone=phone, runner=runner, parts=parts, api=api)
            call.task = asyncio.create_task(runner.serve())
            try:
                yield call
            finally:
                call.task.cancel()
                await asyncio.gather(call.task, return_exceptions=True)
        await parts.life.deliveries.wait_until_sent(timeout_s=5)
        await parts.life.deliveries.close()
        await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() - before if not task.done()]
        assert left == [], f"tasks are left: {left}"


def turns_of(database: Database, provider: LLMProvider) -> ChatTurns:
    """Return the turns of chats that answer calls."""
    plain = setting_on(database, provider).assistant
    return ChatTurns(plain=plain, model=lambda _provider, _model: (provider, PRICING))


PRICING = Pricing(model="script-1", genai_provider=None, fixed=None, fallback=FREE)
