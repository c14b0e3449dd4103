"""A file of named arrays that is mapped into memory, not read: shared by all who have it open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"nodius-arrays-1\n"
ALIGNMENT = 64


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write one-dimensional arrays. The header, at the end, is what makes the file whole."""
    with path.open("wb") as file:
        file.write(MAGIC)
        parts: dict[str, list[Any]] = {}
        for name, array in arrays.items():
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            parts[name] = [array.dtype.str, file.tell(), len(array)]
            file.write(np.ascontiguousarray(array).data)
        header = json.dumps(parts).encode()
        file.write(header + len(header).to_bytes(8, "little") + MAGIC)


def read_arrays(path: Path) -> dict[str, NDArray[Any]] | None:
    """Map the arrays of a file, read-only; None when it is not a whole file of arrays."""
    try:
        whole = np.memmap(path, dtype=np.uint8, mode="r")
        tail = len(MAGIC) + 8
        if bytes(whole[: len(MAGIC)]) != MAGIC or bytes(whole[-len(MAGIC) :]) != MAGIC:
            return None
        size = int.from_bytes(bytes(whole[-tail : -len(MAGIC)]), "little")
        parts = json.loads(bytes(whole[-tail - size : -tail]))
        return {
            name: whole[start : start + count * np.dtype(kind).itemsize].view(kind)
            for name, (kind, start, count) in parts.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return None
