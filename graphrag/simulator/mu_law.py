"""Converts sound between 16-bit samples and G.711 μ-law, by tables.

Source: ITU-T G.711, as in the reference by Sun Microsystems that telephony software shares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 8000
SILENCE = 0xFF  # the byte of a sample of 0

_BIAS = 33
_LOUDEST = 8191  # largest magnitude with the bias, in the 14-bit samples of μ-law


def _decoding() -> NDArray[np.int16]:
    code = ~np.arange(256, dtype=np.uint8)
    magnitude = (((code & 0x0F).astype(np.int32) << 3) + (_BIAS << 2)) << ((code & 0x70) >> 4)
    magnitude -= _BIAS << 2
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _encoding() -> NDArray[np.uint8]:
    samples = np.arange(-(1 << 15), 1 << 15, dtype=np.int32) >> 2
    magnitude = np.minimum(np.abs(samples) + _BIAS, _LOUDEST)
    segment = np.floor(np.log2(magnitude)).astype(np.int32) - 5
    step = (magnitude >> (segment + 1)) & 0x0F
    code = (segment << 4) | step | np.where(samples < 0, 0x80, 0)
    return (~code & 0xFF).astype(np.uint8)


_DECODED = _decoding()
_ENCODED = _encoding()


def decode(data: bytes) -> NDArray[np.int16]:
    """Returns the samples of μ-law bytes."""
    return _DECODED[np.frombuffer(data, dtype=np.uint8)]


def encode(samples: NDArray[np.int16]) -> bytes:
    """Returns samples as μ-law, one byte each."""
    return _ENCODED[samples.astype(np.int32) + (1 << 15)].tobytes()
