"""Looks at recordings of calls: when the caller speaks, and when the agent falls silent."""

from __future__ import annotations

from collections.abc import Iterator

from graphrag.voice.simulation import mu_law
from graphrag.voice.simulation.simulated_call import BYTES_A_MS, CallRecording

QUIET_MS = 200
"""Silence that lasts so long is an end, not a pause between words."""
STEP = 160
LOUD = 100.0


def silent_after_ms(call: CallRecording, at_ms: float) -> float | None:
    """Return how long after a moment the agent is still heard; None: it does not stop."""
    rest = call.agent[int(at_ms * BYTES_A_MS) :]
    quiet = 0
    for place in range(0, len(rest), STEP):
        quiet = 0 if mu_law.loudness(rest[place : place + STEP]) > LOUD else quiet + STEP
        if quiet >= QUIET_MS * BYTES_A_MS:
            return (place + STEP - quiet) / BYTES_A_MS
    return None


def words_of_caller_ms(call: CallRecording) -> Iterator[float]:
    """Yield when the caller begins to speak, each time."""
    quiet = QUIET_MS * BYTES_A_MS
    for place in range(0, len(call.caller), STEP):
        if mu_law.loudness(call.caller[place : place + STEP]) <= LOUD:
            quiet += STEP
        else:
            if quiet >= QUIET_MS * BYTES_A_MS:
                yield place / BYTES_A_MS
            quiet = 0
