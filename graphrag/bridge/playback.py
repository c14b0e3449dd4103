"""Tracks the sound played to the caller: pieces with a mark each, and the played part of an item.

The phone plays in order and returns a mark when the sound before it was played. Between marks the
played part is estimated by the time that has passed and the delay of the line.
"""

from __future__ import annotations

import base64
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, final

BYTES_A_MS: Final = 8
FRAME: Final = 160  # bytes of 20 ms; sound is sent in whole frames
PIECE: Final = 10 * FRAME  # 200 ms; short pieces make the estimate precise
LINE_MARKS: Final = 20  # marks from which the delay of the line is estimated
MAX_LINE_S: Final = 0.5
OVERDUE_S: Final = 2.0


@final
@dataclass(slots=True)
class ItemSound:
    """The sound of one item of the model. Units: `received` and `sent` in bytes.

    `rest` is an incomplete frame, kept until more sound or the end of the item.
    """

    item_id: str
    response_id: str
    received: int = 0
    sent: int = 0
    played_ms: int = 0
    rest: bytes = b""
    is_whole: bool = False
    is_filler: bool = False

    @property
    def received_ms(self) -> int:
        return self.received // BYTES_A_MS

    @property
    def sent_ms(self) -> int:
        return self.sent // BYTES_A_MS

    @property
    def is_heard(self) -> bool:
        """Whether all of it was played."""
        return self.is_whole and not self.rest and self.played_ms >= self.sent_ms


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece that is being played. `end_ms`: position of its end in the item; `due`: its end."""

    item: ItemSound
    end_ms: int
    due: float


@final
@dataclass(slots=True)
class Playback:
    """The sound being played to a caller. Times are seconds of one monotonic clock.

    `epoch` counts the calls of `clear`. `heard`: ids of the items played to their end.
    """

    epoch: int = 0
    items: OrderedDict[str, ItemSound] = field(default_factory=OrderedDict[str, ItemSound])
    heard: set[str] = field(default_factory=set[str])
    _pieces: OrderedDict[str, _Piece] = field(default_factory=OrderedDict[str, _Piece])
    _excess: deque[float] = field(default_factory=lambda: deque[float](maxlen=LINE_MARKS))
    _number: int = 0
    _busy_until: float = 0.0
    _since: float = 0.0  # last mark, or first sound after silence

    @property
    def line_s(self) -> float:
        """Delay of the line and back: the median delay of the last marks, within limits.

        With 20 ms of jitter the least one is 30 ms too short: words count as heard that were not.
        """
        half = sorted(self._excess)[len(self._excess) // 2] if self._excess else 0.0
        return min(max(half, 0.0), MAX_LINE_S)

    @property
    def is_playing(self) -> bool:
        """Whether sound is being played."""
        return bool(self._pieces)

    def unplayed_s(self, now: float) -> float:
        """Returns how many seconds the sent sound still plays."""
        return max(0.0, self._busy_until - now) if self._pieces else 0.0

    def received(
        self, item_id: str, response_id: str, audio: bytes, now: float, *, is_filler: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Adds sound of the model. Yields pieces to send, as (payload in base64, mark)."""
        item = self.items.get(item_id)
        if item is None:
            item = self.items[item_id] = ItemSound(item_id, response_id, is_filler=is_filler)
        item.received += len(audio)
        sound = item.rest + audio
        whole = len(sound) - len(sound) % FRAME
        item.rest = sound[whole:]
        for start in range(0, whole, PIECE):
            yield self._sent(item, sound[start : min(start + PIECE, whole)], now)

    def completed(self, item_id: str, now: float) -> Iterator[tuple[str, str]]:
        """Records that the sound of an item is complete. Yields its last piece."""
        item = self.items.get(item_id)
        if item is not None and not item.is_whole:
            item.is_whole = True
            if item.rest:
                rest = item.rest
                item.rest = b""
                yield self._sent(item, rest, now)

    def _sent(self, item: ItemSound, audio: bytes, now: float) -> tuple[str, str]:
        if not self._pieces:
            self._since = now
        self._number += 1
        name = f"{self.epoch}.{self._number}"
        item.sent += len(audio)
        self._busy_until = max(self._busy_until, now) + len(audio) / BYTES_A_MS / 1000
        self._pieces[name] = _Piece(item, item.sent_ms, self._busy_until)
        return base64.b64encode(audio).decode("ascii"), name

    def marked(self, name: str, now: float) -> bool:
        """Records a returned mark. Returns False for a mark of an earlier epoch."""
        if name not in self._pieces:
            return False
        while self._pieces:
            mark, piece = self._pieces.popitem(last=False)
            piece.item.played_ms = max(piece.item.played_ms, piece.end_ms)
            if mark == name:
                self._excess.append(now - piece.due)
                break
        self._since = now
        return True

    def take_heard(self) -> list[str]:
        """Moves the items played to their end to `heard`. Returns their ids."""
        over = [key for key, item in self.items.items() if item.is_heard]
        for item_id in over:
            del self.items[item_id]
        self.heard.update(over)
        return over

    def overdue(self, now: float) -> int:
        """Treats pieces with overdue marks as played. Returns their number."""
        late = [
            name
            for name, piece in self._pieces.items()
            if piece.due + self.line_s + OVERDUE_S <= now
        ]
        for name in late:
            piece = self._pieces.pop(name)
            piece.item.played_ms = max(piece.item.played_ms, piece.end_ms)
            self._since = max(self._since, piece.due)
        return len(late)

    @property
    def next_overdue(self) -> float | None:
        """When the first awaited mark is overdue, None if no mark is awaited."""
        first = next(iter(self._pieces.values()), None)
        return None if first is None else first.due + self.line_s + OVERDUE_S

    def heard_ms(self, item: ItemSound, now: float) -> int:
        """Returns the milliseconds heard of an item when a `clear` sent now arrives."""
        first = next(iter(self._pieces.values()), None)
        if first is None:
            return item.played_ms
        left = max(
            0, int((now - self._since + (self.line_s if first.item.played_ms else 0.0)) * 1000)
        )
        for queued in self.items.values():  # they are played one after another
            heard = min(queued.sent_ms, queued.played_ms + left)
            if queued is item:
                return heard
            left -= heard - queued.played_ms
        return item.played_ms

    def clear(self) -> list[ItemSound]:
        """Discards the sound being played. Returns the items not heard to their end, in order.

        Earlier marks are ignored from now on.
        """
        self.take_heard()
        left = list(self.items.values())
        self.epoch += 1
        self._pieces.clear()
        self.items.clear()
        self._busy_until = 0.0
        return left
