"""Turns of a session of the double: the caller's speech, and the responses it begins or interrupts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from graphrag.voice.realtime.double_responses import DoubleResponse
from graphrag.voice.realtime.double_state import DoubleState, Event, EventRefused, new_id


class DoubleTurns(DoubleState):
    """Takes the caller's sound. `active`: the response of the conversation that is being made, None where
    none is; `beside`: one out of band."""

    active: DoubleResponse | None = None
    beside: DoubleResponse | None = None
    _speech_id = ""
    _speech_ms = 0
    _committed_ms = 0
    _asked_silent_ms: int | None = None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._unwritten: list[tuple[str, str, int]] = []

    def on_sound(self, event: Event) -> None:
        try:
            sound = base64.b64decode(event["audio"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise EventRefused("invalid_value", "Invalid 'audio'. Expected base64.", "audio") from None
        detection = self.sound_in["turn_detection"]
        for edge in self.activity.take(sound, self.format_in, detection or {}):
            if not detection:
                continue
            if edge.kind == "started":
                self._speech_started(edge.at_ms)
            else:
                self.emit(
                    "input_audio_buffer.speech_stopped", audio_end_ms=edge.at_ms, item_id=self._speech_id
                )
                self._commit(edge.at_ms - self._speech_ms, answers=detection["create_response"])
        if detection:
            self._look_for_silence(detection.get("idle_timeout_ms"))

    def on_clear(self, event: Event) -> None:  # noqa: ARG002 - one form for all
        self.activity.clear()
        self._committed_ms = self.activity.heard_ms
        self.emit("input_audio_buffer.cleared")

    def on_commit(self, event: Event) -> None:  # noqa: ARG002
        length_ms = self.activity.heard_ms - self._committed_ms
        if length_ms < 100:
            raise EventRefused(
                "input_audio_buffer_commit_empty",
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, "
                f"but buffer only has {length_ms:.2f}ms of audio.",
            )
        self._speech_id = new_id("item")
        self._commit(length_ms, answers=False)

    def _speech_started(self, at_ms: int) -> None:
        self._speech_id, self._speech_ms, self._asked_silent_ms = new_id("item"), at_ms, None
        self.emit("input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=self._speech_id)
        if self.active is not None and self.sound_in["turn_detection"]["interrupt_response"]:
            self.active.cancel("turn_detected")

    def _look_for_silence(self, idle_ms: int | None) -> None:
        since = self._asked_silent_ms
        if since is None or idle_ms is None or self.active is not None or self.activity.is_speaking:
            return
        now = self.activity.heard_ms
        if now < since + idle_ms:
            return
        self._asked_silent_ms, self._speech_id = None, new_id("item")
        where = {"audio_start_ms": since, "audio_end_ms": now, "item_id": self._speech_id}
        self.emit("input_audio_buffer.timeout_triggered", **where)
        self._commit(idle_ms, answers=True, is_silent=True)

    def _commit(self, length_ms: int, *, answers: bool, is_silent: bool = False) -> None:
        """Make an item of the sound; what was said in it becomes known with the answer or after it."""
        self._committed_ms = self.activity.heard_ms
        part: Event = {"type": "input_audio", "transcript": None}
        item: Event = {
            "id": self._speech_id,
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [part],
        }
        before = self.items[-1]["id"] if self.items else None
        self.emit("input_audio_buffer.committed", previous_item_id=before, item_id=item["id"])
        self.add_item(item)
        self.emit("conversation.item.done", previous_item_id=before, item=item)
        part["transcript"] = words = "" if is_silent else self.setup.hear()
        if self.sound_in["transcription"] and not is_silent:
            self._unwritten.append((item["id"], words, length_ms))
        if answers and self.active is None:
            self.respond({})
        if not self.faults.late_words or self.active is None:
            self._write_words()

    def _write_words(self) -> None:
        """Say what was understood, of all that was said since the last time."""
        unwritten, self._unwritten = self._unwritten, []
        for item_id, words, length_ms in unwritten:
            self._write_item(item_id, words, length_ms)

    def _write_item(self, item_id: str, words: str, length_ms: int) -> None:
        where = {"item_id": item_id, "content_index": 0}
        kind = "conversation.item.input_audio_transcription"
        if self.faults.failed_words:
            error = {
                "type": "transcription_error",
                "code": "audio_unintelligible",
                "message": "",
                "param": None,
            }
            self.emit(f"{kind}.failed", **where, error=error)
            return
        for place, word in enumerate(words.split()):
            self.emit(f"{kind}.delta", **where, delta=f" {word}" if place else word)
        usage = {"type": "duration", "seconds": max(1, round(length_ms / 1000))}
        self.emit(f"{kind}.completed", **where, transcript=words, usage=usage)

    def respond(self, asked: Mapping[str, Any]) -> None:
        response = DoubleResponse(self, asked, self._over)
        if response.is_beside:
            self.beside = response
        else:
            self.active = response
        response.begin()

    def _over(self, response: DoubleResponse) -> None:
        if response is self.beside:
            self.beside = None
        if response is self.active:
            self.active = None
            self._asked_silent_ms = round(self.activity.heard_ms + response.sound_ms)
            self._write_words()
