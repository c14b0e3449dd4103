"""Folders beside the database that hold what can be built from it again: search indexes of large graphs.

A folder's name says what it is of and which version of the graph it knows, so its files never change
once it is in place, and one that is older than the graph is known to be. It says the checksum of the
files too: they are mapped into memory, so all are read through once before they are first used.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasources.sqlite.schema import make_folder

LEFTOVER_S = 3600.0
READ_BYTES = 4 << 20
Rids = NDArray[np.int64]


class IndexFiles:
    """The index folders of one database, known by its `identity`."""

    def __init__(self, database: Path, identity: str) -> None:
        self.folder = database.with_name(database.name + "-indexes")
        self._identity = identity[:12]

    def versions(self, graph: int, name: str) -> list[tuple[int, Path]]:
        """Return the folders of one index as (version, path), newest first."""
        found = [
            (int(number), path)
            for path in self.folder.glob(f"{self._identity}-{graph}-{name}-*.index")
            if (number := path.stem.split("-")[-2]).isdigit()
        ]
        return sorted(found, reverse=True)

    def place(self, graph: int, name: str, number: int, write: Callable[[Path], None]) -> None:
        """Put a version in place, whole or not at all, and keep the newest alone.

        Another process may have placed a newer one meanwhile: whichever looks last sees both.
        """
        make_folder(self.folder)
        stem = f"{self._identity}-{graph}-{name}-{number}"
        # Not by process id: that of two containers on one volume may be the same.
        temporary = self.folder / f"{stem}.{uuid.uuid4().hex[:12]}.tmp"
        try:
            temporary.mkdir()
            write(temporary)
            path = self.folder / f"{stem}-{_checksum(temporary)}.index"
            if not path.exists():
                temporary.rename(path)
        finally:
            remove(temporary)
        versions = self.versions(graph, name)
        for older, path in versions:
            if older < versions[0][0]:
                remove(path)

    def remove_graph(self, graph: int) -> None:
        """Remove every index of a deleted graph."""
        for path in self.folder.glob(f"{self._identity}-{graph}-*.index"):
            remove(path)

    def remove_unknown(self, is_known: Callable[[int, str, int], bool]) -> None:
        """Remove every index but those whose graph, name and version are known.

        A folder may know more than the database: when an older copy has been put in place.
        """
        for path in self.folder.glob(f"{self._identity}-*.index"):
            graph, *parts = path.stem.removeprefix(f"{self._identity}-").split("-")
            number = parts[-2] if len(parts) > 2 else ""
            is_ours = path.is_dir() and graph.isdigit() and number.isdigit()
            if not (is_ours and is_known(int(graph), "-".join(parts[:-2]), int(number))):
                remove(path)

    def remove_leftovers(self) -> None:
        """Remove what a process left behind that was killed while it wrote."""
        old = time.time() - LEFTOVER_S
        for path in self.folder.glob("*.tmp"):
            with suppress(OSError):
                if path.stat().st_mtime < old:
                    remove(path)


def remove(path: Path) -> None:
    """Remove a folder, or a file where one stands in its place; nothing where there is none."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def is_whole(path: Path) -> bool:
    """Tell whether a folder is as it was written. Reads all of it."""
    try:
        return path.stem.rpartition("-")[2] == _checksum(path)
    except OSError:
        return False


def _checksum(folder: Path) -> str:
    value = 0
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith("."):  # locks
            continue
        value = zlib.crc32(entry.name.encode(), value)
        with Path(entry.path).open("rb") as file:
            while block := file.read(READ_BYTES):
                value = zlib.crc32(block, value)
    return f"{value:08x}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeTable:
    """The nodes that an index knows: their row ids and keys, so that hits need no look-up in the database.

    A node keeps its row id and its key for as long as it exists, and a row id is never given again.
    Shapes: `rids` int64[n] ascending; the key of row i is UTF-8, `text[ends[i]:ends[i + 1]]`.
    """

    rids: Rids
    ends: NDArray[np.int64]
    text: NDArray[np.uint8]

    @staticmethod
    def of(rids: Rids, keys: Sequence[str]) -> NodeTable:
        """Make a table in memory. `rids` ascend, `keys` are in their order."""
        encoded = [key.encode() for key in keys]
        ends = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=ends[1:])
        return NodeTable(rids=rids, ends=ends, text=np.frombuffer(b"".join(encoded), dtype=np.uint8))

    @staticmethod
    def open(folder: Path) -> NodeTable:
        """Map the table of an index. Raises: OSError, ValueError."""
        return NodeTable(
            rids=mapped(folder / "rids.npy"),
            ends=mapped(folder / "key_ends.npy"),
            text=mapped(folder / "key_text.npy"),
        )

    def save(self, folder: Path) -> None:
        np.save(folder / "rids.npy", self.rids)
        np.save(folder / "key_ends.npy", self.ends)
        np.save(folder / "key_text.npy", self.text)

    def __len__(self) -> int:
        return len(self.rids)

    def keys(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the keys of some rows."""
        text = self.text.data
        starts, ends = self.ends[rows].tolist(), self.ends[rows + 1].tolist()
        return [str(text[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]

    def rows(self, rids: Sequence[int] | Rids) -> NDArray[np.int64]:
        """Return the rows of those of these nodes that are known."""
        wanted = np.asarray(rids, dtype=np.int64)
        if not len(self.rids):
            return wanted[:0]
        place = np.minimum(np.searchsorted(self.rids, wanted), len(self.rids) - 1)
        return place[self.rids[place] == wanted]


def mapped(path: Path) -> NDArray[Any]:
    """Map an array of a file into memory, read-only. Raises: OSError, ValueError."""
    # Slices of a memmap are made much slower than those of an array.
    return np.asarray(np.load(path, mmap_mode="r"))
