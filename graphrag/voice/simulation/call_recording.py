"""A call as sound: both directions on one line of time, written as a stereo WAV, and looked at.

The bridge passes sound on as it came. So what the agent said is found again byte by byte in what was heard.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from graphrag.voice.simulation import mu_law

BYTES_A_MS = mu_law.RATE_HZ // 1000
BEGINNING = 800
"""So many bytes, 100 ms, of a sound tell it from others."""
QUIET_MS = 200
"""Silence that lasts so long is an end, not a pause between words."""
STEP = 160
LOUD = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSound:
    """Where a sound is heard, and how much of it without a gap."""

    start_ms: float
    heard_ms: float
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecording:
    """Both directions of a call in μ-law, from the same moment: what the caller and the agent said."""

    caller: bytes = b""
    agent: bytes = b""

    @property
    def length_ms(self) -> float:
        return max(len(self.caller), len(self.agent)) / BYTES_A_MS

    def wav(self) -> bytes:
        """Return a WAV file: the caller on the left, the agent on the right."""
        size = max(len(self.caller), len(self.agent))
        both = [
            mu_law.decode(side.ljust(size, bytes([mu_law.SILENCE]))) for side in (self.caller, self.agent)
        ]
        made = io.BytesIO()
        with wave.open(made, "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(mu_law.RATE_HZ)
            file.writeframes(np.column_stack(both).astype("<i2").tobytes())
        return made.getvalue()

    def find(self, sound: bytes) -> list[FoundSound]:
        """Return every place where the agent is heard with a sound, or its beginning.

        Heard once and whole: no gap, nothing doubled. Heard in part: it was interrupted, or has a gap.
        """
        found: list[FoundSound] = []
        at = self.agent.find(sound[:BEGINNING])
        while sound and at >= 0:
            size = _same(self.agent[at : at + len(sound)], sound)
            found.append(
                FoundSound(start_ms=at / BYTES_A_MS, heard_ms=size / BYTES_A_MS, is_whole=size == len(sound))
            )
            at = self.agent.find(sound[:BEGINNING], at + max(size, 1))
        return found

    def silent_after_ms(self, at_ms: float) -> float | None:
        """Return how long after a moment the agent is still heard; None: it does not stop."""
        start = int(at_ms * BYTES_A_MS)
        rest = self.agent[start:]
        quiet = 0
        for place in range(0, len(rest), STEP):
            quiet = 0 if mu_law.loudness(rest[place : place + STEP]) > LOUD else quiet + STEP
            if quiet >= QUIET_MS * BYTES_A_MS:
                return (place + STEP - quiet) / BYTES_A_MS
        return None

    def words_of_caller_ms(self) -> Iterator[float]:
        """Yield when the caller begins to speak, each time."""
        quiet = QUIET_MS * BYTES_A_MS
        for place in range(0, len(self.caller), STEP):
            if mu_law.loudness(self.caller[place : place + STEP]) <= LOUD:
                quiet += STEP
            else:
                if quiet >= QUIET_MS * BYTES_A_MS:
                    yield place / BYTES_A_MS
                quiet = 0


def _same(one: bytes, other: bytes) -> int:
    """Return how many bytes two sounds have in common from their beginning."""
    size = min(len(one), len(other))
    different = np.frombuffer(one, np.uint8, size) != np.frombuffer(other, np.uint8, size)
    return int(np.argmax(different)) if different.any() else size
