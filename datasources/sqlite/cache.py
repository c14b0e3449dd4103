"""What is held in memory of graphs, by part; the least recently used goes when it gets too much."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar, cast

Name = tuple[str, Hashable, *tuple[Hashable, ...]]
"""What is held and of which graph, such as ("text", graph id, field)."""

MAX_ASKED = 1_000
"""Parts whose askings are counted at one time."""
LARGE = 8 << 20
"""What was needed to load parts of so many bytes goes back to the system."""


def _give_memory_back() -> None:
    """Have glibc return what is free. Source: malloc_trim(3)."""
    with suppress(AttributeError, TypeError):  # another C library, or Windows
        ctypes.CDLL(None).malloc_trim(0)


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


class _CacheEntry(NamedTuple):
    version: object
    value: Any
    nbytes: int


class Cache:
    """Holds parts of graphs, each true for one version of the graph. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Name, _CacheEntry] = OrderedDict()
        self._asked: dict[Name, tuple[object, int]] = {}
        self._lock = threading.Lock()
        self._loading: defaultdict[Name, threading.Lock] = defaultdict(threading.Lock)

    def get(self, name: Name, version: object, load: Callable[[T | None], T]) -> T:
        """Return a part of this version; `load` makes it, once for all who ask meanwhile.

        `load` is given what is held of an older version, if anything.
        """
        found: T | None = self.find(name, version)
        if found is not None:
            return found
        with self._lock:
            loading = self._loading[name]
        with loading:
            found = self.find(name, version)
            if found is not None:
                return found
            older = self._entries.get(name)
            try:
                value = load(None if older is None else cast(T, older.value))
                self._put(name, _CacheEntry(version, value, value.nbytes))
                if value.nbytes >= LARGE:
                    _give_memory_back()
            finally:
                with self._lock:
                    self._loading.pop(name, None)
            return value

    def get_if_frequent(
        self, name: Name, version: object, asked: int, load: Callable[[], T]
    ) -> T | None:
        """Return a part, which is loaded once it was asked for so many times at one version."""
        found: T | None = self.find(name, version)
        if found is not None:
            return found
        with self._lock:
            known, times = self._asked.get(name, (version, 0))
            times = times + 1 if known == version else 1
            if len(self._asked) >= MAX_ASKED:
                self._asked.clear()
            self._asked[name] = (version, times)
        return self.get(name, version, lambda _: load()) if times >= asked else None

    def find(self, name: Name, version: object) -> Any:
        """Return a part of this version if it is held, else None. Never waits for one
        that is loaded.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.version != version:
                return None
            self._entries.move_to_end(name)
            return entry.value

    def _put(self, name: Name, entry: _CacheEntry) -> None:
        with self._lock:
            self._drop(name)
            self._asked.pop(name, None)
            self._entries[name] = entry
            self._bytes += entry.nbytes
            while self._bytes > self._max_bytes and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))

    def _drop(self, name: Name) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._bytes -= entry.nbytes

    def forget(self, graph: int) -> None:
        """Drop what is held of a deleted graph."""
        with self._lock:
            for name in [name for name in self._entries if name[1] == graph]:
                self._drop(name)
