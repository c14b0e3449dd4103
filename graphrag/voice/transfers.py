"""Transfers of calls: records each attempt, then ends the call or gives the caller back to the
agent.

Decision: the conversation stays open until the telephone service says how the last attempt ended,
so that its outcome and requests know whether somebody answered, and the agent can go on with the
same values. The time of its end is that of the agent's last word.

Source: https://www.twilio.com/docs/voice/twiml/dial (`action`, `DialCallStatus`) and
https://www.twilio.com/docs/voice/twiml/number (`url`: read to the person who answers).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, final

from graphrag.agent.thread_store import Thread, ThreadBusy, ThreadNotFound
from graphrag.agents.chat_values import agent_part, language_of, transcript_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.toolbox import SUMMARY_CHARS
from graphrag.i18n import Language, text
from graphrag.voice.call_endings import CallEndings
from graphrag.voice.call_records import Call, TransferAttempt
from graphrag.voice.dependencies import CallDependencies
from graphrag.voice.errors import CallsFull
from graphrag.voice.follow_up import (
    MAX_TRIED,
    FollowUp,
    after_dial,
    given_back,
    is_answered,
    spoken,
)
from graphrag.voice.incoming_calls import CHECK_TIMEOUT_S, TOKEN_S, IncomingCalls
from graphrag.voice.stream_tokens import digest_of, new_token

log = logging.getLogger(__name__)

MAX_RETURNS: Final = 2  # of one caller to the agent
MAX_ATTEMPTS: Final = MAX_TRIED * (MAX_RETURNS + 1)  # recorded of one call
BEGIN_MS: Final = 60_000  # until an attempt begins, and after its ringing time
TALK_MS: Final = 14_700_000  # Twilio ends a dialled call after four hours
# until a conversation without any report counts as lost: longer than all attempts and the talk
KEEP_MS: Final = 28_800_000
MAX_SECONDS: Final = 86_400
STATUS_CHARS: Final = 20
LAST_ENTRIES: Final = 2  # of the caller, in the summary of a call without one by the model


@final
class Transfers:
    """The transfers of the calls of one workspace."""

    def __init__(
        self, deps: CallDependencies, endings: CallEndings, incoming: IncomingCalls
    ) -> None:
        self._deps = deps
        self._records = deps.records
        self._endings = endings
        self._incoming = incoming

    async def begin(self, call: Call, destination: str) -> bool:
        """Keeps the conversation of a call open while its caller is transferred.

        The caller of this method holds the lease of the call. Returns False if the call is over.
        Raises: ThreadError, AgentError, SourceError.
        """
        now = self._deps.clock()
        agent = await self._deps.agents.compiled(call.agent_id, call.agent_version)
        chosen = agent.document.voice.destinations.get(destination)
        thread = await self._endings.thread(call)
        if chosen is None or thread is None:
            return False
        ctx = agent_part(thread).ctx
        language = language_of(agent, self._deps.life.locale)
        summary = ctx.get("transfer_summary") or _last_words(thread, language)
        posts = chosen.summary == "posted" and agent.document.lifecycle.on_transfer is not None
        kept = await self._deps.life.endings.keep_held(
            call.call_id,
            ctx={"transfer_summary": summary},
            until=now + KEEP_MS,
            transfer=call.returns + 1 if posts else 0,
        )
        if kept is None:
            return False
        changes: dict[str, Any] = {"status": "transferring", "transferred_time": now}

        def transferring(call: Call) -> Call:
            return call.model_copy(
                update=changes | {"next_time": max(call.next_time or 0, now + BEGIN_MS)}
            )

        facts = {"agent_id": call.agent_id, "call_id": call.call_id, "destination": destination}
        log.info("call_transferred", extra=facts)
        return await self._records.change(call.call_id, transferring) is not None

    async def dialling(self, call: Call, after: FollowUp) -> FollowUp:
        """Records the attempt that a follow-up begins. Returns the follow-up with its number.

        A repeated request begins no second attempt. Raises: SourceError.
        """
        if not after.tried:
            return after
        name = after.tried[-1]
        now = self._deps.clock()

        def with_attempt(call: Call) -> Call:
            if call.transfers and call.transfers[-1].status is None:
                return call
            if len(call.transfers) >= MAX_ATTEMPTS:
                return call
            new = TransferAttempt(destination=name, time=now)
            changes: dict[str, Any] = {"transfers": [*call.transfers, new]}
            if call.is_open:
                changes["next_time"] = now + after.timeout_s * 1000 + BEGIN_MS
            return call.model_copy(update=changes)

        changed = await self._records.change(call.call_id, with_attempt, when_over=True) or call
        return after.numbered(len(changed.transfers) - 1)

    async def answered(self, call_id: str, number: int) -> FollowUp:
        """Records that somebody picked up. Returns what is read to them, an empty text for nothing.

        Raises: AgentError, SourceError.
        """
        now = self._deps.clock()

        def answered(call: Call) -> Call:
            if not 0 <= number < len(call.transfers) or call.transfers[number].status is not None:
                return call
            new = call.transfers[number].model_copy(update={"answered_time": now})
            changes: dict[str, Any] = {"transfers": _replaced(call.transfers, number, new)}
            if call.is_open:
                changes["next_time"] = now + TALK_MS
            return call.model_copy(update=changes)

        call = await self._records.change(call_id, answered, when_over=True)
        if call is None:
            return FollowUp()
        agent = await self._deps.agents.compiled(call.agent_id, call.agent_version)
        chosen = agent.document.voice.destinations.get(call.transfers[number].destination)
        thread = await self._endings.thread(call)
        if chosen is None or chosen.summary != "spoken" or thread is None:
            return FollowUp()
        locale = self._deps.life.locale
        language = language_of(agent, locale)
        summary = agent_part(thread).ctx.get("transfer_summary") or _last_words(thread, language)
        words = text("voice_whisper", language, agent=agent.document.agent.name, summary=summary)
        return spoken(agent, locale, words)

    async def over(
        self, call: Call, agent: CompiledAgent, tried: Sequence[str], report: Mapping[str, str]
    ) -> FollowUp:
        """Continues after an attempt, by the `report` of the telephone service.

        Raises: ThreadError, AgentError, SourceError.
        """
        locale = self._deps.life.locale
        status = report.get("DialCallStatus", "")[:STATUS_CHARS]
        # the caller may have hung up while it rang
        is_gone = report.get("CallStatus") in ("completed", "canceled", "failed")
        is_transferring = call.status == "transferring"
        if is_answered(status) or is_gone or not tried:
            if is_transferring:
                await self._endings.end_transfer(call, status, answered=is_answered(status))
            return FollowUp()
        after = after_dial(agent, locale, tried, status)
        if after.destination is not None:
            return await self.dialling(call, after)
        wanted = agent.document.voice.destinations.get(tried[0])
        back = wanted.on_unanswered if wanted is not None else None
        if is_transferring and back in ("agent", "message"):
            token = await self._give_back(call, agent, status, back)
            if token is not None:
                return given_back(agent, locale, token)
        if is_transferring:
            await self._endings.end_transfer(call, status, answered=False)
        return after

    async def _give_back(
        self, call: Call, agent: CompiledAgent, status: str, to: str
    ) -> str | None:
        """Lets the caller open a stream to the agent again. Returns its token.

        None if the agent cannot take the caller back.
        """
        now = self._deps.clock()
        if call.returns >= MAX_RETURNS or not self._deps.answers(call.engine):
            return None
        try:
            self._deps.slots.reserve(
                call.call_id, CHECK_TIMEOUT_S + TOKEN_S["phone"], caller=call.caller
            )
        except CallsFull:
            return None
        until = now + round(TOKEN_S["phone"] * 1000)
        kept = None
        with suppress(ThreadNotFound, ThreadBusy):
            async with self._deps.leases.held(call.call_id):
                longest_ms = round(agent.document.limits.max_call_s * 1000)
                kept = await self._deps.life.endings.keep_held(
                    call.call_id,
                    ctx={"transfer_answered": False, "transfer_status": status},
                    until=until + longest_ms + BEGIN_MS,
                )
        token = new_token(call.workspace, call.call_id)
        changes: dict[str, Any] = {
            "status": "ringing",
            "token_hashes": [digest_of(token)],
            "token_time": until,
            "next_time": until,
            "returns": call.returns + 1,
            "return_to": to,
            "end_reason": None,
            "said_goodbye": False,
        }

        def ringing(call: Call) -> Call:
            return call.model_copy(update=changes) if call.status == "transferring" else call

        back = None if kept is None else await self._records.change(call.call_id, ringing)
        if back is None or kept is None:
            self._deps.slots.give_back(call.call_id)
            return None
        log.info("call_returned", extra={"agent_id": call.agent_id, "call_id": call.call_id})
        self._deps.metrics.state(call.call_id, call.agent_id, "ringing")
        self._incoming.prepare_return(back, agent, kept)
        return token


def with_result(call: Call, number: int | None, report: Mapping[str, str]) -> Call:
    """Returns a call with the result of an attempt, which the first report decides."""
    status = report.get("DialCallStatus", "")[:STATUS_CHARS]
    changes: dict[str, Any] = {"dial_status": status}
    if number is not None and 0 <= number < len(call.transfers):
        attempt = call.transfers[number]
        if attempt.status is None:
            length = report.get("DialCallDuration", "")
            is_number = length.isascii() and length.isdigit() and len(length) < 10
            seconds = min(int(length), MAX_SECONDS) if is_number else None
            new = attempt.model_copy(update={"status": status, "seconds": seconds})
            changes["transfers"] = _replaced(call.transfers, number, new)
    return call.model_copy(update=changes)


def _replaced(
    transfers: Sequence[TransferAttempt], number: int, new: TransferAttempt
) -> list[TransferAttempt]:
    return [*transfers[:number], new, *transfers[number + 1 :]]


def _last_words(thread: Thread, language: Language) -> str:
    """Returns a summary of a call from the caller's last utterances."""
    said = [entry["content"] for entry in transcript_of(thread) if entry["role"] == "user"]
    words = " ".join(" ".join(said[-LAST_ENTRIES:]).split())[-SUMMARY_CHARS:]
    if not words:
        return text("voice_summary_none", language)
    return text("voice_summary_words", language, words=words)
