"""Decides, when the caller speaks, whether the agent stops, and what the model learns of what was heard."""

from __future__ import annotations

from graphrag.voice import model_messages as wire
from graphrag.voice.call_state import CallState, Event
from graphrag.voice.playback import ItemSound
from graphrag.voice.signals import Counted, SendPhone, WordsChanged


class CallerSpeaks(CallState):
    """Reacts to the caller's speech."""

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
        self.out.append(SendPhone(wire.clear_frame(self.stream)))
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
        self.out.append(Counted("voice_barge_in", next(iter(heard.values()), 0)))

    def cut(self, item: ItemSound, heard_ms: int) -> None:
        end = min(heard_ms, item.received_ms)
        if end > 0:
            self.truncate(item.item_id, end)
        else:
            self.send("conversation.item.delete", item_id=item.item_id)
        if self.transcript.interrupt(item.item_id, end, item.received_ms):
            self.out.append(WordsChanged(item.item_id))

    def truncate(self, item_id: str, end_ms: int, *, again: bool = False) -> None:
        facts = {"item_id": item_id, "content_index": 0, "audio_end_ms": end_ms}
        event_id = self.send("conversation.item.truncate", **facts)
        if not again:
            self.sent[event_id] = {"type": "conversation.item.truncate", **facts}
