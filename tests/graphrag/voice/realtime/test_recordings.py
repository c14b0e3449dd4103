"""Recorded sessions are played to the bridge of a call: what it makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from graphrag.voice.signals import ModelEvent
from tests.graphrag.voice.calls import Call
from tests.graphrag.voice.realtime.conversing import CLIENT, RECORDINGS, SERVER
from tests.support.each_row import each_row


@each_row(
    "name, wanted, speaks",
    [
        (
            "audio_in_server_vad_turn",
            [
                ("user", "Hello, my name is Marcelo."),
                ("assistant", "Hello, Marcelo! Great to meet you. How can I help you today?"),
            ],
            True,
        ),
        ("text_in_audio_out_turn", [("assistant", "Hi there!")], True),
        ("history_seeding", [("assistant", "Your name is Alice, and your favorite color is teal.")], False),
    ],
)
def test_the_words_of_a_recorded_session_are_in_the_transcript_and_its_sound_on_the_line(
    name: str, wanted: list[tuple[str, str]], speaks: bool
) -> None:
    if not RECORDINGS.is_dir():
        pytest.skip("the recorded sessions are not beside this checkout (../shared/data/realtime)")
    recorded: list[Any] = yaml.safe_load((RECORDINGS / f"{name}.yaml").read_text())["interactions"]
    call = Call(opened=False)
    deltas = 0
    for step in recorded:
        if step["direction"] == "received":
            SERVER[step["data"]["type"]].model_validate(step["data"])
            deltas += step["data"]["type"] == "response.output_audio.delta"
            call.feed(ModelEvent(step["data"]))
    assert [(entry.role, entry.text) for entry in call.bridge.transcript.ordered()] == wanted
    media = [frame for frame in call.phone_frames() if frame["event"] == "media"]
    assert bool(media) == bool(deltas) == speaks
    for event in call.sent():
        CLIENT[event["type"]].model_validate(event)
    assert call.kinds()[0] == "session.update"
    assert call.kinds().count("response.create") == (not speaks), "words alone are asked to be said, once"
