"""Detects speech by the energy of sound, as the server does with `server_vad`.

Times are positions in the input sound, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, final

import numpy as np

from graphrag.simulator import mu_law

FRAME_MS = 20
BEGIN_MS = 40  # of loud sound until speech is detected
LOUD = 1_000.0  # root mean square, of 32,768, for a threshold of 1


class SpeechEdge(NamedTuple):
    """The beginning or end of speech, at the position reported by the interface."""

    kind: Literal["started", "stopped"]
    at_ms: int


@final
class VoiceActivity:
    """The speech detector of one session."""

    def __init__(self) -> None:
        self.heard_ms = 0
        self.is_speaking = False
        self._loud_ms = self._quiet_ms = 0
        self._rest: bytes = b""

    def take(self, sound: bytes, detection: Mapping[str, Any]) -> Iterator[SpeechEdge]:
        """Adds μ-law sound. Yields the beginnings and ends of speech in it."""
        size = FRAME_MS * mu_law.RATE_HZ // 1000
        waiting = self._rest + sound
        whole = len(waiting) - len(waiting) % size
        self._rest = waiting[whole:]
        if not whole:
            return
        samples = mu_law.decode(waiting[:whole]).astype(np.float32).reshape(whole // size, -1)
        for energy in (samples * samples).mean(axis=1):
            self.heard_ms += FRAME_MS
            is_loud = energy > (LOUD * float(detection.get("threshold", 0.5))) ** 2
            yield from self._frame(bool(is_loud), detection)

    def _frame(self, is_loud: bool, detection: Mapping[str, Any]) -> Iterator[SpeechEdge]:
        self._loud_ms = self._loud_ms + FRAME_MS if is_loud else 0
        self._quiet_ms = 0 if is_loud else self._quiet_ms + FRAME_MS
        if not self.is_speaking and self._loud_ms >= BEGIN_MS:
            self.is_speaking = True
            before = self._loud_ms + int(detection.get("prefix_padding_ms", 300))
            yield SpeechEdge("started", max(0, self.heard_ms - before))
        elif self.is_speaking and self._quiet_ms >= int(detection.get("silence_duration_ms", 500)):
            self.is_speaking = False
            yield SpeechEdge("stopped", self.heard_ms)

    def clear(self) -> None:
        """Discards sound that was not committed."""
        self.is_speaking, self._loud_ms, self._rest = False, 0, b""
