"""Follows what is played to the caller: pieces of sound with a mark each, and how much of an
item was played.

The phone side plays in order and sends a mark back when the sound before it was played. Between
marks what is heard is estimated: the sound goes on, and the marks take their time on the line.
"""

from __future__ import annotations

import base64
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

BYTES_A_MS = 8
FRAME = 160
"""Bytes of 20 ms: sound is sent in whole ones."""
PIECE = 10 * FRAME
"""200 ms: longer sound is sent in pieces, so that the estimate is fine-grained."""
LINE_MARKS = 20
MOST_LINE_S = 0.5
OVERDUE_S = 2.0


@dataclass(slots=True)
class ItemSound:
    """The sound of one item of the model. Units: bytes as received and sent,
    milliseconds as played.

    `rest` waits for the next piece, or for the end of the item.
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
    """A piece on its way: the item's milliseconds at its end, and when it should
    have been played.
    """

    item: ItemSound
    end_ms: int
    due: float


@dataclass(slots=True)
class Playback:
    """The sound on its way to one caller. Times are seconds of one monotonic clock.

    `heard`: the items that were played to their end.
    """

    epoch: int = 0
    items: OrderedDict[str, ItemSound] = field(default_factory=OrderedDict[str, ItemSound])
    heard: set[str] = field(default_factory=set[str])
    _pieces: OrderedDict[str, _Piece] = field(default_factory=OrderedDict[str, _Piece])
    _excess: deque[float] = field(default_factory=lambda: deque[float](maxlen=LINE_MARKS))
    _number: int = 0
    _busy_until: float = 0.0
    _since: float = 0.0
    """When the last mark came back, or the first sound of this epoch was sent."""

    @property
    def line_s(self) -> float:
        """The time on the line and back: what half of the last marks took too long at most."""
        half = sorted(self._excess)[len(self._excess) // 2] if self._excess else 0.0
        return min(max(half, 0.0), MOST_LINE_S)

    @property
    def is_playing(self) -> bool:
        return bool(self._pieces)

    def unplayed_s(self, now: float) -> float:
        """Return how long what was sent still plays."""
        return max(0.0, self._busy_until - now) if self._pieces else 0.0

    def received(
        self, item_id: str, response_id: str, audio: bytes, now: float, *, is_filler: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Take in sound of the model; yield what is to be sent of it, as (payload
        in base64, mark).
        """
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
        """Note that all sound of an item has come; yield what was kept of it."""
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
        """Note that a mark came back; say whether it counts: those of an earlier epoch do not."""
        if name not in self._pieces:
            return False
        while self._pieces:
            found, piece = self._pieces.popitem(last=False)
            piece.item.played_ms = max(piece.item.played_ms, piece.end_ms)
            if found == name:
                self._excess.append(now - piece.due)
                break
        self._since = now
        return True

    def take_heard(self) -> list[str]:
        """Moves the items that were played to their end to `heard`; returns them."""
        over = [key for key, item in self.items.items() if item.is_heard]
        for item_id in over:
            del self.items[item_id]
        self.heard.update(over)
        return over

    def overdue(self, now: float) -> int:
        """Count marks that did not come back in time as played; return how many."""
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
        """When the first mark is overdue that has not come back; None: none is awaited."""
        first = next(iter(self._pieces.values()), None)
        return None if first is None else first.due + self.line_s + OVERDUE_S

    def heard_ms(self, item: ItemSound, now: float) -> int:
        """Return how much of an item the caller will have heard when a `clear` of now arrives."""
        first = next(iter(self._pieces.values()), None)
        if first is None:
            return item.played_ms
        left = max(
            0, int((now - self._since + (self.line_s if first.item.played_ms else 0.0)) * 1000)
        )
        for each in self.items.values():  # they are played one after another
            heard = min(each.sent_ms, each.played_ms + left)
            if each is item:
                return heard
            left -= heard - each.played_ms
        return item.played_ms

    def clear(self) -> list[ItemSound]:
        """Forget what is on its way; return the items that were not heard to their end, in order.

        Marks of before count for nothing from now on.
        """
        self.take_heard()
        left = list(self.items.values())
        self.epoch += 1
        self._pieces.clear()
        self.items.clear()
        self._busy_until = 0.0
        return left
