"""Recordings of calls: gaps, doubled sound and the silence after an interruption are found in them."""

from __future__ import annotations

import io
import wave

import numpy as np

from graphrag.voice.simulation import mu_law
from graphrag.voice.simulation.call_recording import CallRecording
from graphrag.voice.simulation.speech import tones

ANSWER = tones("The first answer of a call.")
OTHER = tones("Something else entirely.")


def quiet(ms: int) -> bytes:
    return bytes([mu_law.SILENCE]) * (8 * ms)


def test_a_whole_answer_is_found_once() -> None:
    recording = CallRecording(agent=quiet(500) + ANSWER + quiet(300) + OTHER, caller=b"")
    (found,) = recording.find(ANSWER)
    assert (found.start_ms, found.is_whole) == (500, True)
    assert found.heard_ms == len(ANSWER) / 8


def test_a_gap_and_doubled_sound_are_found() -> None:
    half = len(ANSWER) // 2
    broken = CallRecording(agent=ANSWER[:half] + quiet(60) + ANSWER[half:], caller=b"")
    assert [found.is_whole for found in broken.find(ANSWER)] == [False]
    assert len(CallRecording(agent=ANSWER + ANSWER, caller=b"").find(ANSWER)) == 2
    assert CallRecording(agent=OTHER, caller=b"").find(ANSWER) == []


def test_the_silence_after_an_interruption_is_measured() -> None:
    recording = CallRecording(
        agent=ANSWER[: 8 * 1000] + quiet(1000) + OTHER, caller=quiet(900) + OTHER + quiet(100)
    )
    (began,) = recording.words_of_caller_ms()
    assert began == 900
    assert recording.silent_after_ms(began) == 100
    assert CallRecording(agent=ANSWER, caller=b"").silent_after_ms(0) is None


def test_both_directions_stand_in_one_file() -> None:
    recording = CallRecording(caller=OTHER, agent=quiet(100) + ANSWER)
    with wave.open(io.BytesIO(recording.wav())) as file:
        assert (file.getnchannels(), file.getframerate(), file.getsampwidth()) == (2, 8000, 2)
        both = np.frombuffer(file.readframes(1 << 20), "<i2").reshape(-1, 2)
    assert len(both) == recording.length_ms * 8
    assert both[: len(OTHER), 0].tolist() == mu_law.decode(OTHER).tolist()
    assert both[800 : 800 + len(ANSWER), 1].tolist() == mu_law.decode(ANSWER).tolist()
