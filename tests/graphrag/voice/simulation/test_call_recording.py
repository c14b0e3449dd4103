"""Recordings of calls: both directions in one file; the silence after an interruption is found in them."""

from __future__ import annotations

import io
import wave

import numpy as np

from graphrag.voice.simulation import mu_law
from graphrag.voice.simulation.simulated_call import CallRecording
from graphrag.voice.simulation.speech import tones
from tests.support.recorded_calls import silent_after_ms, words_of_caller_ms

ANSWER = tones("The first answer of a call.")
OTHER = tones("Something else entirely.")


def quiet(ms: int) -> bytes:
    return bytes([mu_law.SILENCE]) * (8 * ms)


def test_the_silence_after_an_interruption_is_measured() -> None:
    recording = CallRecording(
        agent=ANSWER[: 8 * 1000] + quiet(1000) + OTHER, caller=quiet(900) + OTHER + quiet(100)
    )
    (began,) = words_of_caller_ms(recording)
    assert began == 900
    assert silent_after_ms(recording, began) == 100
    assert silent_after_ms(CallRecording(agent=ANSWER), 0) is None


def test_both_directions_stand_in_one_file() -> None:
    recording = CallRecording(caller=OTHER, agent=quiet(100) + ANSWER)
    with wave.open(io.BytesIO(recording.wav())) as file:
        assert (file.getnchannels(), file.getframerate(), file.getsampwidth()) == (2, 8000, 2)
        both = np.frombuffer(file.readframes(1 << 20), "<i2").reshape(-1, 2)
    assert len(both) == recording.length_ms * 8
    assert both[: len(OTHER), 0].tolist() == mu_law.decode(OTHER).tolist()
    assert both[800 : 800 + len(ANSWER), 1].tolist() == mu_law.decode(ANSWER).tolist()
