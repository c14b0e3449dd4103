"""Telephone calls that ring: stored once, where their agent, this process and their
checks let them.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import Thread
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.errors import AgentBlocked
from graphrag.roles import Person
from graphrag.voice.call_after import say_language
from graphrag.voice.call_errors import AgentInChatOnly, CallBlocked, CallEnded, CallsFull
from graphrag.voice.call_life import CallLife
from graphrag.voice.call_opening import CallOpening
from graphrag.voice.call_parts import CallParts
from graphrag.voice.call_records import Call, CallChannel
from graphrag.voice.call_tokens import digest_of, new_token

HELD_S: Final = {"phone": 15.0, "browser": 60.0, "simulated": 60.0}
"""So long a token holds; in a browser somebody has to allow the microphone first."""
CHECKS_S: Final = 6.0
"""So long the checks of a document may take."""
MOST_TOKENS: Final = 4
"""Of one call, each time its webhook is repeated."""
_TRIES: Final = 4


class RingingCalls:
    """Begins the calls of one workspace."""

    def __init__(self, parts: CallParts) -> None:
        self.parts = parts
        self.records = parts.records
        self.places = parts.places
        self.ends = CallLife(parts)
        self._openings: dict[str, tuple[CallOpening, asyncio.TimerHandle]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def begin(
        self,
        agent_id: str,
        *,
        caller_phone: str | None = None,
        called_phone: str | None = None,
        channel: CallChannel = "phone",
        call_sid: str | None = None,
        user_id: str | None = None,
    ) -> tuple[Call, str]:
        """Store a call that rings; return it with the token that opens its stream.

        One whose `call_sid` is known is the same call again. The checks of a call from the browser
        run when it is answered.
        Raises: AgentNotFound, AgentNotRunning, AgentInChatOnly, CallsFull, CallBlocked, CallEnded,
        SourceError.
        """
        call_id = self.records.call_id_of(call_sid)
        if call_sid is not None and (known := await self.records.get(call_id)) is not None:
            return await self._again(known)
        agent, version = await self.parts.agents.running_version(agent_id)
        if "voice" not in agent.document.channels:
            raise AgentInChatOnly(id=agent_id)
        if self.parts.models is None:
            raise CallsFull
        call = Call(
            call_id=call_id,
            agent_id=agent_id,
            agent_version=version,
            workspace=self.records.workspace,
            channel=channel,
            user_id=user_id,
            call_sid=call_sid,
            caller_phone=caller_phone,
            called_phone=called_phone,
            started_time=self.parts.clock(),
        )
        self.places.reserve(call_id, CHECKS_S + HELD_S[channel], caller=call.caller)
        try:
            return await self._ring(call, agent)
        except BaseException:
            self.places.give_back(call_id)
            raise

    async def _ring(self, call: Call, agent: CompiledAgent) -> tuple[Call, str]:
        await self._count(agent, call.call_id)  # its webhook may have come twice
        if call.channel == "phone":
            try:
                await self._check(call, agent)
            except AgentBlocked as blocked:
                now = self.parts.clock()
                changes: dict[str, Any] = {"refusal": blocked.message, "end_reason": "blocked"}
                changes |= {
                    "status": "ended",
                    "ended_time": now,
                    "next_time": now + self.ends.kept_ms,
                }
                await self.records.add(call.model_copy(update=changes))
                raise self._refusal(agent, blocked.message) from None
        token = new_token(call.workspace, call.call_id)
        until = self.parts.clock() + round(HELD_S[call.channel] * 1000)
        waits = {"token_hashes": [digest_of(token)], "token_time": until, "next_time": until}
        ringing = call.model_copy(update=waits)
        if not await self._add(ringing, agent):
            known = await self.records.get(call.call_id)
            if known is None:
                raise CallsFull
            return await self._again(known)
        self.parts.watch.state(call.call_id, call.agent_id, "ringing")
        if call.channel == "phone":
            self._open(call, agent)
        return ringing, token

    async def _add(self, call: Call, agent: CompiledAgent) -> bool:
        """Store a call if its agent has room for it, also where several servers store one
        at this moment.

        Each counts after it stored: at most as many stay as may be. False: the call
        was there already.
        """
        for attempt in range(_TRIES):
            if not await self.records.add(call):
                return False
            try:
                await self._count(agent, call.call_id)
            except CallsFull:
                await self.records.remove(call)
            else:
                return True
            if attempt < _TRIES - 1:
                await asyncio.sleep(random.uniform(0, 0.05 * 2**attempt))
                await self._count(agent, call.call_id)
        raise CallsFull

    async def _count(self, agent: CompiledAgent, but_for: str) -> None:
        """Raises: CallsFull where the agent has all the calls that it may have,
        on all servers together.
        """
        now = self.parts.clock()
        found = await self.records.open_calls(agent.agent_id)
        waiting = [each for each in found if each.status != "ringing" or each.token_time > now]
        if sum(each.call_id != but_for for each in waiting) >= agent.document.limits.max_calls:
            raise CallsFull

    async def _again(self, call: Call) -> tuple[Call, str]:
        """Return a call for which the webhook came again. Raises:
        CallBlocked, CallEnded, SourceError.
        """
        if call.refusal is not None:
            agent = await self.parts.agents.compiled(call.agent_id, call.agent_version)
            raise self._refusal(agent, call.refusal)
        token = new_token(call.workspace, call.call_id)

        def another(call: Call) -> Call:
            if call.status != "ringing" or call.token_time <= self.parts.clock():
                return call
            hashes = [*call.token_hashes, digest_of(token)][-MOST_TOKENS:]
            return call.model_copy(update={"token_hashes": hashes})

        ringing = await self.records.change(call.call_id, another)
        if ringing is None:
            raise CallEnded(id=call.call_id)
        return ringing, token

    def _draft(self, call: Call, agent: CompiledAgent) -> Thread:
        """Return the thread that a call will have; nothing is stored."""
        graphs = agent.document.graphs
        owner = Person(call.owner, "viewer", call.workspace)
        new = self.parts.threads.begin(
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
        return self.parts.life.beginnings.draft(
            new.thread.model_copy(update={"key": call.call_id}), part
        )

    async def _check(self, call: Call, agent: CompiledAgent) -> None:
        """Raises: AgentBlocked."""
        await self.parts.life.beginnings.check(agent, self._draft(call, agent))

    def _refusal(self, agent: CompiledAgent, message: str) -> CallBlocked:
        language = say_language(agent, self.parts.life.locale)
        return CallBlocked(message=message, voice=agent.document.voice.say_voice, language=language)

    def _open(self, call: Call, agent: CompiledAgent) -> None:
        """Get ready what the call will need, and leave it where no stream comes."""
        opening = self.new_opening(agent, self._draft(call, agent))
        opening.begin()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(HELD_S[call.channel] + 1.0, self._leave, call.call_id)
        self._openings[call.call_id] = (opening, timer)

    def new_opening(self, agent: CompiledAgent, thread: Thread) -> CallOpening:
        """Return what gets ready before the stream comes. `thread`: the draft of the call's."""
        return CallOpening(self.parts, agent, thread)

    def _leave(self, call_id: str) -> None:
        if (found := self._openings.pop(call_id, None)) is not None:
            task = asyncio.create_task(found[0].close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
