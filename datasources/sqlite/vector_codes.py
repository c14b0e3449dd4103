"""Codes that stand for vectors where candidates are looked for: small, so that memory is read fast.

Decision: a vector's codes have a scale of their own. One scale for all vectors would use a small part of
the range in some hundred dimensions, and lose neighbours that are as near as those found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numkong
import numpy as np
from numpy.typing import NDArray

from datasources.types import Vector

HALF, WHOLE = 7, 127
"""The greatest code of 4 bits and of 8."""

LEAST_DIM = 64
"""Vectors of fewer dimensions are not coded: 4 bits a component tell too few of them apart."""

CUT = 0.8
"""The share of a vector's greatest component that gets the greatest code of 4 bits; few are greater."""

Halves = NDArray[np.uint8]
Codes = NDArray[np.int8]
Scales = NDArray[np.float32]
Scores = NDArray[np.float32]


def halves_of(unit: Vector) -> tuple[Halves, Scales]:
    """Return vectors in 4 bits a component, two in a byte, and what to multiply each one's products by.

    Shapes: float32[n, dim] → uint8[n, (dim + 1) // 2], float32[n].
    """
    codes, scales = _scaled(unit, HALF, CUT)
    if codes.shape[1] % 2:
        codes = np.pad(codes, ((0, 0), (0, 1)))
    low, high = codes[:, 0::2].view(np.uint8), codes[:, 1::2].view(np.uint8)
    fifteen, four = np.uint8(15), np.uint8(4)
    return np.bitwise_or(low & fifteen, high << four), scales


def codes_of(unit: Vector) -> Codes:
    """Return vectors in 8 bits a component. Shapes: float32[n, dim] → int8[n, dim]."""
    return _scaled(unit, WHOLE, 1.0)[0]


def _scaled(unit: Vector, greatest: int, cut: float) -> tuple[Codes, Scales]:
    peak = np.abs(unit).max(axis=1, initial=0.0)
    scales = (np.where(peak > 0, peak, 1.0) * (cut / greatest)).astype(np.float32)
    codes = np.clip(np.rint(unit / scales[:, None]), -greatest, greatest)
    return np.ascontiguousarray(codes.astype(np.int8)), scales


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedHalves:
    """Vectors of 4 bits a component in the order that the processor reads fastest."""

    packed: numkong.PackedMatrix
    scales: Scales

    @staticmethod
    def of(halves: Halves, scales: Scales) -> PackedHalves | None:
        """Return None where there are none."""
        if not len(halves):
            return None
        return PackedHalves(packed=numkong.dots_pack(halves, dtype="int4"), scales=scales)

    def scores(self, unit: Vector) -> Scores:
        """Return about the cosine with every vector, but for a factor they share. Shapes: float32[n].

        The GIL is released meanwhile.
        """
        one = numkong.Tensor(halves_of(unit[None])[0], dtype="int4")
        products = np.asarray(numkong.dots_packed(one, self.packed)).reshape(-1)
        return np.multiply(products, self.scales, dtype=np.float32)
