"""Parts of graphs held in memory; the least recently used are dropped beyond a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol, TypeVar, cast, final

# A part and its owner, such as ("words", graph id, field) or ("types", workspace).
Name = tuple[str, Hashable, *tuple[Hashable, ...]]


class Sized(Protocol):
    """An object with an estimate of its size in memory, in bytes."""

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


class _Cached(NamedTuple):
    version: object
    value: Any
    nbytes: int


@final
class Cache:
    """Holds parts, each valid for one version of its owner. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Name, _Cached] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: defaultdict[Name, threading.Lock] = defaultdict(threading.Lock)

    def get(self, name: Name, version: object, load: Callable[[T | None], T]) -> T:
        """Returns a part at this version. `load` computes it once for all waiting threads.

        `load` receives the cached part of another version, or None.
        """
        value = self._find(name, version)
        if value is not None:
            return value
        with self._lock:
            loading = self._loading[name]
        with loading:
            value = self._find(name, version)
            if value is not None:
                return value
            older = self._entries.get(name)
            try:
                loaded = load(None if older is None else cast(T, older.value))
                self._put(name, _Cached(version, loaded, loaded.nbytes))
            finally:
                with self._lock:
                    self._loading.pop(name, None)
            return loaded

    def _find(self, name: Name, version: object) -> Any:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.version != version:
                return None
            self._entries.move_to_end(name)
            return entry.value

    def _put(self, name: Name, entry: _Cached) -> None:
        with self._lock:
            self._drop(name)
            self._entries[name] = entry
            self._bytes += entry.nbytes
            while self._bytes > self._max_bytes and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))

    def _drop(self, name: Name) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._bytes -= entry.nbytes

    def forget(self, owner: Hashable) -> None:
        """Drops all parts of an owner, such as a deleted graph."""
        with self._lock:
            for name in [name for name in self._entries if name[1] == owner]:
                self._drop(name)
