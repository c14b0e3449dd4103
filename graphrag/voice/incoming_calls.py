"""Admits telephone calls: stores a ringing call if the agent, this process and checks allow it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, TypedDict, Unpack, final

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import StoredThread, Thread
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.errors import AgentBlocked
from graphrag.roles import Person
from graphrag.voice.call_endings import CallEndings
from graphrag.voice.call_records import Call, CallChannel
from graphrag.voice.call_setup import CallSetup, EarlierPart
from graphrag.voice.dependencies import CallDependencies
from graphrag.voice.errors import (
    AgentInChatOnly,
    CallBlocked,
    CallEnded,
    CallsFull,
    NoBrowserTalk,
)
from graphrag.voice.follow_up import say_language
from graphrag.voice.recordings import notice_s
from graphrag.voice.stream_tokens import digest_of, new_token

# Validity of a token in seconds. In a browser the person first has to allow the microphone.
TOKEN_S: Final = {"phone": 15.0, "browser": 60.0, "simulated": 60.0}
CHECK_TIMEOUT_S: Final = 6.0  # for all checks of an agent document
MAX_TOKENS: Final = 4  # of one call: its webhook may be repeated
_ADD_ATTEMPTS: Final = 4

NewSetup = Callable[[CallDependencies, CompiledAgent, Thread, EarlierPart | None], CallSetup]


def token_s(call: Call, agent: CompiledAgent) -> float:
    """Returns how long the first token of a call is valid, in seconds.

    The stream begins after the notice of a recording.
    """
    return TOKEN_S[call.channel] + (notice_s(agent) if call.channel == "phone" else 0.0)


class IncomingFacts(TypedDict, total=False):
    """Facts about an incoming call. `user_id`: the person who calls from the browser."""

    caller_phone: str | None
    called_phone: str | None
    channel: CallChannel
    call_sid: str | None
    user_id: str | None


@final
class IncomingCalls:
    """Begins the calls of one workspace, and prepares them until their stream is opened.

    `new_setup` prepares a call; its thread is a draft, or stored if the caller comes back.
    """

    def __init__(
        self, deps: CallDependencies, endings: CallEndings, *, new_setup: NewSetup = CallSetup
    ) -> None:
        self._deps = deps
        self._records = deps.records
        self._endings = endings
        self._new_setup = new_setup
        self._setups: dict[str, tuple[CallSetup, asyncio.TimerHandle]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def begin(self, agent_id: str, **facts: Unpack[IncomingFacts]) -> tuple[Call, str]:
        """Stores a ringing call. Returns it with the token that opens its stream.

        A repeated `call_sid` names the same call. The checks of a call from the browser run when
        the call is answered.
        Raises: AgentNotFound, AgentNotRunning, AgentInChatOnly, NoBrowserTalk, CallsFull,
        CallBlocked, CallEnded, SourceError.
        """
        call_sid = facts.get("call_sid")
        call_id = self._records.call_id_of(call_sid)
        if call_sid is not None and (ringing := await self._records.get(call_id)) is not None:
            return await self._repeat(ringing)
        agent, version = await self._deps.agents.running_version(agent_id)
        if "voice" not in agent.document.channels:
            raise AgentInChatOnly(id=agent_id)
        engine = agent.document.voice.engine
        channel = facts.get("channel", "phone")
        if channel == "browser" and engine == "text":
            raise NoBrowserTalk(id=agent_id)
        if not self._deps.answers(engine):
            raise CallsFull
        call = Call(
            call_id=call_id,
            agent_id=agent_id,
            agent_version=version,
            workspace=self._records.workspace,
            channel=channel,
            engine=engine,
            user_id=facts.get("user_id"),
            call_sid=call_sid,
            caller_phone=facts.get("caller_phone"),
            called_phone=facts.get("called_phone"),
            started_time=self._deps.clock(),
        )
        self._deps.slots.reserve(
            call_id, CHECK_TIMEOUT_S + token_s(call, agent), caller=call.caller
        )
        try:
            return await self._ring(call, agent)
        except BaseException:
            self._deps.slots.give_back(call_id)
            raise

    async def _ring(self, call: Call, agent: CompiledAgent) -> tuple[Call, str]:
        await self._count(agent, call.call_id)  # a repeated webhook is not counted twice
        if call.channel == "phone":
            try:
                await self._check(call, agent)
            except AgentBlocked as blocked:
                now = self._deps.clock()
                changes: dict[str, Any] = {"refusal": blocked.message, "end_reason": "blocked"}
                changes |= {
                    "status": "ended",
                    "ended_time": now,
                    "next_time": now + self._endings.retention_ms,
                }
                await self._records.add(call.model_copy(update=changes))
                raise self._refusal(agent, blocked.message) from None
        token = new_token(call.workspace, call.call_id)
        until = self._deps.clock() + round(token_s(call, agent) * 1000)
        waiting = {"token_hashes": [digest_of(token)], "token_time": until, "next_time": until}
        ringing = call.model_copy(update=waiting)
        if not await self._add(ringing, agent):
            stored = await self._records.get(call.call_id)
            if stored is None:
                raise CallsFull
            return await self._repeat(stored)
        self._deps.metrics.state(call.call_id, call.agent_id, "ringing")
        if call.channel == "phone":
            self.prepare(call, agent)
        return ringing, token

    async def _add(self, call: Call, agent: CompiledAgent) -> bool:
        """Stores a call if its agent has room for it. Returns False if it is stored already.

        Servers that store calls at the same time count again after the write, so that the limit
        is kept. Raises: CallsFull.
        """
        for attempt in range(_ADD_ATTEMPTS):
            if not await self._records.add(call):
                return False
            try:
                await self._count(agent, call.call_id)
            except CallsFull:
                await self._records.remove(call)
            else:
                return True
            if attempt < _ADD_ATTEMPTS - 1:
                await asyncio.sleep(random.uniform(0, 0.05 * 2**attempt))
                await self._count(agent, call.call_id)
        raise CallsFull

    async def _count(self, agent: CompiledAgent, but_for: str) -> None:
        """Raises CallsFull if the agent has its maximum of calls, on all servers together."""
        now = self._deps.clock()
        calls = await self._records.open_calls(agent.agent_id)
        current = [
            call
            for call in calls
            if call.status != "transferring" and (call.status != "ringing" or call.token_time > now)
        ]
        if sum(call.call_id != but_for for call in current) >= agent.document.limits.max_calls:
            raise CallsFull

    async def _repeat(self, call: Call) -> tuple[Call, str]:
        """Returns the call of a repeated webhook with another token.

        Raises: CallBlocked, CallEnded, SourceError.
        """
        if call.refusal is not None:
            agent = await self._deps.agents.compiled(call.agent_id, call.agent_version)
            raise self._refusal(agent, call.refusal)
        token = new_token(call.workspace, call.call_id)

        def with_token(call: Call) -> Call:
            if call.status != "ringing" or call.token_time <= self._deps.clock():
                return call
            hashes = [*call.token_hashes, digest_of(token)][-MAX_TOKENS:]
            return call.model_copy(update={"token_hashes": hashes})

        ringing = await self._records.change(call.call_id, with_token)
        if ringing is None:
            raise CallEnded(id=call.call_id)
        return ringing, token

    def _draft(self, call: Call, agent: CompiledAgent) -> Thread:
        """Returns the thread of a call, which is not stored."""
        graphs = agent.document.graphs
        owner = Person(call.owner, "viewer", call.workspace)
        new = self._deps.threads.begin(
            graphs[0] if graphs else "", owner, title=agent.document.agent.name
        )
        part = ThreadAgent(
            agent_id=call.agent_id,
            version=call.agent_version,
            channel="voice",
            caller_phone=call.caller_phone,
            called_phone=call.called_phone,
            call_sid=call.call_sid,
        )
        return self._deps.life.beginnings.draft(
            new.thread.model_copy(update={"key": call.call_id}), part
        )

    async def _check(self, call: Call, agent: CompiledAgent) -> None:
        """Runs the checks of the agent document. Raises: AgentBlocked."""
        await self._deps.life.beginnings.check(agent, self._draft(call, agent))

    def _refusal(self, agent: CompiledAgent, message: str) -> CallBlocked:
        language = say_language(agent, self._deps.life.locale)
        return CallBlocked(message=message, voice=agent.document.voice.say_voice, language=language)

    def prepare(self, call: Call, agent: CompiledAgent) -> None:
        """Begins the setup of a call; it is closed if no stream is opened in time."""
        setup = self._new_setup(self._deps, agent, self._draft(call, agent), None)
        self._begin(call, setup, token_s(call, agent))

    def prepare_return(self, call: Call, agent: CompiledAgent, stored: StoredThread) -> None:
        """Begins the setup of a call whose caller comes back after a transfer."""
        earlier = EarlierPart(call=call, stored=stored)
        setup = self._new_setup(self._deps, agent, stored.thread, earlier)
        self._begin(call, setup, TOKEN_S[call.channel])

    def _begin(self, call: Call, setup: CallSetup, within_s: float) -> None:
        setup.begin()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(within_s + 1.0, self.abandon, call.call_id)
        self._setups[call.call_id] = (setup, timer)

    async def take_setup(self, call: Call) -> CallSetup:
        """Returns the setup of an answered call and gives up its ownership.

        Raises: AgentBlocked for a call whose checks were postponed, AgentError, ThreadError.
        """
        if call.call_id not in self._setups:
            agent = await self._deps.agents.compiled(call.agent_id, call.agent_version)
            if call.returns:
                stored = await self._deps.threads.get_of(call.call_id, call.workspace)
                self.prepare_return(call, agent, stored)
            else:
                if call.channel != "phone":
                    await self._check(call, agent)
                self.prepare(call, agent)
        setup, timer = self._setups.pop(call.call_id)
        timer.cancel()
        return setup

    def abandon(self, call_id: str) -> None:
        """Closes the setup of a call that is not going to be served."""
        if (entry := self._setups.pop(call_id, None)) is not None:
            task = asyncio.create_task(entry[0].close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
