"""Looks at recordings of calls: when the caller speaks, and when the agent falls silent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphrag.simulator import mu_law
from graphrag.simulator.simulated_call import BYTES_A_MS, CallRecording

QUIET_MS = 200
"""Silence that lasts so long is an end, not a pause between words."""
STEP = 160
LOUD = 100.0


def loudness(data: bytes) -> float:
    """Return the root mean square of the samples, 0 to 32767."""
    samples = mu_law.decode(data)
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) if data else 0.0


def silent_after_ms(call: CallRecording, at_ms: float) -> float | None:
    """Return how long after a moment the agent is still heard; None: it does not stop."""
    rest = call.agent[int(at_ms * BYTES_A_MS) :]
    quiet = 0
    for place in range(0, len(rest), STEP):
        quiet = 0 if loudness(rest[place : place + STEP]) > LOUD else quiet + STEP
        if quiet >= QUIET_MS * BYTES_A_MS:
            return (place + STEP - quiet) / BYTES_A_MS
    return None


def words_of_caller_ms(call: CallRecording) -> Iterator[float]:
    """Yield when the caller begins to speak, each time."""
    quiet = QUIET_MS * BYTES_A_MS
    for place in range(0, len(call.caller), STEP):
        if loudness(call.caller[place : place + STEP]) <= LOUD:
            quiet += STEP
        else:
            if quiet >= QUIET_MS * BYTES_A_MS:
                yield place / BYTES_A_MS
            quiet = 0
