"""Files beside the database that hold what can be built from it again: search indexes of large graphs.

A file's name says what it is of and which version of the graph it knows, so a file is never
changed once it is in place, and one that is older than the graph is known to be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LEFTOVER_S = 3600.0


class SideFiles:
    """The folder of index files of one database, known by its `identity`."""

    def __init__(self, database: Path, identity: str) -> None:
        self.folder = database.with_name(database.name + "-indexes")
        self._identity = identity[:12]

    def versions(self, graph: int, name: str) -> list[tuple[int, Path]]:
        """Return the files of one index as (version, path), newest first."""
        found: list[tuple[int, Path]] = []
        for path in self.folder.glob(f"{self._stem(graph, name)}-*.index"):
            number = path.stem.rpartition("-")[2]
            if number.isdigit():
                found.append((int(number), path))
        return sorted(found, reverse=True)

    def newest(self, graph: int, name: str) -> int:
        """Return the newest version of an index, or -1."""
        return next((number for number, _ in self.versions(graph, name)), -1)

    def place(self, graph: int, name: str, number: int, write: Callable[[Path], None]) -> None:
        """Put a new version in place, whole or not at all, and remove the older ones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self._stem(graph, name)}-{number}.index"
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            write(temporary)
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

    def remove_leftovers(self) -> None:
        """Remove what a process left behind that was killed while it wrote."""
        old = time.time() - LEFTOVER_S
        for path in self.folder.glob("*.tmp"):
            with suppress(OSError):
                if path.stat().st_mtime < old:
                    path.unlink()

    def _stem(self, graph: int, name: str) -> str:
        return f"{self._identity}-{graph}-{name}"
