"""A file of named arrays that is mapped into memory, not read: shared by all who have it open."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

MAGIC = b"nodius-arrays-2\n"
ALIGNMENT = 64


class ArrayWriter:
    """Adds arrays to a file one after another, block by block: no array need fit into memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.parts: dict[str, list[Any]] = {}

    def add(self, name: str, *blocks: NDArray[Any]) -> None:
        """Add blocks of one array; those of one name come one after another, all of one type."""
        for block in blocks:
            part = self.parts.get(name)
            if part is None:
                self._file.write(b"\0" * (-self._file.tell() % ALIGNMENT))
                part = self.parts[name] = [block.dtype.str, self._file.tell(), 0]
            self._file.write(np.ascontiguousarray(block).data)
            part[2] += block.size


@contextmanager
def write_arrays(path: Path) -> Generator[ArrayWriter]:
    """Write a file of arrays. The header, at the end, is what makes the file whole."""
    with path.open("wb") as file:
        file.write(MAGIC)
        writer = ArrayWriter(file)
        yield writer
        header = json.dumps(writer.parts).encode()
        file.write(header + len(header).to_bytes(8, "little") + MAGIC)


def read_arrays(path: Path) -> dict[str, NDArray[Any]] | None:
    """Map the arrays of a file, read-only and one-dimensional; None when it is not a whole file of arrays."""
    try:
        whole = np.memmap(path, dtype=np.uint8, mode="r")
        tail = len(MAGIC) + 8
        if bytes(whole[: len(MAGIC)]) != MAGIC or bytes(whole[-len(MAGIC) :]) != MAGIC:
            return None
        size = int.from_bytes(bytes(whole[-tail : -len(MAGIC)]), "little")
        parts = json.loads(bytes(whole[-tail - size : -tail]))
        plain = np.asarray(whole)  # slices of a memmap are made much slower than those of an array
        return {
            name: plain[start : start + count * np.dtype(kind).itemsize].view(kind)
            for name, (kind, start, count) in parts.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return None
