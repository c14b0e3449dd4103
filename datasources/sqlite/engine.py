"""What the sources of one opened database share: its connections, what is held in memory, its indexes."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from datasources.errors import SourceError
from datasources.sqlite import statements as sql
from datasources.sqlite.index_manager import IndexManager
from datasources.sqlite.pool import Pool
from datasources.sqlite.side_files import SideFiles
from datasources.sqlite.snapshot import Snapshots
from datasources.sqlite.text_index import TEXT_INDEX

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where small ends. Units: counts; `memory` is bytes for all that is held of graphs.

    A graph of up to `held` nodes and edges is answered from memory, the words of a larger one are
    searched by an index beside the file; nodes and edges of one of up to `linked` are held too, once
    it was asked for `asked` times while unchanged, and read from the file until then. Vectors of a
    graph of up to `exact` nodes are held, those of a larger one are searched by indexes beside the
    file: up to `scanned` vectors are all compared, more are walked.
    """

    held: int = 25_000
    linked: int = 60_000
    asked: int = 4
    exact: int = 20_000
    scanned: int = 2_000_000
    memory: int = 512 << 20


MAX_ASKED = 1_000
"""Parts of graphs whose askings are counted at one time."""


def _note_failure(loading: asyncio.Future[Any]) -> None:
    if not loading.cancelled() and (error := loading.exception()) is not None:
        log.warning("graph_not_held", extra={"error": type(error).__name__})


class Engine:
    """One opened database. To be used in one event loop; made in a thread, for it reads files."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.limits = limits
        self.pool = Pool(path)
        try:
            files = self._side_files(path)
        except SourceError:
            self.pool.close()
            raise
        self.indexes = IndexManager(self.pool, files)
        self.snapshots = Snapshots(limits.memory)
        self._loading: dict[tuple[object, ...], asyncio.Future[tuple[object, object, int]]] = {}
        self._asked: dict[tuple[object, ...], tuple[object, int]] = {}

    def _side_files(self, path: Path) -> SideFiles:
        (identity,) = self.pool.look_up(lambda c: c.execute(sql.IDENTITY).fetchone())
        files = SideFiles(path, identity)
        files.remove_leftovers()
        files.remove_unknown(self._is_known)
        return files

    def _is_known(self, graph: int, name: str, number: int) -> bool:
        """Tell whether an index file can be of this database as it is: of a version that there has been."""
        row = self.pool.look_up(lambda c: c.execute(sql.GRAPH_VERSIONS_BY_ID, {"graph": graph}).fetchone())
        return row is not None and number <= row[0 if name == TEXT_INDEX.name else 1]

    async def held(
        self,
        name: tuple[object, ...],
        version: object,
        load: Callable[[sqlite3.Connection], tuple[object, T, int]],
    ) -> T:
        """Return a part of a graph from memory, or load it once for all who ask meanwhile.

        `load` returns the version it found (this one or a later), the part, and about how many
        bytes it takes.
        """
        found = self.snapshots.get(name, version)
        if found is not None:
            return cast(T, found)
        loading = self._loading.get((*name, version))
        if loading is None:
            loading = asyncio.ensure_future(self._load(name, version, load))
            self._loading[*name, version] = loading
        _, value, _ = await asyncio.shield(loading)
        return cast(T, value)

    def held_later(
        self,
        name: tuple[object, ...],
        version: object,
        load: Callable[[sqlite3.Connection], tuple[object, T, int]],
    ) -> T | None:
        """Return a part of a graph if it is in memory. What is asked for often is loaded meanwhile."""
        found = self.snapshots.get(name, version)
        if found is not None or (*name, version) in self._loading:
            return cast("T | None", found)
        known = self._asked.get(name)
        times = known[1] + 1 if known is not None and known[0] == version else 1
        self._asked[name] = (version, times)
        if times >= self.limits.asked:
            del self._asked[name]
            loading = asyncio.ensure_future(self._load(name, version, load))
            loading.add_done_callback(_note_failure)
            self._loading[*name, version] = loading
        elif len(self._asked) > MAX_ASKED:
            self._asked.clear()
        return None

    async def _load(
        self,
        name: tuple[object, ...],
        version: object,
        load: Callable[[sqlite3.Connection], tuple[object, object, int]],
    ) -> tuple[object, object, int]:
        try:
            found, value, nbytes = await self.pool.read(load)
            self.snapshots.put(name, found, value, nbytes)
            return found, value, nbytes
        finally:
            del self._loading[*name, version]

    def close(self) -> None:
        """Stop background work and close the file."""
        self.indexes.close()
        self.pool.close()
