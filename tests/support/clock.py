"""A clock that is set by hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

MONDAY = 1_763_942_400_000
"""24 November 2025, 00:00 UTC."""


@dataclass
class Clock:
    """Time as a test sets it, in milliseconds since 1970 where it says no other; sleeping
    moves it, too.
    """

    now: float = MONDAY

    def __call__(self) -> Any:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
        await asyncio.sleep(0)
