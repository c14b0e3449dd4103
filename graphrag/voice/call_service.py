"""The telephone calls of one workspace: begun, answered, served, ended and shown, each call once.

Several servers may share a database. The server that answers a call holds the lease of its thread
until the end. Any server ends calls whose server was killed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from hmac import compare_digest
from typing import Any, Final, Unpack, final

from datasources.errors import BadDocument, SourceError
from graphrag.agent.thread_store import KIND as THREAD
from graphrag.agent.thread_store import Thread, ThreadError, ThreadNotFound
from graphrag.agent.turn_lease import TurnLease
from graphrag.agents.errors import AgentBlocked, AgentError
from graphrag.agents.voice_fields import VoiceEngine
from graphrag.approvals import Approval
from graphrag.bridge.phone_messages import PhoneSide, StreamStart
from graphrag.bridge.signals import CallOver
from graphrag.roles import Person
from graphrag.voice import errors
from graphrag.voice.active_call import ActiveCall
from graphrag.voice.call_endings import CallEndings
from graphrag.voice.call_feed import CallFeed, stored_feed
from graphrag.voice.call_records import KIND, WATCHED_MS, Call, CallRecords, call_document
from graphrag.voice.call_setup import CallSetup
from graphrag.voice.dependencies import CallDependencies
from graphrag.voice.follow_up import FollowUp, after_call, after_dial, fallback_of
from graphrag.voice.incoming_calls import CHECK_TIMEOUT_S, IncomingCalls, IncomingFacts, NewSetup
from graphrag.voice.recordings import StreamOpening, opening_of, with_recording
from graphrag.voice.stream_tokens import digest_of, read_token
from graphrag.voice.transfers import STATUS_CHARS, Transfers, with_result

log = logging.getLogger(__name__)

AFTER_S: Final = 8.0  # wait for the end of a call; the telephone service waits for 15 s
POLL_S: Final = 0.1
CURRENT: Final = 0  # version of the current agent, for calls without a record
TAKING_MS: Final = 2_000  # between the answer of a call and its lease

NewCall = Callable[[CallSetup, PhoneSide, StreamStart, TurnLease], ActiveCall]


@final
class CallService:
    """Begins, serves, ends and shows the calls of one workspace.

    `new_setup` and `new_call` create what prepares a call and what serves it.
    """

    def __init__(
        self,
        deps: CallDependencies,
        *,
        new_setup: NewSetup = CallSetup,
        new_call: NewCall = ActiveCall,
    ) -> None:
        self.deps = deps
        self.records = deps.records
        self.slots = deps.slots
        self.endings = CallEndings(deps)
        self._incoming = IncomingCalls(deps, self.endings, new_setup=new_setup)
        self._transfers = Transfers(deps, self.endings, self._incoming)
        self._new_call = new_call

    async def begin(self, agent_id: str, **facts: Unpack[IncomingFacts]) -> tuple[Call, str]:
        """Stores a ringing call. Returns it with its token. See `IncomingCalls.begin`."""
        return await self._incoming.begin(agent_id, **facts)

    async def opening(self, call: Call) -> StreamOpening:
        """Returns what happens before the first stream of a call. Raises: AgentError."""
        agent = await self.deps.agents.compiled(call.agent_id, call.agent_version)
        return opening_of(agent, self.deps.life.locale)

    async def recorded(self, call_id: str, report: Mapping[str, str]) -> None:
        """Stores what the telephone service reports of a recording. Raises: SourceError.

        A recording may be complete only after its call was forgotten.
        """
        now = self.deps.clock()
        call = await self.records.change(
            call_id, lambda call: with_recording(call, report, now), when_over=True
        )
        if call is not None:
            facts = {"call_id": call_id, "agent_id": call.agent_id}
            log.info("call_recorded", extra=facts | {"status": call.recordings[-1].status})

    async def take(
        self, token: str, call_sid: str | None, engine: VoiceEngine = "realtime"
    ) -> Call:
        """Answers the call of a token, which is valid once, only with its CallSid, and only for a
        stream in the protocol of its engine.

        Raises: StreamRefused, CallsFull, SourceError.
        """
        workspace, call_id = read_token(token)
        if workspace != self.records.workspace or not self.deps.answers(engine):
            raise errors.StreamRefused

        def answered(call: Call) -> Call:
            now = self.deps.clock()
            is_valid = any(compare_digest(digest_of(token), stored) for stored in call.token_hashes)
            if not is_valid or call.status != "ringing" or call.token_time <= now:
                return call
            if call.engine != engine:
                return call
            if call.call_sid is not None and call.call_sid != call_sid:  # the token was stolen
                return call.model_copy(
                    update={"token_hashes": [], "token_time": now, "next_time": now}
                )
            changes: dict[str, Any] = {"status": "active", "taken_time": now, "token_hashes": []}
            changes["answered_time"] = call.answered_time or now
            return call.model_copy(update=changes | {"next_time": now + WATCHED_MS})

        call = await self.records.change(call_id, answered)
        if call is None or call.status != "active":
            raise errors.StreamRefused
        try:
            # Another process may have received the webhook.
            self.slots.reserve(call.call_id, CHECK_TIMEOUT_S, caller=call.caller)
        except errors.CallsFull:
            await self.endings.over(call.call_id, "model_unreachable")
            raise
        self.deps.metrics.state(call.call_id, call.agent_id, "active")
        return call

    async def serve(self, call: Call, phone: PhoneSide, start: StreamStart) -> None:
        """Serves an answered call until it is over, under the lease of its thread.

        Raises: ThreadBusy if another process has ended it, SourceError.
        """
        try:
            async with self.deps.leases.held(call.call_id) as hold:
                await self._hold(call, phone, start, hold)
        finally:
            self._incoming.abandon(call.call_id)
            self.slots.give_back(call.call_id)
            # another server may have ended the call
            self.deps.metrics.state(call.call_id, call.agent_id, None)

    async def _hold(
        self, call: Call, phone: PhoneSide, start: StreamStart, hold: TurnLease
    ) -> None:
        stored = await self.records.get(call.call_id)
        if stored is None or stored.status != "active":  # ended before the lease was acquired
            await phone.close()
            return
        over = CallOver("error")
        facts = {"call_id": call.call_id, "agent_id": call.agent_id}
        try:
            setup = await self._incoming.take_setup(call)
            active = self._new_call(setup, phone, start, hold)
        except Exception as exc:
            if isinstance(exc, AgentBlocked):
                over = CallOver("blocked")
            else:
                log.exception("call_failed", extra=facts)
            await self._end(call, over)
            await phone.close()
            return
        with self.slots.serving(call.call_id, active, caller=call.caller):
            try:
                over = await active.serve()
            except asyncio.CancelledError:
                over = CallOver("draining")
                raise
            except Exception:
                log.exception("call_failed", extra=facts)
            finally:
                await asyncio.shield(self._end(call, over, active.feed))

    async def _end(self, call: Call, over: CallOver, feed: CallFeed | None = None) -> None:
        """Stores the end of a call that was served here, while its lease is held."""
        changes: dict[str, Any] = {"status": "ending", "end_reason": over.reason}
        changes |= {"destination": over.destination, "said_goodbye": over.said_goodbye}
        outcome, ended = None, None
        try:
            await self.records.change(
                call.call_id, lambda stored: stored.model_copy(update=changes)
            )
            if await self._transferred(call, over):
                if feed is not None:
                    feed.add({"type": "call:state", "status": "transferring"})
                    feed.close()
                return
            with suppress(ThreadNotFound):
                await self.deps.life.endings.end_held(call.call_id, over.reason)
            ended = await self.endings.over(call.call_id, over.reason)
            outcome = ended.outcome if ended is not None else None
        except (
            ThreadError,
            AgentError,
            BadDocument,
            SourceError,
        ) as exc:  # the next check of open calls ends it
            facts = {"call_id": call.call_id, "agent_id": call.agent_id}
            log.warning("call_not_ended", extra=facts | {"error": type(exc).__name__})
        if feed is not None:
            feed.add(
                {
                    "type": "call:ended",
                    "callId": call.call_id,
                    "outcome": outcome,
                    "reason": over.reason,
                }
            )
            feed.close()
        if over.reason in ("model_unreachable", "model_refused"):
            refusal = None
            if over.reason == "model_refused" and ended is not None:
                refusal = ended.model_error
            with suppress(AgentError):
                await self.deps.agents.model_failed(call.agent_id, refusal)

    async def _transferred(self, call: Call, over: CallOver) -> bool:
        """Returns True if the caller is being transferred by the telephone service."""
        if over.reason != "transferred" or over.destination is None or call.channel != "phone":
            return False
        return await self._transfers.begin(call, over.destination)

    async def after(self, call_id: str) -> FollowUp:
        """Returns the follow-up of an ended stream, a hang-up for an unknown call.

        Raises: SourceError.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + AFTER_S
        call = await self.records.get(call_id)
        if call is not None and call.status == "ringing":  # its stream was never opened
            return (
                FollowUp() if await self.endings.end_unopened(call) else await self.after(call_id)
            )
        with self.records.stored.notices.subscribed(KIND, key=call_id) as inbox:
            while call is not None and call.status == "active" and loop.time() < until:
                if self.deps.clock() > (call.taken_time or 0) + TAKING_MS:
                    await self.endings.recover(call)
                await inbox.wait(POLL_S)
                call = await self.records.get(call_id)
        if call is None:
            return FollowUp()
        try:
            agent = await self.deps.agents.compiled(call.agent_id, call.agent_version)
        except AgentError:
            return FollowUp()
        after = after_call(call, agent, self.deps.life.locale)
        return await self._transfers.dialling(call, after)

    async def after_dial(
        self,
        call_id: str,
        *,
        agent_id: str,
        tried: Sequence[str],
        number: int | None,
        report: Mapping[str, str],
    ) -> FollowUp:
        """Returns the follow-up of an ended attempt to transfer, a hang-up for an unknown agent.

        `number`: of the attempt in the record. `report`: the form of the telephone service. A call
        that was forwarded when it rang has no record. Raises: SourceError.
        """
        await self._transferring(call_id)
        call = await self.records.change(
            call_id, lambda call: with_result(call, number, report), when_over=True
        )
        status = report.get("DialCallStatus", "")
        facts = {"call_id": call_id, "agent_id": agent_id, "status": status[:STATUS_CHARS]}
        log.info("call_dialled", extra=facts)
        try:
            version = call.agent_version if call is not None else CURRENT
            agent = await self.deps.agents.compiled(agent_id, version)
            if call is None:
                return after_dial(agent, self.deps.life.locale, tried, status)
            return await self._transfers.over(call, agent, tried, report)
        except (AgentError, ThreadError) as exc:
            failed = {"call_id": call_id, "agent_id": agent_id, "error": type(exc).__name__}
            log.warning("transfer_not_continued", extra=failed)
            return FollowUp()

    async def answered(self, call_id: str, number: int) -> FollowUp:
        """Returns what is read to the person who answered a transfer. Raises: SourceError."""
        try:
            return await self._transfers.answered(call_id, number)
        except AgentError:
            return FollowUp()

    async def _transferring(self, call_id: str) -> None:
        """Waits until the agent's part of a transferred call is over; at most `AFTER_S`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(AFTER_S):
                with self.records.stored.notices.subscribed(KIND, key=call_id) as inbox:
                    while (call := await self.records.get(call_id)) is not None:
                        if call.end_reason != "transferred" or call.status != "ending":
                            return
                        await inbox.wait(POLL_S)

    async def passed_on(self, agent_id: str, call_sid: str | None) -> tuple[str, FollowUp] | None:
        """Returns the call's id and the follow-up that connects the caller with the fallback.

        None if the agent document names no fallback. Raises: SourceError.
        """
        try:
            after = fallback_of(await self.deps.agents.compiled(agent_id, CURRENT))
        except AgentError:
            return None
        return None if after is None else (self.records.call_id_of(call_sid), after)

    # -- people

    async def get(self, call_id: str, person: Person) -> Call:
        """Returns a call to a reviewer or to its caller. Raises: CallNotFound, CallForbidden."""
        if not person.at_least("editor"):
            raise errors.CallForbidden
        call = (
            await self.records.get(call_id) if person.workspace == self.records.workspace else None
        )
        if call is None:
            raise errors.CallNotFound(id=call_id)
        if not person.at_least("reviewer") and call.user_id != person.user_id:
            raise errors.CallForbidden
        return call

    async def document(self, call_id: str, person: Person) -> dict[str, Any]:
        """Returns the record of a call joined with its thread. Raises: as `get`."""
        return call_document(*await self.conversation(call_id, person))

    async def conversation(self, call_id: str, person: Person) -> tuple[Call, Thread | None]:
        """Returns a call with its thread, None before its answer and after it was forgotten.

        Raises: as `get`.
        """
        call = await self.get(call_id, person)
        return call, await self.endings.thread(call)

    def listed(self, person: Person) -> CallRecords:
        """Returns the records of calls for a reviewer. Raises: CallForbidden."""
        if not person.at_least("reviewer") or person.workspace != self.records.workspace:
            raise errors.CallForbidden
        return self.records

    async def end(self, call_id: str, person: Person) -> Call:
        """Ends a call after a goodbye, on any server. Raises: as `get`, CallEnded."""
        call = await self.get(call_id, person)
        if not call.is_open:
            raise errors.CallEnded(id=call_id)
        if (active := self.slots.running(call_id)) is not None:
            active.end_soon("ended_by_person")
        elif call.status == "ringing":
            call = await self.endings.end_unopened(call) or call
        elif not await self.deps.leases.ask_to_stop(call_id, "ended_by_person"):
            call = await self.endings.recover(call) or call
        return call

    async def forget(self, call_id: str, person: Person) -> list[str]:
        """Deletes the personal data of a call now.

        Returns the ids of recordings to delete at the telephone service.
        Raises: as `get`, CallOpen, ThreadBusy.
        """
        call = await self.get(call_id, person)
        if not person.at_least("admin"):
            raise errors.CallForbidden
        if call.is_open:
            raise errors.CallOpen(id=call_id)
        await self.endings.forget(call)
        return [recording.sid for recording in call.recordings if recording.status != "absent"]

    async def follow(self, call_id: str, person: Person) -> AsyncGenerator[dict[str, Any]]:
        """Yields the messages of a call from its beginning until it ends. Raises: as `get`."""
        await self.get(call_id, person)
        if (active := self.slots.running(call_id)) is not None:
            async for message in active.feed.follow():
                yield message
                if message["type"] == "call:ended":
                    return
            # A follower that is too slow continues with the stored messages.

        async def read() -> tuple[Call, Thread | None]:
            call = await self.get(call_id, person)
            return call, await self.endings.thread(call)

        # A call and its thread have the same key.
        with self.records.stored.notices.subscribed(KIND, THREAD, key=call_id) as inbox:
            async for message in stored_feed(call_id, read, inbox):
                yield message

    async def decided(self, approval: Approval) -> None:
        """Tells the model of a running call the decision about its proposal."""
        if (active := self.slots.running(approval.thread_id or "")) is not None:
            await active.decided(approval.id)
