"""The dialogue of a call: its phase, and the steps shared by the events of both sides.

The steps are asking for a response, playing sound, interrupting the agent and ending the call.
Times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, final

from graphrag.bridge import phone_messages, signals
from graphrag.bridge.outbox import BridgeOutbox
from graphrag.bridge.playback import BYTES_A_MS, ItemSound, Playback
from graphrag.bridge.response_gate import ResponseGate
from graphrag.bridge.signals import EndReason
from graphrag.bridge.timers import Timers
from graphrag.bridge.tool_rounds import ToolRounds
from graphrag.bridge.transcript import Transcript, TranscriptEntry
from graphrag.realtime import model_messages as wire
from graphrag.realtime.session_settings import SessionSettings

GOODBYE_S: Final = 10.0
HEARD_MS: Final = 40  # an answer with no more than this missing counts as heard to its end
MAX_KEPT_AUDIO_MS: Final = 5_000  # of the caller, while the model side is not ready
MAX_KEPT_FRAMES: Final = 1_000

CallPhase = Literal["opening", "open", "leaving", "ended"]
Event = Mapping[str, Any]


@final
class EarlyAudio:
    """The caller's last sound while the model side is not ready. The oldest is dropped."""

    def __init__(self) -> None:
        self._payloads: deque[str] = deque()
        self._bytes = 0

    def add(self, payload: str) -> None:
        """Keeps a payload in base64."""
        self._payloads.append(payload)
        self._bytes += len(payload) * 3 // 4
        while self._payloads and (
            self._bytes > MAX_KEPT_AUDIO_MS * BYTES_A_MS or len(self._payloads) > MAX_KEPT_FRAMES
        ):
            self._bytes -= len(self._payloads.popleft()) * 3 // 4

    def take(self) -> list[str]:
        """Returns the kept payloads and forgets them."""
        payloads = list(self._payloads)
        self._payloads.clear()
        self._bytes = 0
        return payloads


