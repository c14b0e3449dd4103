"""Files beside the database that hold what can be built from it again: search indexes of large graphs.

A file's name says what it is of and which version of the graph it knows, so a file is never
changed once it is in place, and one that is older than the graph is known to be. It says the
checksum of the content too: a library that maps a damaged file into memory may bring the process
down, so a file is read through once before it is first used.
"""

from __future__ import annotations

import os
import time
import uuid
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from datasources.sqlite.private import make_folder

LEFTOVER_S = 3600.0
READ_BYTES = 4 << 20


class SideFiles:
    """The folder of index files of one database, known by its `identity`."""

    def __init__(self, database: Path, identity: str) -> None:
        self.folder = database.with_name(database.name + "-indexes")
        self._identity = identity[:12]

    def versions(self, graph: int, name: str) -> list[tuple[int, Path]]:
        """Return the files of one index as (version, path), newest first."""
        found: list[tuple[int, Path]] = []
        for path in self.folder.glob(f"{self._stem(graph, name)}-*.index"):
            number = path.stem.split("-")[-2]
            if number.isdigit():
                found.append((int(number), path))
        return sorted(found, reverse=True)

    def newest(self, graph: int, name: str) -> int:
        """Return the newest version of an index, or -1."""
        return next((number for number, _ in self.versions(graph, name)), -1)

    def place(self, graph: int, name: str, number: int, write: Callable[[Path], None]) -> None:
        """Put a new version in place, whole or not at all, and remove the older ones."""
        make_folder(self.folder)
        stem = f"{self._stem(graph, name)}-{number}"
        # Not by process id: that of two containers on one volume may be the same.
        temporary = self.folder / f"{stem}.{uuid.uuid4().hex[:12]}.tmp"
        try:
            write(temporary)
            path = self.folder / f"{stem}-{_checksum(temporary)}.index"
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())  # else a power cut may leave the name without the content
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        for older, old_path in self.versions(graph, name):
            if older < number:
                old_path.unlink(missing_ok=True)

    def remove_graph(self, graph: int) -> None:
        """Remove every index file of a deleted graph."""
        for path in self.folder.glob(f"{self._identity}-{graph}-*.index"):
            path.unlink(missing_ok=True)

    def remove_unknown(self, known: Callable[[int, str, int], bool]) -> None:
        """Remove every file but those whose graph, name and version are `known`.

        A file may know more than the database: when an older copy has been put in place.
        """
        for path in self.folder.glob(f"{self._identity}-*.index"):
            graph, *parts = path.stem.removeprefix(f"{self._identity}-").split("-")
            number = parts[-2] if len(parts) > 2 else ""
            if graph.isdigit() and number.isdigit() and known(int(graph), "-".join(parts[:-2]), int(number)):
                continue
            with suppress(OSError):
                path.unlink()

    def remove_leftovers(self) -> None:
        """Remove what a process left behind that was killed while it wrote."""
        old = time.time() - LEFTOVER_S
        for path in self.folder.glob("*.tmp"):
            with suppress(OSError):
                if path.stat().st_mtime < old:
                    path.unlink()

    @staticmethod
    def is_whole(path: Path) -> bool:
        """Tell whether a file is as it was written. Reads all of it."""
        try:
            return path.stem.rpartition("-")[2] == _checksum(path)
        except OSError:
            return False

    def _stem(self, graph: int, name: str) -> str:
        return f"{self._identity}-{graph}-{name}"


def _checksum(path: Path) -> str:
    value = 0
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            value = zlib.crc32(block, value)
    return f"{value:08x}"
