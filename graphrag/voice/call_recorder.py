"""Records a running call: stores its transcript, values and usage, and informs its followers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, final

from datasources.errors import SourceError
from graphrag.agent.thread_store import ThreadError
from graphrag.agents.chat_values import agent_part
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.bridge.transcript import INAUDIBLE, TranscriptEntry
from graphrag.voice.call_engine import AnswerTokens, OpenCall
from graphrag.voice.call_feed import CallFeed, stored_messages
from graphrag.voice.call_setup import CallSetup
from tools.http.scope import iso_time

log = logging.getLogger(__name__)

MAX_TURNS: Final = 500  # whose waiting times are stored
STORE_S: Final = 1.0  # shortest interval between writes of words


@final
class CallRecorder:
    """Stores flags and values of a call at once, words at most every `STORE_S`.

    The cost is None while the price of the model is unknown.
    """

    def __init__(self, setup: CallSetup, stream_id: str) -> None:
        self.feed = CallFeed(setup.thread.key)
        self._tokens: dict[str, int] = dict.fromkeys(
            ("audioIn", "audioOut", "textIn", "textOut"), 0
        )
        self._cost_usd: float | None = 0.0
        self._first_audio_ms: int | None = None
        self._turns_ms: list[int] = []
        self._model_error: ModelRefusal | None = None
        self._open: OpenCall | None = None
        self._setup = setup
        self._deps = setup.deps
        self._before = self._taken_over()
        self._stream_id = stream_id
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._at_once = asyncio.Event()

    def _taken_over(self) -> list[dict[str, Any]]:
        """Goes on with the record of the call before a transfer. Returns its transcript."""
        earlier = self._setup.earlier
        if earlier is None:
            return []
        usage = earlier.call.usage
        self._tokens |= {name: int(usage.get(name) or 0) for name in self._tokens}
        cost = usage.get("costUsd", 0.0)
        self._cost_usd = float(cost) if isinstance(cost, int | float) else None
        self._first_audio_ms = earlier.call.latency.get("firstAudioMs")
        self._turns_ms = list(earlier.call.latency.get("turns") or ())
        for message in stored_messages(earlier.call, earlier.stored.thread):
            self.feed.add(message)
        return list(agent_part(earlier.stored.thread).transcript)

    def opened(self, call: OpenCall) -> None:
        """Starts recording the transcript, the values and the tools of a call."""
        self._open = call

    def touch(self) -> None:
        """Has the call stored soon."""
        self._changed.set()

    def show(self, message: dict[str, Any]) -> None:
        """Sends a message to the followers, and has the call stored soon."""
        self.feed.add(message)
        self._changed.set()

    def state(self, status: str) -> None:
        """Sends the status of the call to its followers."""
        about: dict[str, Any] = {
            "status": status,
            "agentId": agent_part(self._setup.thread).agent_id,
        }
        if self._model_error is not None:
            about["modelError"] = self._model_error.to_document()
        self.show({"type": "call:state", **about})

    def words(self, item_id: str) -> None:
        """Records that an entry of the transcript is new or has changed."""
        call = self._required()
        entry = call.dialogue.transcript.entries[item_id]
        shown = entry.to_document()
        del shown["time"]
        self.show(
            {"type": "call:said", "text": shown.pop("content"), "final": entry.is_final, **shown}
        )
        if entry.role == "user" and entry.is_final:
            call.tools.caller_spoke()
        ctx = call.thread.values.ctx
        inaudible = ("", INAUDIBLE) if call.dialogue.transcribes else ("",)
        was_understood = entry.role == "user" and entry.text.strip() not in inaudible
        if ctx.get("had_conversation") is not True and was_understood:
            ctx["had_conversation"] = True
            self._at_once.set()

    def transcript(self) -> Sequence[dict[str, Any]]:
        """Returns the transcript until now, in its stored form."""
        dialogue = self._required().dialogue
        began_ms = self._deps.threads.clock() - (self._loop.time() - dialogue.began) * 1000

        def stored(entry: TranscriptEntry) -> dict[str, Any]:
            return {
                **entry.to_document(),
                "timestamp": iso_time(round(began_ms + entry.time * 1000)),
            }

        greeting = dialogue.session.greeting
        first = (
            TranscriptEntry("greeting", "system", 0.0, greeting, is_final=True)
            if greeting
            else None
        )
        heard = dialogue.heard(self._loop.time())
        entries = [first, *heard] if first else heard
        return [*self._before, *(stored(entry) for entry in entries)]

    def _required(self) -> OpenCall:
        assert self._open is not None, "no session is open"
        return self._open

    def refused(self, refusal: ModelRefusal) -> None:
        """Records the last refusal of the model's service."""
        self._model_error = refusal
        self._changed.set()
        self._at_once.set()

    def answered(self, seconds: float) -> None:
        """Records how long the caller waited for an answer."""
        if len(self._turns_ms) < MAX_TURNS:
            self._turns_ms.append(round(seconds * 1000))

    def sounded(self, ms: int) -> bool:
        """Records the time until the first sound. Returns True at the first call."""
        if self._first_audio_ms is not None:
            return False
        self._first_audio_ms = ms
        return True

    def used(self, usage: AnswerTokens) -> None:
        """Adds tokens of the model to the call."""
        counts = (usage.audio_in, usage.audio_out, usage.text_in, usage.text_out)
        self._tokens = {
            name: self._tokens[name] + n for name, n in zip(self._tokens, counts, strict=True)
        }
        cost = usage.cost_usd
        self._cost_usd = None if self._cost_usd is None or cost is None else self._cost_usd + cost

    def _cost(self) -> dict[str, float | None]:
        """Returns the cost of the call, None for an unknown price; empty without a paid service."""
        if not self._deps.is_priced and self._setup.engine == "realtime":
            return {}
        return {"costUsd": None if self._cost_usd is None else round(self._cost_usd, 6)}

    async def keep(self) -> None:
        """Stores the call after changes, until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._at_once.clear()
            await self.store()
            with suppress(TimeoutError):
                async with asyncio.timeout(STORE_S):
                    await self._at_once.wait()

    async def store(self, **changes: Any) -> None:
        """Stores the thread and the record, with `changes` of the record.

        Failures are logged, and storing is tried again.
        """
        update: dict[str, Any] = {
            "usage": {**self._tokens, **self._cost()},
            "latency": {"firstAudioMs": self._first_audio_ms, "turns": list(self._turns_ms)},
            "stream_sid": self._stream_id,
            **changes,
        }
        if self._model_error is not None:
            update["model_error"] = self._model_error
        if self._open is not None:
            tools = self._open.tools
            approvals = [
                {"approvalId": key, "spokenCode": code, "told": key not in tools.waiting}
                for key, code in tools.proposed.items()
            ]
            update |= {"sources": tools.sources, "approvals": approvals}
        call_id = self._setup.thread.key

        async def record() -> None:
            await self._deps.records.change(call_id, lambda call: call.model_copy(update=update))

        for write in (record,) if self._open is None else (self._open.thread.save, record):
            try:
                await write()
            except (ThreadError, SourceError) as exc:
                facts = {"call_id": call_id, "agent_id": self._setup.agent.agent_id}
                log.warning("call_not_stored", extra=facts | {"error": type(exc).__name__})
                self._changed.set()
