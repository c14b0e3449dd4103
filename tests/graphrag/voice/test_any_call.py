"""Plays both sides' events in any order: what holds of every call, whatever happens."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag.voice.signals import (
    EndWanted,
    ModelLost,
    Note,
    PhoneAudio,
    PhoneDigit,
    PhoneMark,
    PhoneStopped,
    SendPhone,
    ToolAnswered,
)
from tests.graphrag.voice.calls import Call, a_session, sound

MODES = st.sampled_from(["immediate", "confirmed", "off"])
KINDS = [
    *("audio", "mark", "late_mark", "speech", "stop", "commit", "created", "delta", "done", "cancelled"),
    *("failed", "tool", "finish", "silence", "digit", "note", "lost", "session", "error", "wait"),
    *("wait_long", "filler"),
]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=80)
LAST = st.sampled_from(["hang_up", "drain", "tool"])


class AnyCall(Call):
    """Does one step of a random call, as a server would: only what the state of its session allows."""

    def step(self, kind: str, n: int) -> None:
        self.now += 0.01 * n
        match kind:
            case "audio":
                self.feed(PhoneAudio(sound(20)))
            case "mark":
                for frame in self.waiting_marks()[: n + 1]:
                    self.feed(PhoneMark(frame))
            case "late_mark":
                self.feed(PhoneMark(f"0.{n}"))
            case "speech":
                self.model("input_audio_buffer.speech_started", item_id=f"u{next(self.numbers)}")
            case "stop":
                self.model("input_audio_buffer.speech_stopped", item_id="u")
            case "commit":
                self.model("input_audio_buffer.committed", item_id=f"u{n}", previous_item_id=None)
            case "created" if self.server is None:
                self.server = self.respond()
            case "delta" if self.server is not None:
                self.speak(self.server, f"i{self.server}.{n % 2}", 50 * (n + 1), "word ")
            case "done" | "cancelled" | "failed" if self.server is not None:
                ended, self.server = self.server, None
                self.done(ended, "completed" if kind == "done" else kind)
            case "tool" if self.server is not None:
                self.calls_tool(self.server, "look", f"c{n}")
            case "finish":
                running = [tool.call_id for tool in self.tools]
                self.feed(ToolAnswered(running[n % len(running)] if running else "none", "out"))
            case "silence":
                self.model("input_audio_buffer.timeout_triggered")
            case "digit":
                self.feed(PhoneDigit("1#"[n % 2]))
            case "note":
                self.feed(Note("decided"))
            case "lost":
                self.server = None
                self.feed(ModelLost())
            case "session":
                self.model("session.created", session={})
                self.model("session.updated")
            case "error":
                codes = ["conversation_already_has_active_response", "unknown", "response_cancel_not_active"]
                self.model("error", error={"code": codes[n % 3], "message": f"{n} ms"})
            case "filler":
                self.respond(response=f"f{n}", metadata={"purpose": "filler"})
                self.speak(f"f{n}", f"fi{n}", 100)
                self.done(f"f{n}")
            case "wait":
                self.wait(0.3 * n)
            case "wait_long":
                self.wait(3.0 * n)
            case _:
                pass

    server: str | None = None

    def waiting_marks(self) -> list[str]:
        return list(self.bridge.playback._pieces)  # pyright: ignore[reportPrivateUsage]


@given(STEPS, MODES, LAST, st.booleans())
@settings(max_examples=60)
def test_what_holds_of_every_call(steps: list[tuple[str, int]], mode: str, last: str, greeted: bool) -> None:
    call = AnyCall(a_session(greeting="Hello." if greeted else None, options={"barge_in": {"mode": mode}}))
    for kind, n in steps:
        call.step(kind, n)
    if not call.ends:
        finish(call, last)
    assert len(call.ends) == 1, "it ends exactly once"
    assert call.actions[-1] is call.ends[0], "nothing is wanted after the end"
    assert call.feed(PhoneAudio(sound(20))) == []
    answers = Counter(
        event["item"]["call_id"]
        for event in call.sent()
        if event["type"] == "conversation.item.create" and event["item"]["type"] == "function_call_output"
    )
    assert all(count == 1 for count in answers.values()), "an output is sent once"
    runs = Counter(tool.call_id for tool in call.tools)
    assert all(count == 1 for count in runs.values()), "a tool runs once"
    assert_truncations(call)


def finish(call: AnyCall, last: str) -> None:
    if last == "hang_up":
        call.feed(PhoneStopped())
        return
    call.feed(EndWanted("draining"))
    for _ in range(4):
        call.feed(PhoneAudio(sound(20)))
        call.wait(9)


def assert_truncations(call: Call) -> None:
    """No truncation goes beyond what came, and after a clear no sound of what was cleared is sent."""
    received: Counter[str] = Counter()
    for event in call.sent():
        if event["type"] == "conversation.item.truncate":
            received[event["item_id"]] += 1
            assert event["audio_end_ms"] <= call.received_ms.get(event["item_id"], 0)
    names: list[Any] = [frame["mark"]["name"] for frame in call.phone_frames() if frame["event"] == "mark"]
    assert len(names) == len(set(names)), "a mark has a name of its own"
    epochs = [int(name.partition(".")[0]) for name in names]
    assert epochs == sorted(epochs)
    clears = sum(isinstance(a, SendPhone) and '"clear"' in a.text for a in call.actions)
    assert (epochs[-1] if epochs else 0) <= clears
