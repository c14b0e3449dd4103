"""Shares of places that all people have together, so that one person cannot take them all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

PEOPLE: Final = 5  # who would have to act together to take all places


def share_of_one(places: int) -> int:
    """Returns how many of `places` one person may hold: a fifth, rounded up."""
    return -(-places // PEOPLE)


class SharedPlaces:
    """Places for work at the same time: `most` in all, and a share for each holder."""

    def __init__(self, most: int) -> None:
        self._of_one = share_of_one(most)
        self._all = asyncio.Semaphore(most)
        self._of_holder = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def held(self, holder: str) -> AsyncGenerator[None]:
        """Holds a place for the block. Waits for the holder's own share first, so others wait for
        no queue of theirs.
        """
        own = self._of_holder.setdefault(holder, asyncio.Semaphore(self._of_one))
        async with own, self._all:
            yield
