"""The state machine of a call in which the telephone service recognises and speaks.

Signals go in with the time, actions come out; no I/O and no clock. One answer of the model is
written at a time; what the caller says meanwhile waits for it, or breaks it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal, cast, final

from graphrag.bridge import signals
from graphrag.bridge.signals import Action, EndReason, Signal
from graphrag.bridge.timers import Timers
from graphrag.bridge.transcript import Transcript, TranscriptEntry
from graphrag.realtime.session_settings import SessionSettings
from graphrag.relay.agent_speech import AgentSpeech
from graphrag.relay.relay_messages import WORDS_CHARS, end_message, text_message
from graphrag.relay.spoken_text import SpokenText

GOODBYE_S: Final = 10.0  # for a goodbye to be written
LAST_WORDS_S: Final = 30.0  # for the last words to be written and spoken
CALLER_S: Final = 20.0  # after which a caller who has begun to speak counts as silent
MAX_DIGITS: Final = 20
MAX_NOTES: Final = 50  # for the model, that wait for its next answer
FILLER_PAUSE_S: Final = 8.0  # between two requests to wait for a slow tool
WELCOME: Final = "welcome"

RelayPhase = Literal["open", "leaving", "ended"]


@final
class RelayDialogue:
    """One call. `speaks_welcome`: the welcome is sent here, not by the TwiML.

    `entries_before`: number of entries of the transcript before a caller came back after a
    transfer; the ids of entries go on behind them. `skips`: see `SpokenText`.
    """

    transcribes = True

    def __init__(
        self,
        session: SessionSettings,
        now: float,
        *,
        speaks_welcome: bool,
        entries_before: int = 0,
        skips: str | None = None,
    ) -> None:
        self.session = session
        self.began = now
        self._now = now
        self.transcript = Transcript()
        self.phase: RelayPhase = "open"
        self._skips = skips
        self._speech = AgentSpeech()
        self._timers = Timers(session, now)
        self._timers.stop("opening", "line_lost")  # no sound comes by which a line is noticed
        self._actions: list[Action] = []
        self._first = entries_before + 1
        self._number = entries_before  # of the last answer
        self._running: int | None = None  # the answer that the model writes
        self._is_muted = False  # it was broken off: its words are not spoken
        self._words_of = SpokenText()
        self._is_first = True  # no word of the answer was spoken
        self._question: signals.AskModel | None = None
        self._failures = 0
        self._waiting = ""  # words of the caller for the next answer
        self._notes: list[str] = []
        self._asks = False  # the notes are to be answered
        self._caller_until = 0.0  # when the caller stops speaking, unless an event says so earlier
        self._stopped_at: float | None = None
        self._digits = ""
        self._entries = entries_before
        self._slow: dict[str, float] = {}  # running tools for which the caller is asked to wait
        self._delayed: dict[str, str] = {}
        self._filler_after = 0.0
        self._leaving: EndReason = "agent_hung_up"
        self._destination: str | None = None
        self._leave_at = 0.0
        self._said_goodbye = False
        self._begin(now, speaks_welcome=speaks_welcome)

    # -- in and out

    def feed(self, signal: Signal, now: float) -> list[Action]:
        """Processes a signal. Returns the actions to carry out, in order; none after the end."""
        if self.phase != "ended":
            self._take(signal, now)
            self._check_time(now)
        actions, self._actions = self._actions, []
        return actions

    def next_time(self) -> float | None:
        """Returns when the next `Tick` is due, None if no timer runs."""
        if self.phase == "ended":
            return None
        times = [self._speech.next_time(self._now)]
        if self._caller_until > self._now:
            times.append(self._caller_until)
        if self.phase == "leaving":
            times.append(self._leave_at)
        else:
            slow = min(self._slow.values(), default=None)
            times += [self._timers.next_time(), slow and max(slow, self._filler_after)]
        return min((time for time in times if time is not None), default=None)

    def heard(self, now: float) -> Iterator[TranscriptEntry]:
        """Yields the transcript in order. Answers hold only the words heard until `now`."""
        heard = self._speech.heard(now)
        for entry in self.transcript.ordered():
            if entry.is_interrupted or entry.item_id not in heard:
                yield entry
            elif heard[entry.item_id]:
                yield replace(entry, text=heard[entry.item_id])

    def _take(self, signal: Signal, now: float) -> None:
        self._now = now
        match signal:
            case signals.CallerWords():
                self._caller_said(signal, now)
            case signals.CallerInterrupted():
                self._interrupted(signal)
            case signals.SpeechChanged():
                self._speech_changed(signal, now)
            case signals.WordsPlayed():
                self._speech.played(signal.text)
            case signals.AnswerWords():
                self._answer_words(signal, now)
            case signals.AnswerEnded():
                self._answer_ended(signal, now)
            case signals.ToolBegan():
                self._tool_began(signal, now)
            case signals.ToolAnswered():
                self._tool_answered(signal, now)
            case signals.PhoneDigit():
                self._digit(signal.digit, now)
            case signals.PhoneStopped():
                self._end(signal.reason, now)
            case signals.Note():
                self._note(signal.text, asks=True)
            case signals.EndWanted():
                self._leave_politely(signal.reason, now)
            case _:
                pass

    # -- the beginning

    def _begin(self, now: float, *, speaks_welcome: bool) -> None:
        if self.session.note is not None:
            self._ask(now, notes=(self.session.note,))
        elif (welcome := self.session.options.speech.welcome) is not None:
            self.transcript.begin(WELCOME, "assistant", 0.0)
            self.transcript.finish(WELCOME, welcome)
            self._speech.add(WELCOME, welcome, now)
            if speaks_welcome:
                self._send(text_message(welcome, last=True, interruptible=self._may_interrupt()))
            self._actions.append(signals.WordsChanged(WELCOME))
        elif self.session.greeting is not None:
            self._ask(now, notes=(self.session.greeting,))

    def _may_interrupt(self) -> bool | None:
        """Returns False while the greeting is protected, None for what the TwiML says."""
        is_greeting = self._number <= self._first and not self._has_caller_spoken()
        return False if is_greeting and not self.session.greeting_is_interruptible else None

    def _has_caller_spoken(self) -> bool:
        return any(entry.role == "user" for entry in self.transcript.entries.values())

    # -- the caller

    def _caller_said(self, said: signals.CallerWords, now: float) -> None:
        self._timers.caller_spoke()
        if not said.is_whole or not said.text:
            return
        self._caller_until = now
        self._stopped_at = now
        self._words(self._new_entry("caller"), said.text, now)

    def _words(self, item_id: str, words: str, now: float) -> None:
        """Records words of the caller, and has them answered unless the call is about to end."""
        self.transcript.begin(item_id, "user", now - self.began)
        if self.transcript.finish(item_id, words):
            self._actions.append(signals.WordsChanged(item_id))
        if self.phase != "open":
            return
        self._waiting = f"{self._waiting}\n{words}".strip()[-WORDS_CHARS:]
        if self._running is not None and self.session.options.barge_in.mode != "off":
            self._stop_answer()

    def _new_entry(self, kind: str) -> str:
        self._entries += 1
        return f"{kind}_{self._entries}"

    def _interrupted(self, signal: signals.CallerInterrupted) -> None:
        """Cuts what was being said to what was heard, and breaks the answer off."""
        self._timers.caller_spoke()
        self._cut(self._speech.interrupted(signal.words), signal.after_ms)
        self._actions.append(signals.Counted("voice_barge_in", signal.after_ms))
        if self._running is not None and self.phase == "open":
            self._stop_answer()

    def _cut(self, heard: dict[str, str], heard_ms: int) -> None:
        for item_id, words in heard.items():
            entry = self.transcript.entries.get(item_id)
            if entry is None or len(words.strip()) >= len(entry.text.strip()):
                continue  # it was heard to its end
            if self.transcript.cut(item_id, words.strip(), heard_ms):
                self._actions.append(signals.WordsChanged(item_id))
                if (number := _number_of(item_id)) is not None:
                    self._actions.append(signals.CutAnswer(number, words.strip()))

    def _stop_answer(self) -> None:
        if not self._is_muted:
            self._is_muted = True
            self._slow.clear()
            if not self._is_first:
                self._send(text_message("", last=True))
            self._actions.append(signals.StopModel())

    def _speech_changed(self, signal: signals.SpeechChanged, now: float) -> None:
        if signal.is_agent:
            self._speech.changed(now, speaks=signal.speaks)
            return
        self._caller_until = now + (CALLER_S if signal.speaks else 0.0)
        if signal.speaks:
            self._timers.caller_spoke()

    def _digit(self, digit: str, now: float) -> None:
        if not self.session.options.dtmf or self.phase != "open":
            return
        self._digits += digit[:1]
        self._timers.caller_spoke()
        self._timers.start("digits", now)
        if digit == "#" or len(self._digits) >= MAX_DIGITS:
            self._digits_done(now)

    def _digits_done(self, now: float) -> None:
        digits, self._digits = self._digits, ""
        self._timers.stop("digits")
        if digits:
            words = self.session.text("voice_keypad", digits=digits)
            self._words(self._new_entry("keypad"), words, now)

    # -- the model

    def _ask(self, now: float, *, words: str = "", notes: tuple[str, ...] = ()) -> None:
        self._number += 1
        self._question = signals.AskModel(self._number, words, notes)
        self._ask_model(self._question, now)

    def _ask_model(self, question: signals.AskModel, now: float) -> None:
        self._running = question.number
        self._is_muted = False
        self._is_first = True
        self._words_of = SpokenText(skips_until=self._skips)
        self._speech.begin(now)
        self._actions.append(question)

    def _answer_words(self, signal: signals.AnswerWords, now: float) -> None:
        if signal.number == self._running and not self._is_muted:
            self._say(self._words_of.feed(signal.text), now)

    def _say(self, words: str, now: float) -> None:
        """Sends words of the answer to be spoken."""
        if self._is_first:
            words = words.lstrip()
        if not words:
            return
        if self._is_first:
            self._is_first = False
            if self._stopped_at is not None:
                waited = now - self._stopped_at
                self._actions.append(signals.Counted("voice_turn_seconds", waited))
                self._stopped_at = None
        self._spoken(f"answer_{self._running}", words, now)

    def _spoken(self, item_id: str, words: str, now: float) -> None:
        self.transcript.begin(item_id, "assistant", now - self.began)
        if self.transcript.add(item_id, words):
            self._actions.append(signals.WordsChanged(item_id))
        self._speech.add(item_id, words, now)
        self._send(text_message(words, interruptible=self._may_interrupt()))

    def _answer_ended(self, signal: signals.AnswerEnded, now: float) -> None:
        if signal.number != self._running:
            return
        if not self._is_muted:
            self._say(self._words_of.end(), now)
        item_id = f"answer_{self._running}"
        is_muted, self._running = self._is_muted, None
        self._slow.clear()
        entry = self.transcript.entries.get(item_id)
        if entry is not None and not is_muted:
            self._send(text_message("", last=True, interruptible=self._may_interrupt()))
        if entry is not None and self.transcript.finish(item_id, entry.text):
            self._actions.append(signals.WordsChanged(item_id))
        if signal.failure is not None and not is_muted:
            self._failed(signal, now)
        else:
            self._failures = 0
            is_goodbye = self.phase == "leaving" and not is_muted and entry is not None
            self._said_goodbye = self._said_goodbye or is_goodbye

    def _failed(self, signal: signals.AnswerEnded, now: float) -> None:
        """Asks once more, or for the rest of the answer, or ends the call."""
        self._actions.append(signals.Counted("voice_responses_failed"))
        self._failures += 1
        may_retry = signal.may_retry and self._failures == 1
        if self.phase != "open" or self._question is None:
            return  # the goodbye is said by the telephone service
        if not may_retry:
            self._end("model_unreachable", now)
            return
        self._actions.append(signals.Counted("voice_reconnects"))
        if not self._is_first:
            self._ask(now, notes=(self.session.text("voice_go_on"),))
            return
        self._number += 1
        self._question = replace(self._question, number=self._number, repeats=True)
        self._ask_model(self._question, now)

    def _note(self, text: str, *, asks: bool = False) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(text)
            self._asks = self._asks or asks

    # -- tools

    def _tool_began(self, signal: signals.ToolBegan, now: float) -> None:
        if self.phase == "open" and signal.name in self.session.delayed:
            self._slow[signal.call_id] = now + self.session.options.delayed_after_s
            self._delayed[signal.call_id] = self.session.delayed[signal.name]

    def _tool_answered(self, signal: signals.ToolAnswered, now: float) -> None:
        self._slow.pop(signal.call_id, None)
        self._delayed.pop(signal.call_id, None)
        if signal.ends and self.phase == "open":
            self._leave("transferred" if signal.destination else "agent_hung_up", now, LAST_WORDS_S)
            self._destination = signal.destination

    def _say_filler(self, now: float) -> None:
        """Asks the caller to wait for a slow tool, once a tool and at most every pause."""
        due = [call_id for call_id, at in self._slow.items() if at <= now]
        if not due or now < self._filler_after or now < self._caller_until or self._is_muted:
            return
        if self._speech.is_speaking(now):
            return  # its end is waited for
        words = self._delayed[due[0]]
        for call_id in due:
            del self._slow[call_id]
        self._filler_after = now + FILLER_PAUSE_S
        item_id = self._new_entry("filler")
        self._spoken(item_id, f"{words} ", now)
        self.transcript.finish(item_id, words)

    # -- the end

    def _leave(self, reason: EndReason, now: float, within_s: float) -> None:
        self._leaving = reason
        self._leave_at = now + within_s
        self.phase = "leaving"
        self._slow.clear()
        self._timers.stop("digits")

    def _leave_politely(self, reason: EndReason, now: float) -> None:
        """Asks the model for a goodbye; the call ends after it, or after `GOODBYE_S`."""
        if self.phase != "open":
            return
        self._leave(reason, now, GOODBYE_S)
        if self._running is not None:
            self._stop_answer()
        self._waiting = ""
        self._note(self.session.text("voice_farewell"), asks=True)

    def _leave_when_silent(self, now: float) -> None:
        """Ends the call once its last words were spoken, or their time is over."""
        is_done = self._running is None and not self._asks and not self._speech.is_speaking(now)
        if is_done or now >= self._leave_at:
            self._send(end_message())
            self._end(self._leaving, now)

    def _end(self, reason: EndReason, now: float) -> None:
        """Ends the call. Cuts the words that the caller has not heard."""
        digits, self._digits = self._digits, ""
        if digits:
            item_id = self._new_entry("keypad")
            self.transcript.begin(item_id, "user", now - self.began)
            self.transcript.finish(item_id, self.session.text("voice_keypad", digits=digits))
            self._actions.append(signals.WordsChanged(item_id))
        self.phase = "ended"
        self._cut(self._speech.heard(now), 0)
        self._actions.append(signals.CallOver(reason, self._destination, self._said_goodbye))

    # -- the clock

    def _check_time(self, now: float) -> None:
        """Does what is due at `now`."""
        self._now = now
        if self.phase == "open":
            self._say_filler(now)
            for due in self._timers.due(now, is_quiet=self._is_quiet(now)):
                self._due(due, now)
        if self._running is None and self.phase != "ended":
            self._ask_next(now)
        if self.phase == "leaving":
            self._leave_when_silent(now)

    def _ask_next(self, now: float) -> None:
        """Has the caller's words, or the notes of the service, answered by the model."""
        may_speak = self.phase == "leaving" or not (
            self._speech.is_speaking(now) or now < self._caller_until
        )
        if not self._waiting and not (self._asks and may_speak):
            return
        words, notes = self._waiting, tuple(self._notes)
        self._waiting = ""
        self._notes.clear()
        self._asks = False
        if self.phase == "open" or not words:
            self._ask(now, words=words, notes=notes)

    def _is_quiet(self, now: float) -> bool:
        """Returns True if nobody speaks and no answer is written."""
        is_speaking = self._speech.is_speaking(now) or now < self._caller_until
        return not is_speaking and self._running is None and not self._digits

    def _due(self, due: str, now: float) -> None:
        match due:
            case "digits":
                self._digits_done(now)
            case "wrap_up":
                self._note(self.session.text("voice_wrap_up"))
            case "ask_silent":
                self._note(self.session.text("voice_silent"), asks=True)
            case "max_duration" | "caller_silent":
                self._leave_politely(cast(EndReason, due), now)
            case _:
                pass

    def _send(self, text: str) -> None:
        self._actions.append(signals.SendPhone(text))


def _number_of(item_id: str) -> int | None:
    """Returns the number of the answer of an entry, 0 for the welcome."""
    if item_id == WELCOME:
        return 0
    kind, _, number = item_id.partition("_")
    return int(number) if kind == "answer" else None
