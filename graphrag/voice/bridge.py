"""Decides what happens in a call: what goes to the phone, what to the model, which tools run, when it ends.

A state machine: signals go in with the time, actions come out in order. It knows no socket and no clock, so
any order of both sides' events can be played to it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast

import orjson

from graphrag.voice import model_messages as wire
from graphrag.voice.call_timers import CallTimers
from graphrag.voice.call_transcript import CallTranscript
from graphrag.voice.gate import ResponseGate
from graphrag.voice.playback import BYTES_A_MS, ItemSound, Playback
from graphrag.voice.signals import (
    Action,
    CallOver,
    Counted,
    EndReason,
    EndWanted,
    ModelEvent,
    ModelLost,
    Note,
    PhoneAudio,
    PhoneDigit,
    PhoneMark,
    PhoneStarted,
    PhoneStopped,
    Reconnect,
    SendModel,
    SendPhone,
    Signal,
    Spoken,
    Tick,
    ToolAnswered,
)
from graphrag.voice.tool_rounds import ToolRounds
from graphrag.voice.voice_session import VoiceSession

KEPT_AUDIO_MS = 5_000
"""Sound of the caller that is kept while the model side is not ready; the oldest is dropped."""
RECONNECT_S = 60.0
"""A second loss within so many seconds ends the call."""
LAST_WORDS_S = 15.0
GOODBYE_S = 10.0
KNOWN_EVENTS = 200
MAX_DIGITS = 20
_SHORTER = re.compile(r"(\d+)\s*ms")
_FATAL = frozenset(("invalid_api_key", "model_not_found", "insufficient_quota", "session_limit_reached"))

Phase = Literal["opening", "open", "leaving", "ended"]
Event = Mapping[str, Any]


class Bridge:
    """One call. `wall`: what to add to its time for seconds since 1970."""

    def __init__(self, session: VoiceSession, now: float, *, wall: float = 0.0) -> None:
        self.session, self.began, self._wall = session, now, wall
        self.transcript = CallTranscript()
        self.playback, self.gate = Playback(), ResponseGate()
        self.tools = ToolRounds(session)
        self.timers = CallTimers(session, now)
        self.phase: Phase = "opening"
        self.caller_speaks = False
        self._out: list[Action] = []
        self._stream = ""
        self._kept: deque[str] = deque()
        self._kept_ms = 0
        self._interrupted = set[str]()
        self._fillers = set[str]()
        self._greeting: str | None = None
        self._confirm_at: float | None = None
        self._playing_since: float | None = None
        self._unanswered = False
        self._spoke_text = False
        self._failed = 0
        self._lost_at: float | None = None
        self._was_open = False
        self._digits = ""
        self._leaving: EndReason = "agent_hung_up"
        self._leave_at: float | None = None
        self._destination: str | None = None
        self._said_goodbye = False
        self._sent: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._number = 0

    def feed(self, signal: Signal, now: float) -> list[Action]:
        """Take in what happened; return what is to be done, in order. Nothing is wanted once it ended."""
        if self.phase == "ended":
            return []
        match signal:
            case PhoneAudio():
                self._audio_in(signal.payload, now)
            case ModelEvent():
                handler = _HANDLERS.get(signal.event["type"])
                if handler is not None:
                    handler(self, signal.event, now)
            case PhoneMark():
                self.playback.marked(signal.name, now)
            case ToolAnswered():
                self._tool_finished(signal, now)
            case PhoneStarted():
                self._stream = signal.stream_id
                self.timers.line_open(now)
            case PhoneDigit():
                self._digit(signal.digit, now)
            case PhoneStopped():
                self._end(signal.reason)
            case ModelLost():
                self._lost(now, fatal=signal.fatal)
            case Note():
                self._say_to_model("system", signal.text)
                self._ask(now)
            case EndWanted():
                self._leave_politely(signal.reason, now)
            case Tick():
                pass
        self._look_at_the_clock(now)
        out, self._out = self._out, []
        return out

    def next_time(self) -> float | None:
        """Return when a `Tick` is needed at the latest, None when only signals matter."""
        if self.phase == "ended":
            return None
        times = [self._confirm_at, self._leave_at, self.playback.next_overdue]
        if self.phase != "leaving":
            delay = self.tools.next_delay() if self._is_quiet_but_for_tools() else None
            times += [self.gate.next_late, delay, self.timers.next_time()]
        return min((time for time in times if time is not None), default=None)

    # The phone side

    def _audio_in(self, payload: str, now: float) -> None:
        self.timers.heard_line(now)
        if self.phase != "opening":
            self._out.append(SendModel(wire.append_frame(payload)))
            return
        self._kept.append(payload)
        self._kept_ms += len(payload) * 3 // 4 // BYTES_A_MS
        while self._kept_ms > KEPT_AUDIO_MS and self._kept:
            self._kept_ms -= len(self._kept.popleft()) * 3 // 4 // BYTES_A_MS

    def _digit(self, digit: str, now: float) -> None:
        if not self.session.options.dtmf or self.phase != "open":
            return
        self._digits += digit[:1]
        self.timers.digit(now)
        if digit == "#" or len(self._digits) >= MAX_DIGITS:
            self._digits_done(now)

    def _digits_done(self, now: float) -> None:
        digits, self._digits = self._digits, ""
        self.timers.no_digits()
        if digits:
            self._say_to_model("user", self.session.texts.keypad.format(digits=digits))
            self._ask(now)

    def _play(self, pieces: Iterator[tuple[str, str]], now: float) -> None:
        for payload, mark in pieces:
            if self._playing_since is None:
                self._playing_since = now
            self._out.append(SendPhone(wire.media_frame(self._stream, payload)))
            self._out.append(SendPhone(wire.mark_frame(self._stream, mark)))

    # The model side: what it says

    def on_audio(self, event: Event, now: float) -> None:
        response_id, item_id = str(event.get("response_id")), str(event.get("item_id"))
        if response_id in self._interrupted:
            return
        try:
            audio = base64.b64decode(event["delta"])
        except (binascii.Error, KeyError, TypeError, ValueError):
            self._out.append(Counted("voice_errors"))
            return
        self.timers.answered()
        filler = response_id in self._fillers
        self._play(self.playback.received(item_id, response_id, audio, now, is_filler=filler), now)

    def on_audio_done(self, event: Event, now: float) -> None:
        if str(event.get("response_id")) not in self._interrupted:
            self._play(self.playback.completed(str(event.get("item_id")), now), now)

    def on_words(self, event: Event, now: float) -> None:
        response_id, item_id = str(event.get("response_id")), str(event.get("item_id"))
        if response_id in self._interrupted or response_id in self._fillers:
            return
        self.transcript.begin(item_id, "assistant", now - self.began)
        if self.transcript.add(item_id, str(event.get("delta", ""))):
            self._out.append(Spoken(item_id, is_final=False))

    def on_words_done(self, event: Event, now: float) -> None:
        item_id = str(event.get("item_id"))
        self.timers.answered()
        words = event.get("transcript", event.get("text"))
        if event["type"] == "response.output_text.done":
            self.transcript.begin(item_id, "assistant", now - self.began)
            if not self._spoke_text:  # words alone: it is asked to speak, once
                self._spoke_text = self.gate.wanted = True
        if self.transcript.finish(item_id, str(words or "")):
            self._out.append(Spoken(item_id, is_final=True))

    # The model side: responses and tools

    def on_created(self, event: Event, now: float) -> None:  # noqa: ARG002 - one form for all
        response = cast(Event, event.get("response") or {})
        response_id = str(response.get("id"))
        if wire.is_filler(response):
            self._fillers.add(response_id)
            return
        self._unanswered = False
        self.gate.created(response_id)
        if self._greeting == "":
            self._greeting = response_id

    def on_response_done(self, event: Event, now: float) -> None:
        response = cast(Event, event.get("response") or {})
        response_id, status = str(response.get("id")), response.get("status")
        if response_id in self._fillers:
            self._fillers.discard(response_id)
            return
        self.gate.done(response_id)
        self._interrupted.discard(response_id)
        self._failed = self._failed + 1 if status == "failed" else 0
        if status == "failed":
            self._out.append(Counted("voice_responses_failed"))
            if self._failed >= 2:
                self._lost(now)
                return
            self._ask(now)
        elif status == "completed":
            self.timers.answered()
        if self._unanswered and not self.session.server_interrupts and not self.caller_speaks:
            self._unanswered = False
            self.gate.wanted = True
        self._ask_if_wanted(now)

    def on_item_done(self, event: Event, now: float) -> None:
        item = cast(Event, event.get("item") or {})
        if item.get("type") != "function_call" or item.get("status") != "completed":
            return
        self.timers.answered()
        response_id = str(event.get("response_id"))
        self._out += self.tools.called(item, response_id, now)
        self._send_outputs(now)

    def _tool_finished(self, done: ToolAnswered, now: float) -> None:
        if not self.tools.finished(done):
            return
        if done.ends:
            self._destination = done.destination
            self._leaving = "transferred" if done.destination else "agent_hung_up"
            self.phase, self._leave_at = "leaving", now + LAST_WORDS_S
        self._send_outputs(now)

    def _send_outputs(self, now: float) -> None:
        if self.phase == "opening":
            return  # kept for the next connection
        for call_id, output in self.tools.outputs():
            self._send("conversation.item.create", item=wire.output_item(call_id, output))
        if self.tools.take_round_done() and self.phase == "open":
            self._ask(now)

    # The model side: the caller speaks

    def on_speech_started(self, event: Event, now: float) -> None:
        self.caller_speaks = True
        self.timers.caller_spoke(now)
        self.transcript.begin(str(event.get("item_id")), "user", now - self.began)
        if self.phase == "leaving" or not (self.playback.is_playing or self.gate.state == "active"):
            return
        barge_in = self.session.options.barge_in
        since = self._playing_since
        guarded = since is not None and now - since < barge_in.guard_ms / 1000
        protected = not self.session.greeting_is_interruptible and self._in_greeting()
        if barge_in.mode == "off" or guarded or protected:
            return
        if barge_in.mode == "confirmed":
            self._confirm_at = now + barge_in.min_speech_ms / 1000
        else:
            self._interrupt(now)

    def on_speech_stopped(self, event: Event, now: float) -> None:  # noqa: ARG002
        self.caller_speaks, self._confirm_at = False, None
        self.timers.caller_stopped(now)

    def on_committed(self, event: Event, now: float) -> None:
        self.transcript.begin(
            str(event.get("item_id")), "user", now - self.began, after=event.get("previous_item_id")
        )
        self._unanswered = self.gate.state != "idle"

    def on_caller_words(self, event: Event, now: float) -> None:
        item_id = str(event.get("item_id"))
        self.transcript.begin(item_id, "user", now - self.began)
        final = not event["type"].endswith(".delta")
        if final:
            failed = event["type"].endswith(".failed")
            changed = self.transcript.finish(item_id, None if failed else str(event.get("transcript", "")))
        else:
            changed = self.transcript.add(item_id, str(event.get("delta", "")))
        if changed:
            self._out.append(Spoken(item_id, is_final=final))

    def _in_greeting(self) -> bool:
        if self._greeting is None:
            return False
        playing = any(item.response_id == self._greeting for item in self.playback.items.values())
        return playing or self._greeting in ("", self.gate.response_id)

    def _interrupt(self, now: float) -> None:
        """Stop what the caller hears, and tell the model how much of it they heard."""
        self._confirm_at = None
        heard = {item.item_id: self.playback.heard_ms(item, now) for item in self.playback.items.values()}
        self._out.append(SendPhone(wire.clear_frame(self._stream)))
        left = self.playback.clear()
        self._playing_since = None
        running = self.gate.response_id if self.gate.state == "active" else None
        self._interrupted |= {item.response_id for item in left}
        if running is not None:
            self._interrupted.add(running)
            if not self.session.server_interrupts:
                self._send("response.cancel", response_id=self.gate.cancel())
        for response_id in self._fillers & self._interrupted:
            self._send("response.cancel", response_id=response_id)
        for place, item in enumerate(item for item in left if not item.is_filler):
            self._cut(item, heard[item.item_id] if place == 0 else 0)
        self._out.append(Counted("voice_barge_in"))

    def _cut(self, item: ItemSound, heard_ms: int) -> None:
        end = min(heard_ms, item.received_ms)
        if end > 0:
            self._truncate(item.item_id, end)
        else:
            self._send("conversation.item.delete", item_id=item.item_id)
        if self.transcript.interrupt(item.item_id, end, item.received_ms):
            self._out.append(Spoken(item.item_id, is_final=True))

    def _truncate(self, item_id: str, end_ms: int, *, again: bool = False) -> None:
        facts = {"item_id": item_id, "content_index": 0, "audio_end_ms": end_ms}
        event_id = self._send("conversation.item.truncate", **facts)
        if not again:
            self._sent[event_id] = {"type": "conversation.item.truncate", **facts}

    # The model side: its beginning, its faults

    def on_session_created(self, event: Event, now: float) -> None:
        expires = cast(Event, event.get("session") or {}).get("expires_at")
        if isinstance(expires, int | float):
            self.timers.shorten(expires - self._wall)
        self.timers.opening(now)
        self._send("session.update", session=self.session.update())

    def on_session_updated(self, event: Event, now: float) -> None:  # noqa: ARG002
        if self.phase != "opening":
            return
        self.timers.opened()
        again, self._was_open = self._was_open, True
        self.phase = "leaving" if self._leave_at is not None else "open"
        if again:
            self._restore()
        audio, self._kept_ms = b"".join(_decoded(payload) for payload in self._kept), 0
        self._kept.clear()
        if audio:
            self._out.append(SendModel(wire.append_frame(base64.b64encode(audio).decode("ascii"))))
        if again:
            self.tools.take_round_done()  # what it gave stands in the texts
            self._say_to_model("system", self.session.texts.go_on)
            self._ask(now)
        elif self.session.greeting:
            self._greeting = ""
            self.timers.greeting(now)
            self._say_to_model("user", self.session.greeting)
            self._ask(now)

    def _restore(self) -> None:
        """Give a new session what was said; outputs of tools that the old one called become texts."""
        for entry in self.transcript.ordered():
            self._send("conversation.item.create", item=wire.text_item(entry.role, entry.text))
        for output in self.tools.orphaned():
            self._say_to_model("system", output)

    def _lost(self, now: float, *, fatal: bool = False) -> None:
        """Open the model side anew, once in a while; else the call is over."""
        if self.phase == "leaving":
            self._end(self._leaving)
            return
        if fatal or (self._lost_at is not None and now - self._lost_at < RECONNECT_S):
            self._end("model_unreachable")
            return
        self._lost_at, self.phase, self._failed = now, "opening", 0
        self.gate.lose()
        self._interrupted.clear()
        self._fillers.clear()
        self.caller_speaks, self._confirm_at, self._unanswered = False, None, False
        self.tools.lose_session()
        self.timers.opening(now)
        self._out += [Counted("voice_reconnects"), Reconnect()]

    def on_error(self, event: Event, now: float) -> None:
        error = cast(Event, event.get("error") or {})
        code, caused = str(error.get("code")), self._sent.get(str(error.get("event_id")))
        self._out.append(Counted(f"voice_errors.{code}"))
        if code == "conversation_already_has_active_response":
            self.gate.refused()
        elif code == "session_expired" or code in _FATAL:
            self._lost(now, fatal=code in _FATAL)
        elif caused is not None and caused["type"] == "conversation.item.truncate":
            found = _SHORTER.search(str(error.get("message")))
            if found is not None and int(found[1]) < caused["audio_end_ms"]:
                self._truncate(caused["item_id"], int(found[1]), again=True)
        elif caused is None:
            self.gate.doubt(now)

    # Asking, ending, time

    def _ask(self, now: float) -> None:
        if self.phase == "leaving":
            return
        if self.phase == "opening":
            self.gate.wanted = True
        elif self.gate.ask(now, caller_speaks=self.caller_speaks):
            self._send("response.create")

    def _ask_if_wanted(self, now: float) -> None:
        if self.phase == "open" and self.gate.take_wanted(now, caller_speaks=self.caller_speaks):
            self._send("response.create")

    def _say_to_model(self, role: str, text: str) -> None:
        if self.phase != "opening":
            self._send("conversation.item.create", item=wire.text_item(role, text))
        else:
            self.tools.keep_text(text)

    def _send(self, kind: str, **fields: Any) -> str:
        self._number += 1
        event_id = f"n{self._number}"
        self._out.append(
            SendModel(orjson.dumps({"type": kind, "event_id": event_id, **fields}).decode("utf-8"))
        )
        self._sent[event_id] = {"type": kind}
        while len(self._sent) > KNOWN_EVENTS:
            self._sent.popitem(last=False)
        return event_id

    def _leave_politely(self, reason: EndReason, now: float) -> None:
        """Have the model say goodbye, then end."""
        if self.phase == "leaving":
            return
        if self.phase == "opening":
            self._end(reason)
            return
        self._leaving, self._said_goodbye = reason, True
        self._leave_at = now + GOODBYE_S
        self._say_to_model("system", self.session.texts.goodbye)
        self.gate.wanted = True
        self._ask_if_wanted(now)
        self.phase = "leaving"

    def _end(self, reason: EndReason) -> None:
        if self.phase != "ended":
            self.phase = "ended"
            self._out.append(CallOver(reason, self._destination, self._said_goodbye))

    def _look_at_the_clock(self, now: float) -> None:
        if self.phase == "ended":
            return
        if late := self.playback.overdue(now):
            self._out.append(Counted("voice_marks_overdue", late))
        if not self.playback.is_playing:
            self._playing_since = None
        if self._confirm_at is not None and now >= self._confirm_at:
            self._interrupt(now)
        if self.phase == "leaving":
            self._leave_when_silent(now)
            return
        late_response = self.gate.late(now)
        if late_response == "ask_again":
            self._send("response.create")
        elif late_response == "lost":
            self._lost(now)
        self._say_filler(now)
        for due in self.timers.due(now, is_quiet=self._is_quiet()):
            self._due(due, now)
            if self.phase in ("ended", "opening"):
                return
        self._ask_if_wanted(now)

    def _is_quiet(self) -> bool:
        """Return whether nobody speaks and nothing is being done about it."""
        busy = self.playback.is_playing or self.caller_speaks or self.gate.state != "idle"
        return not busy and not self.tools.is_running

    def _leave_when_silent(self, now: float) -> None:
        done = not self.playback.is_playing and self.gate.state == "idle" and not self.gate.wanted
        assert self._leave_at is not None
        if now >= self._leave_at or (done and not self.tools.is_running):
            self._end(self._leaving)

    def _say_filler(self, now: float) -> None:
        text = self.tools.take_delayed(now) if self._is_quiet_but_for_tools() else None
        if text is not None:
            said = self.session.texts.say_exactly.format(text=text)
            self._send("response.create", response=wire.filler_response(said))

    def _is_quiet_but_for_tools(self) -> bool:
        speaks = self.playback.is_playing or self.caller_speaks or self.gate.state != "idle"
        return not speaks and not self._fillers and self.phase == "open"

    def _due(self, due: str, now: float) -> None:
        match due:
            case "digits":
                self._digits_done(now)
            case "wrap_up":
                self._say_to_model("system", self.session.texts.wrap_up)
            case "max_duration" | "caller_silent":
                self._leave_politely(cast(EndReason, due), now)
            case "line_lost" | "session_failed":
                self._end(cast(EndReason, due))
            case "ask_silent":
                self._say_to_model("system", self.session.texts.silent)
                self._ask(now)
            case "ask_again":
                self.timers.asked_greeting_again(now)
                self.gate.lose()
                self._ask(now)
            case _:
                self._lost(now)

    def on_silence(self, event: Event, now: float) -> None:  # noqa: ARG002
        if self.timers.asked_silent():
            self._leave_politely("caller_silent", now)


def _decoded(payload: str) -> bytes:
    try:
        return base64.b64decode(payload)
    except (binascii.Error, ValueError):
        return b""


_HANDLERS: Mapping[str, Callable[[Bridge, Event, float], None]] = {
    "response.output_audio.delta": Bridge.on_audio,
    "response.output_audio.done": Bridge.on_audio_done,
    "response.output_audio_transcript.delta": Bridge.on_words,
    "response.output_audio_transcript.done": Bridge.on_words_done,
    "response.output_text.delta": Bridge.on_words,
    "response.output_text.done": Bridge.on_words_done,
    "response.created": Bridge.on_created,
    "response.done": Bridge.on_response_done,
    "response.output_item.done": Bridge.on_item_done,
    "input_audio_buffer.speech_started": Bridge.on_speech_started,
    "input_audio_buffer.speech_stopped": Bridge.on_speech_stopped,
    "input_audio_buffer.committed": Bridge.on_committed,
    "input_audio_buffer.timeout_triggered": Bridge.on_silence,
    "conversation.item.input_audio_transcription.delta": Bridge.on_caller_words,
    "conversation.item.input_audio_transcription.completed": Bridge.on_caller_words,
    "conversation.item.input_audio_transcription.failed": Bridge.on_caller_words,
    "session.created": Bridge.on_session_created,
    "session.updated": Bridge.on_session_updated,
    "error": Bridge.on_error,
}
"""What is done about each event of the model side; all others are ignored."""
