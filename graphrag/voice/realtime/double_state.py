"""State of one session of the double: its settings, its conversation, and the events that go out."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from graphrag.voice.realtime.minds import Mind
from graphrag.voice.realtime.voice_activity import FORMATS, SoundFormat, VoiceActivity


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Faults of a connection, none by default. Events are counted from 1, as they are sent.

    `refused_status`: the handshake is answered with it; `hangs`: it is never answered; `refused_code`: an
    error of this code is the only event. `closed_at`, `malformed_at`: the event of this number is a lost
    connection, or no JSON. `errors`: types of the client's events that get an error of a code instead of what
    they ask for; `ignored`: types that get nothing. `failed_responses`: so many of the first responses fail.
    `late_audio_s`: so long a response waits before its first sound. `late_words`: the caller's words come
    after the answer; `failed_words`: they are not understood. `nameless_errors`: errors do not say which
    event caused them.
    """

    refused_status: int | None = None
    refused_code: str | None = None
    hangs: bool = False
    closed_at: int | None = None
    malformed_at: int | None = None
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored: frozenset[str] = frozenset()
    failed_responses: int = 0
    late_audio_s: float = 0.0
    late_words: bool = False
    failed_words: bool = False
    nameless_errors: bool = False


NO_FAULTS = Faults()


KEPT_EVENTS = 2_000
MAX_WAITING = 64
"""So many events wait for a slow reader; then no more sound is made, and nothing read."""

Event = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleSetup:
    """What the sessions of a double share.

    `voice` gives μ-law sound of a text in a language; `hear` the words of the next segment of speech. `rate`:
    how much faster than it is played sound is sent, None for as fast as it is read.
    """

    mind: Mind
    voice: Callable[[str, str], Awaitable[bytes]]
    hear: Callable[[], str]
    rate: float | None = None
    lifetime_s: float = 3_600.0


class EventRefused(Exception):
    """Raised where an event of the client is answered by an error."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


class DoubleState:
    """What one session knows. `received`: the client's events but its sound, the last 2,000; `errors`: how
    often each code was sent; `sound_ms`: what was sent of each item."""

    def __init__(
        self,
        model: str,
        setup: DoubleSetup,
        faults: Faults,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self.setup, self.faults, self.start = setup, faults, start
        self.out = asyncio.Queue[bytes]()
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.conversation_id = new_id("conv")
        self.items: list[Event] = []
        self.sound_ms: dict[str, float] = {}
        self.received: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self.errors = Counter[str]()
        self.activity = VoiceActivity()
        self.responses = 0
        self.session = _new_session(model, int(time.time() + setup.lifetime_s))

    @property
    def sound_in(self) -> Mapping[str, Any]:
        return cast(Event, self.session["audio"]["input"])

    @property
    def sound_out(self) -> Mapping[str, Any]:
        return cast(Event, self.session["audio"]["output"])

    @property
    def format_in(self) -> SoundFormat:
        return FORMATS[self.sound_in["format"]["type"]]

    @property
    def format_out(self) -> SoundFormat:
        return FORMATS[self.sound_out["format"]["type"]]

    @property
    def language(self) -> str:
        """The language that the caller's words are written in, English where none is set."""
        return str(cast(Event, self.sound_in["transcription"] or {}).get("language") or "en")

    def emit(self, kind: str, **fields: Any) -> None:
        """Send an event, as things stand now."""
        self.out.put_nowait(orjson.dumps({"type": kind, "event_id": new_id("event"), **fields}))
        if self.out.qsize() >= MAX_WAITING:
            self.has_room.clear()

    def emit_error(self, code: str, message: str, *, caused_by: Any = None, param: str | None = None) -> None:
        self.errors[code] += 1
        kind = "server_error" if code == "server_error" else "invalid_request_error"
        event_id = None if self.faults.nameless_errors else caused_by
        error = {"type": kind, "code": code, "message": message, "param": param, "event_id": event_id}
        self.emit("error", error=error)

    def item(self, item_id: str) -> Event | None:
        return next((item for item in self.items if item["id"] == item_id), None)

    def add_item(self, item: Event, at: int | None = None) -> str | None:
        """Put an item into the conversation and say so; return the one before it."""
        place = len(self.items) if at is None else at
        before = self.items[place - 1]["id"] if place else None
        self.items.insert(place, item)
        self.emit("conversation.item.added", previous_item_id=before, item=item)
        return before


def new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(10)}"


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> Event:
    """Return settings with changes; what the changes do not name stays."""
    changed: Event = {**old}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            changed[name] = merged(cast(Event, before), cast(Event, value))
        else:
            changed[name] = value
    return changed


def _new_session(model: str, expires_at: int) -> Event:
    """Return a session as a server begins it; values of the recorded ones."""
    pcm = {"type": "audio/pcm", "rate": 24_000}
    detection = {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 200,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }
    sound_in = {"format": pcm, "transcription": None, "noise_reduction": None, "turn_detection": detection}
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": new_id("sess"),
        "model": model,
        "output_modalities": ["audio"],
        "instructions": "You are a helpful assistant.",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
        "expires_at": expires_at,
        "audio": {"input": sound_in, "output": {"format": pcm, "voice": "alloy", "speed": 1.0}},
        "include": None,
    }
