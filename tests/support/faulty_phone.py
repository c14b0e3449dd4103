"""A simulated telephone whose line is slow or bad: delay, jitter, and faults on demand."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any, Self

import orjson

from graphrag.simulator.phone_simulator import FRAME, FRAME_S, PhoneSimulator
from graphrag.simulator.twilio_line import StreamPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFaults:
    """What goes wrong. `each_way_s`: the time on the line, more or less by up to `jitter_s`.

    `loses`, `doubles`, `delays`: shares of the caller's sound messages. `hangs_up_at_s`,
    `breaks_at_s`: seconds after the stream began at which the caller hangs up, or the connection
    breaks without a word.
    `seed`: the same faults each time.
    """

    each_way_s: float = 0.0
    jitter_s: float = 0.0
    loses: float = 0.0
    doubles: float = 0.0
    delays: float = 0.0
    delayed_by_s: float = 0.3
    ignores_clear: bool = False
    hangs_up_at_s: float | None = None
    breaks_at_s: float | None = None
    seed: int = 0


class SlowQueue(asyncio.Queue[Any]):
    """Gives messages in their order, each after its time on the line. `later_s`: more for
    the next one.
    """

    later_s = 0.0

    def __init__(self, faults: LineFaults, chance: random.Random) -> None:
        super().__init__()
        self._faults = faults
        self._chance = chance
        self._last = 0.0

    def put_nowait(self, item: Any) -> None:
        wanted = self._faults.each_way_s + self._faults.jitter_s * self._chance.uniform(-1, 1)
        now = asyncio.get_running_loop().time()
        self._last = max(self._last, now + max(0.0, wanted) + self.later_s)
        self.later_s = 0.0
        super().put_nowait((self._last, item))

    async def get(self) -> Any:
        due, item = await super().get()
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        return item


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """The service took back what was not played, `dropped_ms`; `heard_ms` were, since the
    line was silent.
    """

    heard_ms: int
    dropped_ms: int


class WatchedPhone(PhoneSimulator):
    """A telephone that notes what is taken back of what it would play."""

    def __init__(self, place: StreamPlace) -> None:
        super().__init__(place)
        self.clears: list[Cleared] = []

    @property
    def at_s(self) -> float:
        """How long the line has been held."""
        return len(self.heard) / FRAME * FRAME_S

    @property
    def close_code(self) -> int | None:
        return None if self._connection is None else self._connection.close_code

    def _clear(self) -> None:
        dropped = sum(len(part) for part in self._to_play if isinstance(part, bytes))
        self.clears.append(Cleared(heard_ms=self._run_ms, dropped_ms=dropped // 8))
        super()._clear()


class FaultyPhone(WatchedPhone):
    """The telephone of one call on such a line."""

    def __init__(self, place: StreamPlace, faults: LineFaults) -> None:
        super().__init__(place)
        self._faults, self._chance = faults, random.Random(faults.seed)
        self._to_service = SlowQueue(faults, self._chance)
        self._from_service = SlowQueue(faults, self._chance)
        self._end: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._tasks.append(asyncio.create_task(self._listen()))
        return self

    async def _listen(self) -> None:
        while True:
            super()._take(await self._from_service.get())

    def _take(self, text: str) -> None:
        self._from_service.put_nowait(text)

    def _put(self, message: dict[str, Any], *, numbered: bool = False) -> None:
        if message["event"] != "media":
            super()._put(message, numbered=numbered)
            return
        faults = self._faults
        chance = self._chance
        if chance.random() < faults.loses:
            self._sequence += 1
            return
        if chance.random() < faults.delays:
            self._to_service.later_s = faults.delayed_by_s
        super()._put(message, numbered=numbered)
        if chance.random() < faults.doubles:
            self._to_service.put_nowait(orjson.dumps(message).decode())

    def _clear(self) -> None:
        if not self._faults.ignores_clear:
            super()._clear()

    def _play_frame(self) -> None:
        super()._play_frame()
        faults = self._faults
        if faults.breaks_at_s is not None and self.at_s >= faults.breaks_at_s:
            assert self._connection is not None
            self._connection.transport.abort()
        elif (
            faults.hangs_up_at_s is not None
            and self.at_s >= faults.hangs_up_at_s
            and self._end is None
        ):
            self._end = asyncio.create_task(self.hang_up())
