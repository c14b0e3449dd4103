"""Decides what happens in a call: what goes to the phone, what to the model, which tools run,
when it ends.

A state machine: signals go in with the time, actions come out in order. It knows no socket and no
clock, so any order of both sides' events can be played to it.
"""

from __future__ import annotations

from typing import cast

from graphrag.voice import model_messages as wire
from graphrag.voice import signals
from graphrag.voice.model_speaks import ModelSpeaks
from graphrag.voice.playback import BYTES_A_MS
from graphrag.voice.signals import Action, EndReason, Signal

KEPT_AUDIO_MS, MOST_KEPT_FRAMES = 5_000, 1_000
"""Sound of the caller that is kept while the model side is not ready; the oldest is dropped."""
LAST_WORDS_S = 15.0
MAX_DIGITS = 20


class Bridge(ModelSpeaks):
    """One call between a phone side and a model side."""

    def feed(self, signal: Signal, now: float) -> list[Action]:
        """Take in what happened; return what is to be done, in order. Nothing is wanted
        once it ended.
        """
        if self.phase == "ended":
            return []
        self.now = now
        match signal:
            case signals.PhoneAudio():
                self.audio_in(signal.payload, now)
            case signals.ModelEvent():
                self.take_event(signal.event, now)
            case signals.PhoneMark():
                self.playback.marked(signal.name, now)
            case signals.ToolAnswered():
                self.tool_finished(signal, now)
            case signals.PhoneDigit():
                self.digit(signal.digit, now)
            case signals.PhoneStopped():
                self.end(signal.reason)
            case signals.ModelLost():
                if signal.refusal is not None:
                    self.refusal = signal.refusal
                    self.note_refusal(signal.refusal)
                self.lost(now, fatal=signal.fatal)
            case signals.Note():
                self.say_to_model("system", signal.text)
                self.ask(now)
            case signals.EndWanted():
                self.leave_politely(signal.reason, now)
            case signals.Tick():
                pass
        self.look_at_the_clock(now)
        out = self.out
        self.out = []
        return out

    def next_time(self) -> float | None:
        """Return when a `Tick` is needed at the latest, None when only signals matter."""
        if self.phase == "ended":
            return None
        times = [self.confirm_at, self.leave_at, self.playback.next_overdue]
        if self.phase != "leaving":
            delay = self.tools.next_delay() if self.is_quiet_but_for_tools() else None
            times += [self.gate.next_late, delay, self.timers.next_time()]
        return min((time for time in times if time is not None), default=None)

    def audio_in(self, payload: str, now: float) -> None:
        self.timers.start("line_lost", now)
        if self.phase != "opening":
            self.out.append(signals.SendModel(wire.append_frame(payload)))
            return
        self.kept.append(payload)
        self.kept_bytes += len(payload) * 3 // 4
        while self.kept and (
            self.kept_bytes > KEPT_AUDIO_MS * BYTES_A_MS or len(self.kept) > MOST_KEPT_FRAMES
        ):
            self.kept_bytes -= len(self.kept.popleft()) * 3 // 4

    def digit(self, digit: str, now: float) -> None:
        if not self.session.options.dtmf or self.phase not in ("opening", "open"):
            return
        self.digits += digit[:1]
        self.timers.start("digits", now)
        if digit == "#" or len(self.digits) >= MAX_DIGITS:
            self.digits_done(now)

    def digits_done(self, now: float) -> None:
        if self.phase == "opening":  # the model is told once it is there
            self.timers.start("digits", now)
            return
        said = self.digits_into_transcript()
        if said is not None:
            item_id, words = said
            self.say_to_model("user", words, id=item_id)
            self.ask(now)

    def tool_finished(self, done: signals.ToolAnswered, now: float) -> None:
        if not self.tools.finished(done):
            return
        if done.ends:
            self.destination = done.destination
            self.leaving = "transferred" if done.destination else "agent_hung_up"
            self.phase = "leaving"
            self.leave_at = now + LAST_WORDS_S
        self.send_outputs(now)

    def look_at_the_clock(self, now: float) -> None:
        if self.phase == "ended":
            return
        if late := self.playback.overdue(now):
            self.out.append(signals.Counted("voice_marks_overdue", late))
        for item_id in self.playback.take_heard():
            if item_id in self.transcript.entries:
                self.out.append(signals.WordsChanged(item_id))
        if not self.playback.is_playing:
            self.playing_since = None
            if self.clears_input and self.phase == "open" and not self.caller_speaks:
                self.clears_input = False
                self.send("input_audio_buffer.clear")
        if self.confirm_at is not None and now >= self.confirm_at:
            self.interrupt(now)
        if self.phase == "leaving":
            self.leave_when_silent(now)
            return
        late_response = self.gate.late(now)
        if late_response == "ask_again":
            self.request_response()
        elif late_response == "lost":
            self.lost(now)
        self.say_filler(now)
        for due in self.timers.due(now, is_quiet=self.is_quiet()):
            self.due(due, now)
            if self.phase in ("ended", "opening"):
                return
        self.ask_if_wanted(now)

    def is_quiet(self) -> bool:
        """Return whether nobody speaks and nothing is being done about it."""
        busy = self.playback.is_playing or self.caller_speaks or self.gate.state != "idle"
        return not busy and not self.tools.is_running

    def is_quiet_but_for_tools(self) -> bool:
        speaks = self.playback.is_playing or self.caller_speaks or self.gate.state != "idle"
        return not speaks and not self.fillers and self.phase == "open"

    def leave_when_silent(self, now: float) -> None:
        done = not self.playback.is_playing and self.gate.state == "idle" and not self.gate.wanted
        assert self.leave_at is not None
        if now >= self.leave_at or (done and not self.tools.is_running):
            self.end(self.leaving)

    def say_filler(self, now: float) -> None:
        text = self.tools.take_delayed(now) if self.is_quiet_but_for_tools() else None
        if text is not None:
            said = self.session.text("voice_say_exactly", text=text)
            event_id = self.send("response.create", response=wire.filler_response(said))
            self.sent[event_id] = {"type": wire.FILLER}  # its refusal is none of the conversation's

    def due(self, due: str, now: float) -> None:
        match due:
            case "digits":
                self.digits_done(now)
            case "wrap_up":
                self.say_to_model("system", self.session.text("voice_wrap_up"))
            case "max_duration" | "caller_silent":
                self.leave_politely(cast(EndReason, due), now)
            case "line_lost" | "session_failed":
                self.end(cast(EndReason, due))
            case "ask_silent":
                self.say_to_model("system", self.session.text("voice_silent"))
                self.ask(now)
            case "ask_again":
                self.timers.start("greeting", now)
                self.gate.lose()
                self.ask(now)
            case "session_again":
                self.open_session(now)
            case "response":
                self.response_never_ended(now)
            case _:
                self.lost(now)
