"""Interruptions on a virtual clock: what the caller heard of an answer, and what the model
learns of it.

A telephone plays in order, answers marks when their sound was played, and stops at `clear`;
each message takes its time on the line. The model side refuses to cut an item behind its end,
as the vendor's does.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from graphrag.bridge.signals import (
    Action,
    PhoneAudio,
    PhoneMark,
    SendModel,
    SendPhone,
    Signal,
    Tick,
)
from tests.graphrag.bridge.fed_call import Call

DELTA_MS = 200
FASTER = 5


@dataclass
class Interruptions:
    """One call in which the caller interrupts again and again. Units: seconds,
    milliseconds of sound.
    """

    seed: int
    each_way_s: float = 0.1
    jitter_s: float = 0.02
    errors_ms: list[float] = field(default_factory=list[float])
    api_errors: int = 0
    interrupted: int = 0

    def __post_init__(self) -> None:
        self.chance, self.call = random.Random(self.seed), Call()
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.last_down = self.last_up = self.play_end = 0.0
        self.playing: list[tuple[str, float, float]] = []
        self.marks: list[tuple[float, str]] = []
        self.heard_ms: dict[str, float] = {}
        self.sent_ms: dict[str, int] = {}
        self.item = ""
        self.caller_line()

    def caller_line(self) -> None:
        """The caller's line gives sound, if only silence."""
        self.feed(PhoneAudio("f39/"))
        self.later(self.call.now + 1, self.caller_line)

    def later(self, at: float, work: Callable[[], None]) -> None:
        heapq.heappush(self.due, (at, next(self.numbers), work))

    def on_line(self, last: float) -> float:
        delay = self.each_way_s + self.jitter_s * self.chance.uniform(-1, 1)
        return max(last, self.call.now + delay)

    def run_until(self, end: float) -> None:
        while True:
            tick = self.call.bridge.next_time()
            first = self.due[0][0] if self.due else end
            if min(first, end if tick is None else tick) >= end:
                break
            if tick is not None and tick < first:
                self.call.now = max(self.call.now, tick)
                self.take(self.call.feed(Tick()))
            else:
                self.call.now, _, work = heapq.heappop(self.due)
                work()
        self.call.now = end

    def feed(self, signal: Signal) -> None:
        self.take(self.call.feed(signal))

    def model(self, kind: str, **fields: Any) -> None:
        self.take(self.call.model(kind, **fields))

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, SendPhone):
                self.last_down = self.on_line(self.last_down)
                self.later(self.last_down, self.arriving(orjson.loads(action.text), self.item))
            elif isinstance(action, SendModel):
                self.at_model(orjson.loads(action.text))

    def arriving(self, frame: dict[str, Any], item: str) -> Callable[[], None]:
        return lambda: self.at_phone(frame, item)

    def at_phone(self, frame: dict[str, Any], item: str) -> None:
        now = self.call.now
        match frame["event"]:
            case "media":
                begin = max(now, self.play_end)
                self.play_end = begin + len(frame["media"]["payload"]) * 3 // 4 / 8_000
                self.playing.append((item, begin, self.play_end))
            case "mark":
                name = frame["mark"]["name"]
                self.marks.append((self.play_end, name))
                self.later(max(now, self.play_end), lambda: self.echo(name))
            case _:
                for one, begin, end in self.playing:
                    heard = max(0.0, min(end, now) - begin) * 1000
                    self.heard_ms[one] = self.heard_ms.get(one, 0.0) + heard
                self.playing = []
                self.play_end = now
                for _, name in list(self.marks):
                    self.echo(name)

    def echo(self, name: str) -> None:
        if all(name != known for _, known in self.marks):
            return
        self.marks = [each for each in self.marks if each[1] != name]
        self.last_up = self.on_line(self.last_up)
        self.later(self.last_up, lambda: self.feed(PhoneMark(name)))

    def at_model(self, event: dict[str, Any]) -> None:
        """Take what the model side gets; a cut is compared once the `clear` has
        reached the telephone.
        """
        if event["type"] != "conversation.item.truncate":
            return
        item = event["item_id"]
        end_ms = event["audio_end_ms"]
        if end_ms > self.sent_ms.get(item, 0):
            self.api_errors += 1
        if (
            self.interrupted > 1
        ):  # from the second answer on: until then the line's delay is not known
            at = self.call.now + 2 * (self.each_way_s + self.jitter_s)
            self.later(
                at, lambda: self.errors_ms.append(abs(self.heard_ms.get(item, 0.0) - end_ms))
            )

    def answer(self) -> None:
        """The model answers, and the caller interrupts somewhere in it."""
        call = self.call
        self.item = f"i{next(self.numbers)}"
        response = call.respond()
        length_s = self.chance.uniform(1.0, 6.0)
        at = call.now
        end = call.now + self.chance.uniform(0.4, length_s + 0.3)
        said_s = 0.0
        while said_s < length_s and at < end:
            self.run_until(at)
            self.sent_ms[self.item] = self.sent_ms.get(self.item, 0) + DELTA_MS
            self.take(call.speak(response, self.item, DELTA_MS))
            said_s += DELTA_MS / 1000
            at += DELTA_MS / 1000 / FASTER
        is_whole = said_s >= length_s
        if is_whole:
            self.model("response.output_audio.done", response_id=response, item_id=self.item)
            self.model("response.done", response={"id": response, "status": "completed"})
        self.run_until(max(end, call.now))
        self.interrupted += 1
        said = f"u{next(self.numbers)}"
        self.model("input_audio_buffer.speech_started", item_id=said)
        if not is_whole:
            self.model("response.done", response={"id": response, "status": "cancelled"})
        self.run_until(call.now + 0.6)
        self.model("input_audio_buffer.speech_stopped", item_id=said)
        self.model("input_audio_buffer.committed", item_id=said, previous_item_id=None)


def interruptions(times: int, *, calls: int = 200) -> tuple[list[float], int, int]:
    """Return the errors of what the model is sent, how often it refused, and how often
    it was interrupted.
    """
    errors: list[float] = []
    refused = done = 0
    for seed in range(calls):
        call = Interruptions(seed)
        for _ in range(times // calls):
            call.answer()
        call.run_until(call.call.now + 1)
        errors += call.errors_ms
        refused = refused + call.api_errors
        done = done + call.interrupted
    return errors, refused, done
