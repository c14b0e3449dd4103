"""The telephone calls of one workspace: they ring, are answered, held and ended, each once.

Any server may have one over the same database. The one that answers a call holds the lease of its
thread until the end; whichever server looks first ends what was left behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from hmac import compare_digest
from typing import Any, Final

from datasources.errors import BadDocument, SourceError
from graphrag.agent.thread_store import Thread, ThreadError, ThreadNotFound
from graphrag.agent.turn_lease import TurnLease
from graphrag.agents.errors import AgentBlocked, AgentError
from graphrag.approvals import Approval
from graphrag.roles import Person
from graphrag.voice import call_errors
from graphrag.voice.call_after import AfterCall, after_call, after_dial, fallback_of
from graphrag.voice.call_feed import CallFeed, stored_feed
from graphrag.voice.call_opening import CallOpening
from graphrag.voice.call_records import WATCHED_MS, Call, CallRecords, call_document
from graphrag.voice.call_runner import CallRunner
from graphrag.voice.call_tokens import digest_of, read_token
from graphrag.voice.phone_messages import PhoneSide, StreamStart
from graphrag.voice.ringing_calls import CHECKS_S, RingingCalls
from graphrag.voice.signals import CallOver

log = logging.getLogger(__name__)

AFTER_S: Final = 8.0
"""So long it is waited for the end of a call whose stream has ended; the telephone service waits
for 15 s.
"""
POLL_S: Final = 0.1
CURRENT: Final = 0  # version of an agent that is not kept: the current one is taken
STATUS_CHARS: Final = 20
TAKING_MS: Final = 2_000
"""So long after its answer a call without lease may be about to take it."""


class Calls(RingingCalls):
    """Begins, holds, ends and shows the calls of one workspace."""

    async def take(self, token: str, call_sid: str | None) -> Call:
        """Answer the call that a token is for; it holds once, and for its CallSid only.

        Raises: StreamRefused, CallsFull, SourceError.
        """
        workspace, call_id = read_token(token)
        if workspace != self.records.workspace or self.parts.models is None:
            raise call_errors.StreamRefused

        def answered(call: Call) -> Call:
            now = self.parts.clock()
            holds = any(compare_digest(digest_of(token), known) for known in call.token_hashes)
            if not holds or call.status != "ringing" or call.token_time <= now:
                return call
            if call.call_sid is not None and call.call_sid != call_sid:  # it was stolen
                return call.model_copy(
                    update={"token_hashes": [], "token_time": now, "next_time": now}
                )
            changes: dict[str, Any] = {"status": "active", "answered_time": now, "token_hashes": []}
            return call.model_copy(update=changes | {"next_time": now + WATCHED_MS})

        call = await self.records.change(call_id, answered)
        if call is None or call.status != "active":
            raise call_errors.StreamRefused
        try:
            # Another process may have had the webhook.
            self.places.reserve(call.call_id, CHECKS_S, caller=call.caller)
        except call_errors.CallsFull:
            await self.ends.over(call.call_id, "model_unreachable")
            raise
        self.parts.watch.state(call.call_id, call.agent_id, "active")
        return call

    async def serve(self, call: Call, phone: PhoneSide, start: StreamStart) -> None:
        """Hold a call that was taken until it is over, under the lease of its thread.

        Raises: ThreadBusy where another process ended it meanwhile, SourceError.
        """
        try:
            async with self.parts.leases.held(call.call_id) as hold:
                await self._hold(call, phone, start, hold)
        finally:
            self._leave(call.call_id)
            self.places.give_back(call.call_id)
            self.parts.watch.state(call.call_id, call.agent_id, None)  # whatever server ended it

    async def _hold(
        self, call: Call, phone: PhoneSide, start: StreamStart, hold: TurnLease
    ) -> None:
        known = await self.records.get(call.call_id)
        if known is None or known.status != "active":  # it was ended before the lease was held
            await phone.close()
            return
        over = CallOver("error")
        try:
            runner = self.new_runner(await self._opening(call), phone, start, hold)
        except Exception as exc:
            if isinstance(exc, AgentBlocked):
                over = CallOver("blocked")
            else:
                log.exception("call_failed", extra={"call_id": call.call_id})
            await self._end(call, over)
            await phone.close()
            return
        with self.places.serving(call.call_id, runner, caller=call.caller):
            try:
                over = await runner.serve()
            except asyncio.CancelledError:
                over = CallOver("draining")
                raise
            except Exception:
                log.exception("call_failed", extra={"call_id": call.call_id})
            finally:
                await asyncio.shield(self._end(call, over, runner.feed))

    async def _opening(self, call: Call) -> CallOpening:
        """Return what was got ready. Raises: AgentBlocked of a call whose checks had
        to wait, AgentError.
        """
        if call.call_id not in self._openings:
            agent = await self.parts.agents.compiled(call.agent_id, call.agent_version)
            if call.channel != "phone":
                await self._check(call, agent)
            self._open(call, agent)
        opening, timer = self._openings.pop(call.call_id)
        timer.cancel()
        return opening

    def new_runner(
        self, opening: CallOpening, phone: PhoneSide, start: StreamStart, hold: TurnLease
    ) -> CallRunner:
        """Return what serves a call whose stream has started."""
        return CallRunner(opening, phone, start, hold)

    async def _end(self, call: Call, over: CallOver, feed: CallFeed | None = None) -> None:
        """Store the end of a call that was served here, whose lease is still held."""
        changes: dict[str, Any] = {"status": "ending", "end_reason": over.reason}
        changes |= {"destination": over.destination, "said_goodbye": over.said_goodbye}
        outcome, ended = None, None
        try:
            await self.records.change(call.call_id, lambda known: known.model_copy(update=changes))
            with suppress(ThreadNotFound):
                await self.parts.life.endings.end_held(call.call_id, over.reason)
            ended = await self.ends.over(call.call_id, over.reason)
            outcome = ended.outcome if ended is not None else None
        except (
            ThreadError,
            AgentError,
            BadDocument,
            SourceError,
        ) as exc:  # who looks at it next ends it
            log.warning(
                "call_not_ended", extra={"call_id": call.call_id, "error": type(exc).__name__}
            )
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
            said = (
                ended.model_error if over.reason == "model_refused" and ended is not None else None
            )
            with suppress(AgentError):
                await self.parts.agents.model_failed(call.agent_id, said)

    async def after(self, call_id: str) -> AfterCall:
        """Return what the telephone service does when a stream has ended; of an unknown call
        it hangs up.

        Raises: SourceError.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + AFTER_S
        call = await self.records.get(call_id)
        if call is not None and call.status == "ringing":  # its stream never came
            return AfterCall() if await self.ends.not_come(call) else await self.after(call_id)
        while call is not None and call.status == "active" and loop.time() < until:
            if self.parts.clock() > (call.answered_time or 0) + TAKING_MS:
                await self.ends.recover(call)
            await asyncio.sleep(POLL_S)
            call = await self.records.get(call_id)
        if call is None:
            return AfterCall()
        try:
            agent = await self.parts.agents.compiled(call.agent_id, call.agent_version)
        except AgentError:
            return AfterCall()
        return after_call(call, agent, self.parts.life.locale)

    async def after_dial(
        self, call_id: str, *, agent_id: str, tried: Sequence[str], status: str
    ) -> AfterCall:
        """Returns what the telephone service does when a transfer has ended; of an unknown call
        it hangs up.

        A call that was passed on when it rang has no record. Raises: SourceError.
        """
        noted = {"dial_status": status[:STATUS_CHARS]}
        call = await self.records.change(
            call_id, lambda call: call.model_copy(update=noted), when_over=True
        )
        log.info(
            "call_dialled",
            extra={"call_id": call_id, "agent_id": agent_id, "status": noted["dial_status"]},
        )
        try:
            version = call.agent_version if call is not None else CURRENT
            agent = await self.parts.agents.compiled(agent_id, version)
        except AgentError:
            return AfterCall()
        return after_dial(agent, self.parts.life.locale, tried, status)

    async def passed_on(self, agent_id: str, call_sid: str | None) -> tuple[str, AfterCall] | None:
        """Returns what connects a caller with somebody else whom an agent cannot serve, with
        the call's id.

        None: the document names nobody. Raises: SourceError.
        """
        try:
            after = fallback_of(await self.parts.agents.compiled(agent_id, CURRENT))
        except AgentError:
            return None
        return None if after is None else (self.records.call_id_of(call_sid), after)

    # -- people

    async def get(self, call_id: str, person: Person) -> Call:
        """Return a call for a reviewer, or for who talks in it. Raises: CallNotFound,
        CallForbidden.
        """
        if not person.at_least("editor"):
            raise call_errors.CallForbidden
        call = (
            await self.records.get(call_id) if person.workspace == self.records.workspace else None
        )
        if call is None:
            raise call_errors.CallNotFound(id=call_id)
        if not person.at_least("reviewer") and call.user_id != person.user_id:
            raise call_errors.CallForbidden
        return call

    async def document(self, call_id: str, person: Person) -> dict[str, Any]:
        """Return a call whole, as `get` finds it."""
        call = await self.get(call_id, person)
        return call_document(call, await self.ends.thread(call))

    def listed(self, person: Person) -> CallRecords:
        """Return the records to list for a reviewer. Raises: CallForbidden."""
        if not person.at_least("reviewer") or person.workspace != self.records.workspace:
            raise call_errors.CallForbidden
        return self.records

    async def end(self, call_id: str, person: Person) -> Call:
        """Let a call end, after a goodbye, wherever it is served. Raises: as `get`, CallEnded."""
        call = await self.get(call_id, person)
        if not call.is_open:
            raise call_errors.CallEnded(id=call_id)
        if (server := self.places.running(call_id)) is not None:
            server.end_soon("ended_by_person")
        elif call.status == "ringing":
            call = await self.ends.not_come(call) or call
        elif not await self.parts.leases.ask_to_stop(call_id, "ended_by_person"):
            call = await self.ends.recover(call) or call
        return call

    async def forget(self, call_id: str, person: Person) -> None:
        """Remove at once what is stored of a call beside its sums. Raises: as
        `get`, CallOpen, ThreadBusy.
        """
        call = await self.get(call_id, person)
        if not person.at_least("admin"):
            raise call_errors.CallForbidden
        if call.is_open:
            raise call_errors.CallOpen(id=call_id)
        await self.ends.forget(call)

    async def follow(self, call_id: str, person: Person) -> AsyncGenerator[dict[str, Any]]:
        """Yield what happened in a call and what happens, until it ends. Raises: as `get`."""
        await self.get(call_id, person)
        if (server := self.places.running(call_id)) is not None:
            async for message in server.feed.follow():
                yield message
                if message["type"] == "call:ended":
                    return
            # A follower that is too slow goes on with what is stored.

        async def read() -> tuple[Call, Thread | None]:
            call = await self.get(call_id, person)
            return call, await self.ends.thread(call)

        async for message in stored_feed(call_id, read):
            yield message

    async def decided(self, approval: Approval) -> None:
        """Tell the caller of a proposal at once what was decided, if the call is held here."""
        if (server := self.places.running(approval.thread_id or "")) is not None:
            await server.decided(approval.id)
