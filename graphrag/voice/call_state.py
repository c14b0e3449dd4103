"""Where a call stands, and the steps that all share: asking, saying, interrupting, losing, ending."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import orjson

from graphrag.voice import model_messages as wire
from graphrag.voice import signals
from graphrag.voice.call_timers import AWAITED, CallTimers
from graphrag.voice.call_transcript import CallTranscript
from graphrag.voice.gate import ResponseGate
from graphrag.voice.playback import ItemSound, Playback
from graphrag.voice.signals import Action, EndReason
from graphrag.voice.tool_rounds import ToolRounds
from graphrag.voice.voice_session import VoiceSession

RECONNECT_S = 60.0
"""A second loss within so many seconds ends the call."""
GOODBYE_S = 10.0
KNOWN_EVENTS = 200

CallPhase = Literal["opening", "open", "leaving", "ended"]
Event = Mapping[str, Any]


class CallState:
    """One call. `wall`: what to add to its time for seconds since 1970. `out`: what is wanted, in order.

    `interrupted`: responses of which nothing is played any more. `fillers`: responses beside the
    conversation. `greeting`: the response that greets, "" before it began, None without one.
    `clears_input`: what the caller said into a protected greeting is to be forgotten.
    `stopped_at`: when the caller fell silent, until an answer sounds.
    """

    def __init__(self, session: VoiceSession, stream_id: str, now: float, *, wall: float = 0.0) -> None:
        self.session, self.began, self.wall = session, now, wall
        self.transcript = CallTranscript()
        self.playback, self.gate = Playback(), ResponseGate()
        self.tools = ToolRounds(session)
        self.timers = CallTimers(session, now)
        self.phase: CallPhase = "opening"
        self.caller_speaks = False
        self.out: list[Action] = []
        self.stream = stream_id
        self.kept: deque[str] = deque()
        self.kept_bytes = 0
        self.interrupted: set[str] = set()
        self.fillers: set[str] = set()
        self.greeting: str | None = None
        self.clears_input = False
        self.confirm_at: float | None = None
        self.stopped_at: float | None = None
        self.playing_since: float | None = None
        self.unanswered = False
        self.spoke_text = False
        self.failed = 0
        self.lost_at: float | None = None
        self.was_open = False
        self.digits = ""
        self.leaving: EndReason = "agent_hung_up"
        self.leave_at: float | None = None
        self.destination: str | None = None
        self.said_goodbye = False
        self.sent: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self.number = 0

    def send(self, kind: str, **fields: Any) -> str:
        self.number += 1
        event_id = f"n{self.number}"
        self.out.append(
            signals.SendModel(orjson.dumps({"type": kind, "event_id": event_id, **fields}).decode("utf-8"))
        )
        self.sent[event_id] = {"type": kind}
        while len(self.sent) > KNOWN_EVENTS:
            self.sent.popitem(last=False)
        return event_id

    def say_to_model(self, role: str, text: str) -> None:
        if self.phase != "opening":
            self.send("conversation.item.create", item=wire.text_item(role, text))
        else:
            self.tools.keep_text(text)

    def ask(self, now: float) -> None:
        if self.phase == "leaving":
            return
        if self.phase == "opening":
            self.gate.wanted = True
        elif self.gate.ask(now, caller_speaks=self.caller_speaks):
            self.send("response.create")

    def ask_if_wanted(self, now: float) -> None:
        if self.phase == "open" and self.gate.wanted and self.gate.state == "idle":
            self.ask(now)

    def play(self, pieces: Iterator[tuple[str, str]], now: float) -> None:
        for payload, mark in pieces:
            if self.playing_since is None:
                self.playing_since = now
            self.out.append(signals.SendPhone(wire.media_frame(self.stream, payload)))
            self.out.append(signals.SendPhone(wire.mark_frame(self.stream, mark)))

    def send_outputs(self, now: float) -> None:
        if self.phase == "opening":
            return  # kept for the next connection
        for call_id, output in self.tools.outputs():
            self.send("conversation.item.create", item=wire.output_item(call_id, output))
        if self.tools.take_round_done(self.gate.response_id) and self.phase == "open":
            self.ask(now)

    def lost(self, now: float, *, fatal: bool = False) -> None:
        """Open the model side again, once in a while; else the call is over."""
        if self.phase == "leaving":
            self.end(self.leaving)
            return
        if fatal or (self.lost_at is not None and now - self.lost_at < RECONNECT_S):
            self.end("model_unreachable")
            return
        self.lost_at, self.phase, self.failed = now, "opening", 0
        self.gate.lose()
        self.interrupted.clear()
        self.fillers.clear()
        self.caller_speaks, self.confirm_at, self.unanswered = False, None, False
        self.tools.lose_session()
        self.timers.start("opening", now)
        self.timers.stop(*AWAITED)
        self.out += [signals.Counted("voice_reconnects"), signals.Reconnect()]

    def leave_politely(self, reason: EndReason, now: float) -> None:
        """Have the model say goodbye, then end."""
        if self.phase == "leaving":
            return
        if self.phase == "opening":
            self.end(reason)
            return
        self.leaving, self.said_goodbye = reason, True
        self.leave_at = now + GOODBYE_S
        self.say_to_model("system", self.session.text("voice_farewell"))
        self.gate.wanted = True
        self.ask_if_wanted(now)
        self.phase = "leaving"

    def end(self, reason: EndReason) -> None:
        if self.phase != "ended":
            self.phase = "ended"
            self.out.append(signals.CallOver(reason, self.destination, self.said_goodbye))

    # -- the caller speaks: does the agent stop, and what does the model learn of what was heard?

    def on_speech_started(self, event: Event, now: float) -> None:
        self.caller_speaks, self.stopped_at = True, None
        self.timers.caller_spoke()
        self.transcript.begin(str(event.get("item_id")), "user", now - self.began)
        if self.phase == "leaving" or not (self.playback.is_playing or self.gate.state == "active"):
            return
        barge_in = self.session.options.barge_in
        since = self.playing_since
        guarded = since is not None and now - since < barge_in.guard_ms / 1000
        protected = not self.session.greeting_is_interruptible and self.in_greeting()
        if barge_in.mode == "off" or guarded or protected:
            return
        if barge_in.mode == "confirmed":
            self.confirm_at = now + barge_in.min_speech_ms / 1000
        else:
            self.interrupt(now)

    def on_speech_stopped(self, event: Event, now: float) -> None:  # noqa: ARG002
        self.caller_speaks, self.confirm_at, self.stopped_at = False, None, now
        self.timers.start("answer", now)

    def on_committed(self, event: Event, now: float) -> None:
        self.transcript.begin(
            str(event.get("item_id")), "user", now - self.began, after=event.get("previous_item_id")
        )
        self.unanswered = self.gate.state != "idle"

    def in_greeting(self) -> bool:
        if self.greeting is None:
            return False
        playing = any(item.response_id == self.greeting for item in self.playback.items.values())
        return playing or self.greeting in ("", self.gate.response_id)

    def interrupt(self, now: float) -> None:
        """Stop the sound, and have the model know how much of it was played."""
        self.confirm_at = None
        heard = {item.item_id: self.playback.heard_ms(item, now) for item in self.playback.items.values()}
        self.out.append(signals.SendPhone(wire.clear_frame(self.stream)))
        left = self.playback.clear()
        self.playing_since = None
        running = self.gate.response_id if self.gate.state == "active" else None
        self.interrupted |= {item.response_id for item in left}
        if running is not None:
            self.interrupted.add(running)
            if not self.session.server_interrupts:
                self.send("response.cancel", response_id=self.gate.cancel())
        for response_id in self.fillers & self.interrupted:
            self.send("response.cancel", response_id=response_id)
        for place, item in enumerate(item for item in left if not item.is_filler):
            self.cut(item, heard[item.item_id] if place == 0 else 0)
        self.out.append(signals.Counted("voice_barge_in", next(iter(heard.values()), 0)))

    def cut(self, item: ItemSound, heard_ms: int) -> None:
        end = min(heard_ms, item.received_ms)
        if end > 0:
            self.truncate(item.item_id, end)
        else:
            self.send("conversation.item.delete", item_id=item.item_id)
        if self.transcript.interrupt(item.item_id, end, item.received_ms):
            self.out.append(signals.WordsChanged(item.item_id))

    def truncate(self, item_id: str, end_ms: int, *, again: bool = False) -> None:
        facts = {"item_id": item_id, "content_index": 0, "audio_end_ms": end_ms}
        event_id = self.send("conversation.item.truncate", **facts)
        if not again:
            self.sent[event_id] = {"type": "conversation.item.truncate", **facts}
