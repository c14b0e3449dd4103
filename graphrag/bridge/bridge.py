"""Connects a phone side and a model side: decides what each is sent, which tools run, and the end.

A state machine without I/O or a clock: signals go in with the time, actions come out. Tests can
therefore replay events of both sides in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast, final

from graphrag.bridge import signals
from graphrag.bridge.dialogue import CallPhase, Dialogue
from graphrag.bridge.model_events import ModelEvents
from graphrag.bridge.model_failures import ModelFailures
from graphrag.bridge.signals import Action, EndReason, Signal
from graphrag.bridge.transcript import TranscriptEntry
from graphrag.realtime import model_messages as wire
from graphrag.realtime.session_settings import SessionSettings

LAST_WORDS_S: Final = 15.0  # for the agent's words after a tool has ended the call
MAX_DIGITS: Final = 20


@final
class Bridge:
    """One call between a phone side and a model side.

    `wall`: difference in seconds between the time since 1970 and the clock of `now`.
    """

    def __init__(
        self, session: SessionSettings, stream_id: str, now: float, *, wall: float = 0.0
    ) -> None:
        self.session = session
        self.began = now
        self._dialogue = Dialogue(session, stream_id, now)
        self.transcript = self._dialogue.transcript
        self.playback = self._dialogue.playback
        self.gate = self._dialogue.gate
        self.tools = self._dialogue.tools
        self._outbox = self._dialogue.outbox
        self._failures = ModelFailures(self._dialogue)
        self._events = ModelEvents(self._dialogue, self._failures, wall=wall)

    @property
    def phase(self) -> CallPhase:
        return self._dialogue.phase

    @property
    def transcribes(self) -> bool:
        """Whether the caller's words are transcribed."""
        return self._failures.transcribes

    def heard(self, now: float) -> Iterator[TranscriptEntry]:
        """Yields the transcript in order. Answers hold only the words heard until `now`."""
        return self._dialogue.heard(now)

    def feed(self, signal: Signal, now: float) -> list[Action]:
        """Processes a signal. Returns the actions to carry out, in order; none after the end."""
        dialogue = self._dialogue
        if dialogue.phase == "ended":
            return []
        dialogue.now = now
        match signal:
            case signals.PhoneAudio():
                self._audio_in(signal.payload, now)
            case signals.ModelEvent():
                self._events.handle(signal.event, now)
            case signals.PhoneMark():
                dialogue.playback.marked(signal.name, now)
            case signals.ToolAnswered():
                self._tool_finished(signal, now)
            case signals.PhoneDigit():
                self._digit(signal.digit, now)
            case signals.PhoneStopped():
                dialogue.end(signal.reason)
            case signals.ModelLost():
                self._failures.disconnected(signal.refusal, now, fatal=signal.fatal)
            case signals.Note():
                dialogue.say_to_model("system", signal.text)
                dialogue.ask(now)
            case signals.EndWanted():
                dialogue.leave_politely(signal.reason, now)
            case _:  # `Tick`, and what only other calls have
                pass
        self._check_time(now)
        return self._outbox.take()

    def next_time(self) -> float | None:
        """Returns when the next `Tick` is due, None if no timer runs."""
        dialogue = self._dialogue
        if dialogue.phase == "ended":
            return None
        times = [dialogue.confirm_at, dialogue.leave_at, dialogue.playback.next_overdue]
        if dialogue.phase != "leaving":
            delay = dialogue.tools.next_delay() if self._is_waiting_for_tools() else None
            times += [dialogue.gate.next_late, delay, dialogue.timers.next_time()]
        return min((time for time in times if time is not None), default=None)

    def _audio_in(self, payload: str, now: float) -> None:
        dialogue = self._dialogue
        dialogue.timers.start("line_lost", now)
        if dialogue.phase != "opening":
            self._outbox.add(signals.SendModel(wire.append_frame(payload)))
        else:
            dialogue.early_audio.add(payload)

    def _digit(self, digit: str, now: float) -> None:
        dialogue = self._dialogue
        if not dialogue.session.options.dtmf or dialogue.phase not in ("opening", "open"):
            return
        dialogue.digits += digit[:1]
        dialogue.timers.start("digits", now)
        if digit == "#" or len(dialogue.digits) >= MAX_DIGITS:
            self._digits_done(now)

    def _digits_done(self, now: float) -> None:
        dialogue = self._dialogue
        if dialogue.phase == "opening":  # sent once the session is open
            dialogue.timers.start("digits", now)
            return
        entry = dialogue.digits_into_transcript()
        if entry is not None:
            item_id, words = entry
            dialogue.say_to_model("user", words, id=item_id)
            dialogue.ask(now)

    def _tool_finished(self, done: signals.ToolAnswered, now: float) -> None:
        dialogue = self._dialogue
        if not dialogue.tools.finished(done):
            return
        if done.ends:
            dialogue.leave_after_tool(done.destination, now + LAST_WORDS_S)
        dialogue.send_outputs(now)

    def _check_time(self, now: float) -> None:
        """Does what is due at `now`."""
        dialogue = self._dialogue
        if dialogue.phase == "ended":
            return
        if late := dialogue.playback.overdue(now):
            self._outbox.add(signals.Counted("voice_marks_overdue", late))
        for item_id in dialogue.playback.take_heard():
            if item_id in dialogue.transcript.entries:
                self._outbox.add(signals.WordsChanged(item_id))
        if not dialogue.playback.is_playing:
            dialogue.playing_since = None
            if dialogue.clears_input and dialogue.phase == "open" and not dialogue.caller_speaks:
                dialogue.clears_input = False
                self._outbox.send("input_audio_buffer.clear")
        if dialogue.confirm_at is not None and now >= dialogue.confirm_at:
            dialogue.interrupt(now)
        if dialogue.phase == "leaving":
            self._leave_when_silent(now)
            return
        late_response = dialogue.gate.late(now)
        if late_response == "ask_again":
            dialogue.request_response()
        elif late_response == "lost":
            self._failures.lost(now)
        self._say_filler(now)
        for due in dialogue.timers.due(now, is_quiet=self._is_quiet()):
            self._due(due, now)
            if dialogue.phase in ("ended", "opening"):
                return
        dialogue.ask_if_wanted(now)

    def _is_quiet(self) -> bool:
        """Returns True if nobody speaks, no response is due and no tool runs."""
        return not self._dialogue.is_anybody_speaking and not self.tools.is_running

    def _is_waiting_for_tools(self) -> bool:
        """Returns True in an open call in which only tools may be running."""
        dialogue = self._dialogue
        is_open = dialogue.phase == "open"
        return is_open and not dialogue.is_anybody_speaking and not dialogue.fillers

    def _leave_when_silent(self, now: float) -> None:
        """Ends the call once the goodbye was played, or its time is over."""
        dialogue = self._dialogue
        done = (
            not dialogue.playback.is_playing
            and dialogue.gate.state == "idle"
            and not dialogue.gate.wanted
        )
        assert dialogue.leave_at is not None
        if now >= dialogue.leave_at or (done and not dialogue.tools.is_running):
            dialogue.end(dialogue.leaving)

    def _say_filler(self, now: float) -> None:
        """Asks the caller to wait for a slow tool."""
        text = self._dialogue.tools.take_delayed(now) if self._is_waiting_for_tools() else None
        if text is not None:
            instruction = self._dialogue.session.text("voice_say_exactly", text=text)
            response = wire.filler_response(instruction)
            event_id = self._outbox.send("response.create", response=response)
            # a refusal of a filler does not concern the conversation
            self._outbox.remember(event_id, {"type": wire.FILLER})

    def _due(self, due: str, now: float) -> None:
        dialogue = self._dialogue
        match due:
            case "digits":
                self._digits_done(now)
            case "wrap_up":
                dialogue.say_to_model("system", dialogue.session.text("voice_wrap_up"))
            case "max_duration" | "caller_silent":
                dialogue.leave_politely(cast(EndReason, due), now)
            case "line_lost" | "session_failed":
                dialogue.end(cast(EndReason, due))
            case "ask_silent":
                dialogue.say_to_model("system", dialogue.session.text("voice_silent"))
                dialogue.ask(now)
            case "ask_again":
                dialogue.timers.start("greeting", now)
                dialogue.gate.lose()
                dialogue.ask(now)
            case "session_again":
                self._failures.open_session(now)
            case "response":
                self._events.response_never_ended(now)
            case _:
                self._failures.lost(now)
