"""What is kept of a call while it runs, and shown to those who follow it: words,
values, facts, sources.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from datasources.errors import SourceError
from graphrag.agent.thread_store import ThreadError
from graphrag.agents.chat_values import agent_part
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.llm.registry import RealtimeTokens
from graphrag.llm.usage_meter import CallUsage, Payer
from graphrag.voice.bridge import Bridge
from graphrag.voice.call_feed import CallFeed
from graphrag.voice.call_opening import CallOpening
from graphrag.voice.call_thread import CallThread
from graphrag.voice.call_tools import CallTools
from graphrag.voice.transcript import INAUDIBLE, TranscriptEntry
from tools.http.scope import iso_time

log = logging.getLogger(__name__)

MOST_TURNS: Final = 500
MOST_TOKENS: Final = 10**9
STORE_S: Final = 1.0


class CallBook:
    """Keeps one call: flags and values at once, words at most once a second.

    `bridge`, `thread` and `tools` are there once the call's session is. `usage`: tokens
    by kind; `cost_usd`
    None: nobody knows the price. `turns_ms`: how long the caller waited for each answer.
    `model_error`: what the model's service refused last.
    """

    def __init__(self, opening: CallOpening, stream_id: str) -> None:
        self.feed = CallFeed(opening.thread.key)
        self.usage: dict[str, int] = dict.fromkeys(("audioIn", "audioOut", "textIn", "textOut"), 0)
        self.cost_usd: float | None = 0.0
        self.first_audio_ms: int | None = None
        self.turns_ms: list[int] = []
        self.model_error: ModelRefusal | None = None
        self.bridge: Bridge | None = None
        self.thread: CallThread | None = None
        self.tools: CallTools | None = None
        self._opening = opening
        self._parts = opening.parts
        self._stream_id = stream_id
        self._loop = asyncio.get_running_loop()
        self.changed, self._at_once = asyncio.Event(), asyncio.Event()

    def show(self, message: dict[str, Any]) -> None:
        """Let followers see what has happened; it is stored soon."""
        self.feed.add(message)
        self.changed.set()

    def state(self, status: str) -> None:
        about: dict[str, Any] = {
            "status": status,
            "agentId": agent_part(self._opening.thread).agent_id,
        }
        if self.model_error is not None:
            about["modelError"] = self.model_error.to_document()
        self.show({"type": "call:state", **about})

    def words(self, item_id: str) -> None:
        """Take in that an entry of the transcript is new or has changed."""
        assert self.bridge is not None
        assert self.thread is not None
        assert self.tools is not None
        entry = self.bridge.transcript.entries[item_id]
        shown = entry.to_document()
        del shown["time"]
        self.show(
            {"type": "call:said", "text": shown.pop("content"), "final": entry.is_final, **shown}
        )
        if entry.role == "user" and entry.is_final:
            self.tools.turn += 1
        ctx = self.thread.values.ctx
        inaudible = ("", INAUDIBLE) if self.bridge.transcribes else ("",)
        was_understood = entry.role == "user" and entry.text.strip() not in inaudible
        if ctx.get("had_conversation") is not True and was_understood:
            ctx["had_conversation"] = True
            self._at_once.set()

    def transcript(self) -> Sequence[dict[str, Any]]:
        """Returns what was said and heard until now, as it is stored."""
        assert self.bridge is not None
        began_ms = self._parts.threads.clock() - (self._loop.time() - self.bridge.began) * 1000

        def stored(entry: TranscriptEntry) -> dict[str, Any]:
            return {
                **entry.to_document(),
                "timestamp": iso_time(round(began_ms + entry.time * 1000)),
            }

        greeting = self.bridge.session.greeting
        first = (
            TranscriptEntry("greeting", "system", 0.0, greeting, is_final=True)
            if greeting
            else None
        )
        said = self.bridge.heard(self._loop.time())
        return [stored(entry) for entry in ([first, *said] if first else said)]

    def refused(self, refusal: ModelRefusal) -> None:
        """Notes what the model's service refused last."""
        self.model_error = refusal
        self.changed.set()
        self._at_once.set()

    def answered(self, seconds: float) -> None:
        """Note how long the caller waited for an answer."""
        if len(self.turns_ms) < MOST_TURNS:
            self.turns_ms.append(round(seconds * 1000))

    def used(self, event: Mapping[str, Any]) -> None:
        """Counts what an answer or a transcript used, for the call and for its workspace."""
        openai = self._opening.agent.document.openai
        is_answer = event["type"] == "response.done"
        holder = _object(event.get("response")) if is_answer else event
        if not is_answer and "usage" not in holder:
            return  # servers of before count no transcripts
        tokens = tokens_of(_object(holder.get("usage")))
        model = openai.model if is_answer else openai.input_audio_transcription.model
        cost = tokens.cost_usd(model) if self._parts.is_priced else None
        counts = (tokens.audio_in, tokens.audio_out, tokens.text_in, tokens.text_out)
        self.usage = {
            name: self.usage[name] + n for name, n in zip(self.usage, counts, strict=True)
        }
        self.cost_usd = None if self.cost_usd is None or cost is None else self.cost_usd + cost
        call = CallUsage(
            kind="chat",
            provider="openai",
            model=model,
            tokens=tokens.report(),
            cost_usd=cost,
            payer=Payer(workspace=self._opening.thread.workspace),
        )
        self._parts.meter.record(call)

    def _cost(self) -> dict[str, float | None]:
        """Returns what the call cost, None where nobody knows the price; nothing of one
        without a service.
        """
        if not self._parts.is_priced:
            return {}
        return {"costUsd": None if self.cost_usd is None else round(self.cost_usd, 6)}

    async def keep(self) -> None:
        """Store what changed, again and again."""
        while True:
            await self.changed.wait()
            self.changed.clear()
            self._at_once.clear()
            await self.store()
            with suppress(TimeoutError):
                async with asyncio.timeout(STORE_S):
                    await self._at_once.wait()

    async def store(self, **changes: Any) -> None:
        """Store words, values and facts, with changes of the record, as far as
        that is possible now.
        """
        known: dict[str, Any] = {
            "usage": {**self.usage, **self._cost()},
            "latency": {"firstAudioMs": self.first_audio_ms, "turns": list(self.turns_ms)},
            "stream_sid": self._stream_id,
            **changes,
        }
        if self.model_error is not None:
            known["model_error"] = self.model_error
        if self.tools is not None:
            named = self.tools.proposed.items()
            approvals = [{"approvalId": key, "spokenCode": code} for key, code in named]
            known |= {"sources": self.tools.sources, "approvals": approvals}
        call_id = self._opening.thread.key

        async def record() -> None:
            await self._parts.records.change(call_id, lambda call: call.model_copy(update=known))

        for write in (record,) if self.thread is None else (self.thread.save, record):
            try:
                await write()
            except (ThreadError, SourceError) as exc:
                log.warning(
                    "call_not_stored", extra={"call_id": call_id, "error": type(exc).__name__}
                )
                self.changed.set()


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def tokens_of(usage: Mapping[str, Any]) -> RealtimeTokens:
    """Returns what the `usage` of an answer or of a transcript says.

    Cached tokens whose kind the service does not say count as text first, which saves
    less than audio.
    """

    def count(*path: str) -> int:
        value: Any = usage
        for name in path:
            value = _object(value).get(name)
        return value if isinstance(value, int) and 0 <= value < MOST_TOKENS else 0

    into = "input_token_details" if "input_token_details" in usage else "input_tokens_details"
    out = "output_token_details" if "output_token_details" in usage else "output_tokens_details"
    audio, text, image = (count(into, f"{kind}_tokens") for kind in ("audio", "text", "image"))
    said = count(out, "audio_tokens")
    written = count(out, "text_tokens")
    kinds = {
        f"cached_{kind}": count(into, "cached_tokens_details", f"{kind}_tokens")
        for kind in ("audio", "text", "image")
    }
    if not any(kinds.values()):
        cached = count(into, "cached_tokens")
        kinds["cached_text"] = min(cached, text)
        kinds["cached_audio"] = min(cached - kinds["cached_text"], audio)
    seconds = usage.get("seconds")
    return RealtimeTokens(
        audio_in=audio,
        text_in=text if audio or text or image else count("input_tokens"),
        image_in=image,
        audio_out=said,
        text_out=written if said or written else count("output_tokens"),
        audio_s=float(seconds)
        if isinstance(seconds, int | float) and 0 <= seconds < MOST_TOKENS
        else 0.0,
        **kinds,
    )
