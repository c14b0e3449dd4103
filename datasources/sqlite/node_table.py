"""The nodes that an index file knows: their row ids and keys, so that hits need no look-up in the database.

A node keeps its row id and its key for as long as it exists, and a row id is never given again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasources.sqlite.array_file import ArrayWriter

Rids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeTable:
    """Shapes: `rids` int64[n] ascending; the key of row i is UTF-8, `text[ends[i]:ends[i + 1]]`."""

    rids: Rids
    ends: NDArray[np.int64]
    text: memoryview

    @staticmethod
    def of(arrays: Mapping[str, NDArray[Any]]) -> NodeTable:
        """Raises: KeyError."""
        return NodeTable(rids=arrays["rids"], ends=arrays["key_ends"], text=arrays["key_text"].data)

    def __len__(self) -> int:
        return len(self.rids)

    def keys(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the keys of some rows."""
        text = self.text
        starts, ends = self.ends[rows].tolist(), self.ends[rows + 1].tolist()
        return [str(text[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]

    def rows(self, rids: Sequence[int] | Rids) -> NDArray[np.int64]:
        """Return the rows of those of these nodes that are known."""
        wanted = np.asarray(rids, dtype=np.int64)
        if not len(self.rids):
            return wanted[:0]
        place = np.minimum(np.searchsorted(self.rids, wanted), len(self.rids) - 1)
        return place[self.rids[place] == wanted]


def write_nodes(writer: ArrayWriter, rids: Rids, keys: Sequence[str]) -> None:
    """Write a node table. `rids` ascend, `keys` are in their order."""
    encoded = [key.encode() for key in keys]
    ends = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=ends[1:])
    writer.add("rids", rids)
    writer.add("key_ends", ends)
    writer.add("key_text", np.frombuffer(b"".join(encoded), dtype=np.uint8))
