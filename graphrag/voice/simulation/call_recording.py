"""A call as sound: both directions on one line of time, written as a stereo WAV."""

from __future__ import annotations

import io
import wave
from dataclasses import dataclass

import numpy as np

from graphrag.voice.simulation import mu_law

BYTES_A_MS = mu_law.RATE_HZ // 1000


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