@final
class Dialogue:
    """The state that the bridge, its model events and its model failures work on.

    `interrupted`: ids of responses that are no longer played. `fillers`: ids of responses outside
    the conversation. `greeting`: id of the greeting's response, "" before it began, None without a
    greeting. `clears_input`: speech during a protected greeting is to be discarded. `stopped_at`:
    when the caller stopped speaking, until an answer sounds. `texts`: text-only answers of the
    active response, by item. `request`: fields of the next `response.create`. `before_goodbye`: the
    response that was active when the goodbye was requested.
    """

    def __init__(self, session: SessionSettings, stream_id: str, now: float) -> None:
        self.session = session
        self.stream = stream_id
        self.began = now
        self.now = now
        self.transcript = Transcript()
        self.playback = Playback()
        self.gate = ResponseGate()
        self.tools = ToolRounds(session)
        self.outbox = BridgeOutbox()
        self.timers = Timers(session, now)
        self.early_audio = EarlyAudio()
        self.phase: CallPhase = "opening"
        self.caller_speaks = False
        self.interrupted: set[str] = set()
        self.fillers: set[str] = set()
        self.greeting: str | None = None
        self.clears_input = False
        self.confirm_at: float | None = None
        self.stopped_at: float | None = None
        self.playing_since: float | None = None
        self.unanswered = False
        self.has_output = False
        self.texts: dict[str, str] = {}
        self.request: dict[str, Any] = {}
        self.before_goodbye: str | None = None
        self.digits = ""
        self.leaving: EndReason = "agent_hung_up"
        self.leave_at: float | None = None
        self.destination: str | None = None
        self.said_goodbye = False

    def say_to_model(self, role: str, text: str, **item: Any) -> None:
        """Adds a message to the conversation, or keeps it until a session is open."""
        if self.phase != "opening":
            self.outbox.send(
                "conversation.item.create", item={**wire.text_item(role, text), **item}
            )
        else:
            self.tools.keep_text(text)

    def ask(self, now: float) -> None:
        """Asks the model for a response, as soon as the gate allows it."""
        if self.phase == "leaving":
            return
        if self.phase == "opening":
            self.gate.want()
        elif self.gate.ask(now, caller_speaks=self.caller_speaks):
            self.request_response()

    def request_response(self) -> None:
        """Sends `response.create`."""
        self.outbox.send("response.create", **({"response": self.request} if self.request else {}))

    def ask_if_wanted(self, now: float) -> None:
        """Sends a pending request if no response is active."""
        if self.phase == "open" and self.gate.wanted and self.gate.state == "idle":
            self.ask(now)

    def play(self, pieces: Iterator[tuple[str, str]], now: float) -> None:
        """Sends pieces of sound, each followed by its mark, to the phone."""
        for payload, mark in pieces:
            if self.playing_since is None:
                self.playing_since = now
            self.outbox.add(signals.SendPhone(phone_messages.media_frame(self.stream, payload)))
            self.outbox.add(signals.SendPhone(phone_messages.mark_frame(self.stream, mark)))

    def send_outputs(self, now: float) -> None:
        """Sends the outputs of tools to the model, and asks it to continue after a round."""
        if self.phase == "opening":
            return  # kept for the next connection
        for call_id, output in self.tools.outputs():
            self.outbox.send("conversation.item.create", item=wire.output_item(call_id, output))
        if self.tools.take_round_done(self.gate.response_id) and self.phase == "open":
            self.ask(now)

    def leave_politely(self, reason: EndReason, now: float) -> None:
        """Asks the model for a goodbye; the call ends after it, or after `GOODBYE_S`."""
        if self.phase == "leaving":
            return
        if self.phase == "opening":
            self.end(reason)
            return
        self.leaving = reason
        self.before_goodbye = self.gate.response_id
        self.leave_at = now + GOODBYE_S
        self.say_to_model("system", self.session.text("voice_farewell"))
        self.gate.want()
        self.ask_if_wanted(now)
        self.phase = "leaving"

    def end(self, reason: EndReason) -> None:
        """Ends the call. Idempotent."""
        if self.phase != "ended":
            self.digits_into_transcript()
            self.phase = "ended"
            self._cut_unheard()
            self.outbox.add(signals.CallOver(reason, self.destination, self.said_goodbye))

    def digits_into_transcript(self) -> tuple[str, str] | None:
        """Adds the pressed digits to the transcript. Returns the item's id and its words."""
        digits = self.digits
        self.digits = ""
        self.timers.stop("digits")
        if not digits:
            return None
        item_id = f"keypad_{self.outbox.next_number()}"
        words = self.session.text("voice_keypad", digits=digits)
        self.transcript.begin(item_id, "user", self.now - self.began)
        if self.transcript.finish(item_id, words):
            self.outbox.add(signals.WordsChanged(item_id))
        return item_id, words

    def _cut_unheard(self) -> None:
        """Cuts every answer to the words that the caller has heard, at the end of the call."""
        for entry in self.transcript.entries.values():
            share = self._heard_of(entry)
            if share is not None and self.transcript.interrupt(entry.item_id, *share):
                self.outbox.add(signals.WordsChanged(entry.item_id))

    def heard(self, now: float) -> Iterator[TranscriptEntry]:
        """Yields the transcript in order. Answers hold only the words heard until `now`."""
        self.now = now
        for entry in self.transcript.ordered():
            share = self._heard_of(entry)
            heard = entry if share is None else entry.until(*share)
            if heard.text:
                yield heard

    def _heard_of(self, entry: TranscriptEntry) -> tuple[int, int] | None:
        """Returns the milliseconds heard and received of an answer, None if it is not cut."""
        if (
            entry.role != "assistant"
            or entry.is_interrupted
            or entry.item_id in self.playback.heard
        ):
            return None
        item = self.playback.items.get(entry.item_id)
        if item is None:  # no sound of it has come
            return 0, 0
        heard_ms = self.playback.heard_ms(item, self.now)
        missing_ms = item.received_ms - heard_ms
        return None if item.is_whole and missing_ms < HEARD_MS else (heard_ms, item.received_ms)

    def in_greeting(self) -> bool:
        """Returns True while the greeting is spoken or still to be spoken."""
        if self.greeting is None:
            return False
        playing = any(item.response_id == self.greeting for item in self.playback.items.values())
        return playing or self.greeting in ("", self.gate.response_id)

    def interrupt(self, now: float) -> None:
        """Stops the sound and tells the model how much of each item was played."""
        self.confirm_at = None
        heard = {
            item.item_id: self.playback.heard_ms(item, now) for item in self.playback.items.values()
        }
        self.outbox.add(signals.SendPhone(phone_messages.clear_frame(self.stream)))
        left = self.playback.clear()
        self.playing_since = None
        running = self.gate.response_id if self.gate.state == "active" else None
        self.interrupted |= {item.response_id for item in left}
        if running is not None:
            self.interrupted.add(running)
            if not self.session.server_interrupts:
                self.outbox.send("response.cancel", response_id=self.gate.cancel())
        for response_id in self.fillers & self.interrupted:
            self.outbox.send("response.cancel", response_id=response_id)
        for item in left:
            if not item.is_filler:
                self._cut(item, heard[item.item_id])
        self.outbox.add(signals.Counted("voice_barge_in", next(iter(heard.values()), 0)))

    def _cut(self, item: ItemSound, heard_ms: int) -> None:
        """Tells the model how much of an item was heard, and cuts its words."""
        end = min(heard_ms, item.received_ms)
        if item.is_whole and item.received_ms - end < HEARD_MS:
            self.playback.heard.add(item.item_id)
            self.outbox.add(signals.WordsChanged(item.item_id))
            return
        if end > 0:
            self.truncate(item.item_id, end)
        else:
            self.outbox.send("conversation.item.delete", item_id=item.item_id)
        if self.transcript.interrupt(item.item_id, end, item.received_ms):
            self.outbox.add(signals.WordsChanged(item.item_id))

    def truncate(self, item_id: str, end_ms: int, *, again: bool = False) -> None:
        """Truncates an item on the server. `again`: corrects an earlier truncation."""
        facts = {"item_id": item_id, "content_index": 0, "audio_end_ms": end_ms}
        event_id = self.outbox.send("conversation.item.truncate", **facts)
        if not again:
            self.outbox.remember(event_id, {"type": "conversation.item.truncate", **facts})

    @property
    def is_anybody_speaking(self) -> bool:
        """Whether the caller speaks, sound is being played or a response is due."""
        return self.playback.is_playing or self.caller_speaks or self.gate.state != "idle"

    def caller_started(self) -> None:
        """Records that the caller has started to speak."""
        self.caller_speaks = True
        self.stopped_at = None
        self.request = {}  # the caller does not answer what is still to be spoken
        self.timers.caller_spoke()

    def caller_stopped(self, now: float) -> None:
        """Records that the caller has stopped speaking; an answer is due."""
        self.caller_speaks = False
        self.confirm_at = None
        self.stopped_at = now
        self.timers.start("answer", now)

    def greeting_done(self, response_id: str) -> None:
        """Records the end of a response, which may be the greeting."""
        if response_id != self.greeting:
            return
        if self.texts:
            self.greeting = ""  # it is still to be spoken
        elif not self.session.greeting_is_interruptible:
            self.clears_input = True

    def leave_after_tool(self, destination: str | None, leave_at: float) -> None:
        """Ends the call at `leave_at` or after the last words, by a transfer or a hang-up."""
        self.destination = destination
        self.leaving = "transferred" if destination else "agent_hung_up"
        self.phase = "leaving"
        self.leave_at = leave_at

    def session_opened(self) -> None:
        """Continues the call, or its goodbye, with an open session."""
        self.phase = "leaving" if self.leave_at is not None else "open"

    def reset_session(self) -> None:
        """Forgets what belonged to the lost session; the next one begins with `opening`."""
        self.phase = "opening"
        self.gate.lose()
        self.request = {}
        self.texts.clear()
        self.interrupted.clear()
        self.fillers.clear()
        self.caller_speaks = False
        self.confirm_at = None
        self.unanswered = False
        self.tools.lose_session()
