"""Speech on a telephone: μ-law by the vendor-neutral tables, words by whatever the machine has."""

from __future__ import annotations

import io
import shutil
import warnings
import wave

import numpy as np
import pytest

from graphrag.voice.simulation import mu_law
from graphrag.voice.simulation.speech import (
    Speech,
    UnreadableWav,
    from_wav,
    packaged_clips,
    tones,
    without_pauses,
)
from tests.support.call_clips import packaged_scripts
from tests.support.recorded_calls import loudness

MAX_CLIPS = 400_000
EVERY_SAMPLE = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)


def encoded_one_by_one(sample: int) -> int:
    """The reference: the segments of G.711 searched in order."""
    magnitude = sample >> 2
    mask = 0xFF if magnitude >= 0 else 0x7F
    magnitude = min(abs(magnitude), 8159) + 33
    ends = [0x3F, 0x7F, 0xFF, 0x1FF, 0x3FF, 0x7FF, 0xFFF, 0x1FFF]
    segment = next((place for place, end in enumerate(ends) if magnitude <= end), None)
    code = 0x7F if segment is None else (segment << 4) | ((magnitude >> (segment + 1)) & 0xF)
    return code ^ mask


def a_wav(samples: np.ndarray, rate: int, channels: int = 1, width: int = 2) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return made.getvalue()


def test_tables_equal_the_reference_for_every_sample() -> None:
    assert mu_law.encode(EVERY_SAMPLE) == bytes(encoded_one_by_one(int(one)) for one in EVERY_SAMPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audioop = pytest.importorskip("audioop", reason="gone from Python 3.13")
    assert mu_law.encode(EVERY_SAMPLE) == audioop.lin2ulaw(EVERY_SAMPLE.tobytes(), 2)
    every_byte = bytes(range(256))
    assert mu_law.decode(every_byte).tobytes() == audioop.ulaw2lin(every_byte, 2)


def test_silence_is_silent_and_tones_are_not() -> None:
    assert loudness(bytes([mu_law.SILENCE]) * 160) == 0
    said = tones("Good morning, this is a test.")
    assert 8000 < len(said) < 24_000
    assert min(loudness(said[at : at + 160]) for at in range(0, len(said) - 160, 160)) > 1000


async def test_words_come_from_the_program_else_from_clips_else_from_tones() -> None:
    clip = tones("clip")
    bare = Speech(None, {"Known words.": clip})
    assert await bare.say("Known words.") == clip
    assert await bare.say("Unknown words.") == tones("Unknown words.")
    broken = Speech("/nowhere/espeak-ng", {})
    assert await broken.say("Still heard.") == tones("Still heard.")


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
async def test_the_program_speaks_two_languages_without_long_pauses() -> None:
    speech = Speech(shutil.which("espeak-ng"), {})
    english = await speech.say("Hello. How are you? -v fr", "en")
    assert english != await speech.say("Hello. How are you? -v fr", "fr")
    silent = [loudness(english[at : at + 160]) < 100 for at in range(0, len(english), 160)]
    assert not any(all(silent[at : at + 20]) for at in range(len(silent) - 20))


def test_a_wav_of_any_rate_keeps_its_length_and_pitch() -> None:
    for rate, channels in ((8000, 1), (44_100, 2), (24_000, 1)):
        wanted = 10_000 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
        sound = from_wav(a_wav(np.repeat(wanted, channels), rate, channels))
        assert len(sound) == 8000
        assert np.argmax(np.abs(np.fft.rfft(mu_law.decode(sound)))) == 440
    for broken in (b"", b"RIFF", a_wav(np.zeros(0), 8000), b"\0" * 100):
        with pytest.raises(UnreadableWav):
            from_wav(broken)


def test_pauses_are_shortened_and_ends_cut() -> None:
    loud, quiet = np.full(1600, 5000, np.int16), np.zeros(8000, np.int16)
    assert len(without_pauses(np.concatenate([quiet, loud, quiet, loud, quiet]))) == 2 * 1600 + 1600


def test_every_line_of_the_delivered_scripts_has_a_small_clip() -> None:
    clips = packaged_clips()
    assert set(clips) == {line for script in packaged_scripts() for line in script.lines}
    assert sum(map(len, clips.values())) <= MAX_CLIPS
    assert all(loudness(sound) > 300 for sound in clips.values())
