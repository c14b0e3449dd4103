"""Synthesizes speech for the telephone: by espeak-ng if installed, by packaged clips or tones."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import subprocess
import wave
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import gcd
from typing import final

import numpy as np
from numpy.typing import NDArray

from graphrag.simulator import mu_law

PROGRAM = "espeak-ng"
PROGRAM_S = 20.0
WORDS_A_MINUTE = 170
MAX_CHARS = 2_000
BRIEF_CHARS = 10
MAX_CACHED = 200  # texts with their sound
MAX_WAV_S = 300
TONE_MS_A_CHAR = 60
LONGEST_PAUSE_MS = 200  # longer pauses would be detected as the end of speech, so they are cut
QUIET = 200  # loudness below which 20 ms count as a pause

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-zA-Z]{2,4})?")


class UnreadableWav(Exception):
    """Raised for a file without playable sound."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@final
class Speech:
    """Speaks texts and caches their sound. `program`: path of espeak-ng, None without it.

    `max_chars`: of a text that are spoken.
    """

    def __init__(
        self, program: str | None, clips: Mapping[str, bytes], *, max_chars: int = MAX_CHARS
    ) -> None:
        self._max_chars = max_chars
        self._program = program
        self._clips = clips
        self._cache: dict[tuple[str, str], bytes] = {}

    @property
    def says_all(self) -> bool:
        """Whether any text can be spoken, not only the packaged clips."""
        return self._program is not None

    async def say(self, text: str, language: str = "en") -> bytes:
        """Returns a text as μ-law of 8 kHz, as tones if it cannot be spoken."""
        return await asyncio.to_thread(self.sound, text, language)

    def sound(self, text: str, language: str = "en") -> bytes:
        """Returns the sound of a text. Blocks about 20 ms for a sentence."""
        sound = self._cache.get((text, language))
        if sound is None:
            spoken = (
                b""
                if self._program is None
                else _by_program(self._program, text[: self._max_chars], language)
            )
            sound = spoken or self._clips.get(text) or tones(text[: self._max_chars])
            while len(self._cache) >= MAX_CACHED:
                self._cache.pop(next(iter(self._cache)), None)
            self._cache[(text, language)] = sound
        return sound


@cache
def speech() -> Speech:
    """Returns the best speech synthesis of this machine."""
    program = shutil.which(PROGRAM)
    return Speech(program, {} if program else packaged_clips())


def brief_speech() -> Speech:
    """Returns a synthesis whose texts all sound for less than a second, for calls to which nobody
    listens.
    """
    return Speech(None, {}, max_chars=BRIEF_CHARS)


def packaged_clips() -> dict[str, bytes]:
    """Returns the packaged clips by their text: the lines of the sample scripts."""
    place = files("mock_data").joinpath("calls", "clips")
    names: dict[str, str] = json.loads(place.joinpath("index.json").read_text("utf-8"))
    return {text: place.joinpath(name).read_bytes() for text, name in names.items()}


def tones(text: str) -> bytes:
    """Returns tones about as long as the spoken text, with another pitch for each word."""
    words = text.split() or ["…"]
    parts = [_tone(200.0 + 20.0 * (sum(map(ord, word)) % 20), len(word) + 1) for word in words]
    return mu_law.encode(np.concatenate(parts))


def _tone(pitch_hz: float, chars: int) -> NDArray[np.int16]:
    times = np.arange(chars * TONE_MS_A_CHAR * mu_law.RATE_HZ // 1000) / mu_law.RATE_HZ
    return (8000 * np.cos(2 * np.pi * pitch_hz * times)).astype(np.int16)


def _by_program(program: str, text: str, language: str) -> bytes:
    """Returns the output of espeak-ng, empty if it fails.

    The text is passed by standard input, so that it cannot be read as an option.
    """
    voice = language.lower() if _LANGUAGE.fullmatch(language) else "en"
    command = [program, "--stdin", "--stdout", "-s", str(WORDS_A_MINUTE), "-v", voice]
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=PROGRAM_S, check=True
        )
        return mu_law.encode(without_pauses(samples_of(done.stdout)))
    except (OSError, subprocess.SubprocessError, UnreadableWav):
        return b""


def from_wav(data: bytes) -> bytes:
    """Returns a 16-bit WAV file as μ-law of 8 kHz. Raises: UnreadableWav."""
    return mu_law.encode(samples_of(data))


def samples_of(data: bytes) -> NDArray[np.int16]:
    """Returns the mixed samples of a WAV file at 8 kHz. Raises: UnreadableWav."""
    try:
        with wave.open(io.BytesIO(data)) as file:
            width = file.getsampwidth()
            channels = file.getnchannels()
            rate = file.getframerate()
            raw = file.readframes(MAX_WAV_S * rate)
    except (wave.Error, EOFError) as exc:
        raise UnreadableWav(f"it is no WAV file of PCM samples: {exc}") from exc
    if width != 2 or not raw:
        raise UnreadableWav(
            "a WAV file of 16-bit samples is needed" if raw else "it holds no sound"
        )
    mixed = np.frombuffer(raw[: len(raw) - len(raw) % (2 * channels)], dtype="<i2").reshape(
        -1, channels
    )
    samples = mixed.mean(axis=1)
    common = gcd(rate, mu_law.RATE_HZ)
    if rate != mu_law.RATE_HZ:
        # Imported here: scipy.signal takes as long as half of the service to import.
        from scipy.signal import resample_poly  # pyright: ignore[reportUnknownVariableType]

        samples = resample_poly(samples, mu_law.RATE_HZ // common, rate // common)
    return np.clip(samples, -32768, 32767).astype(np.int16)


def without_pauses(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    """Returns the samples without silence at both ends and with shortened pauses."""
    step = mu_law.RATE_HZ // 50
    kept: list[NDArray[np.int16]] = []
    pause: list[NDArray[np.int16]] = []
    for start in range(0, len(samples), step):
        part = samples[start : start + step]
        if np.sqrt(np.mean(np.square(part, dtype=np.float64))) < QUIET:
            pause.append(part)
            continue
        kept += pause[: LONGEST_PAUSE_MS // 20] if kept else []
        pause = []
        kept.append(part)
    return np.concatenate(kept) if kept else samples[:0]
