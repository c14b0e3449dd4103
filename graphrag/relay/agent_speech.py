"""What the agent has said lately, and how much of it the caller has heard.

The telephone service speaks the words that it is sent; when it is through is known from its events,
or else estimated from the number of characters. Times are seconds of one monotonic clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, final

CHARS_A_S: Final = 14.0  # of speech; about 150 English words a minute
START_S: Final = 1.0  # from the first word sent until it sounds
PAUSE_S: Final = 0.6  # after an event that speech has stopped it may go on, with the next sentence
STUCK_S: Final = 20.0  # after the estimated end, until a missing event is no longer waited for
_WORD: Final = re.compile(r"\S+")


@dataclass(slots=True)
class SpokenPiece:
    """Words of one entry of the transcript."""

    item_id: str
    text: str


@final
class AgentSpeech:
    """The words of the last answers, in pieces by entry of the transcript."""

    def __init__(self) -> None:
        self.pieces: list[SpokenPiece] = []
        self._done = 0  # characters that were heard before the last silence
        self._began = 0.0
        self._ends = 0.0
        self._is_on = False
        self._played = ""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def begin(self, now: float) -> None:
        """Begins another answer: what was spoken to its end is forgotten."""
        if not self.is_speaking(now):
            self.stop()

    def add(self, item_id: str, text: str, now: float) -> None:
        """Adds words that were sent to be spoken."""
        if not self.is_speaking(now):
            self._done = len(self.text)
            self._began = self._ends = now + START_S
        if self.pieces and self.pieces[-1].item_id == item_id:
            self.pieces[-1].text += text
        else:
            self.pieces.append(SpokenPiece(item_id, text))
        self._ends = max(self._ends, now + START_S) + len(text) / CHARS_A_S

    def changed(self, now: float, *, speaks: bool) -> None:
        """Records an event: the service speaks, or has stopped to."""
        self._is_on = speaks
        if speaks and self.pieces:
            self._began = min(self._began, now)
            self._ends = max(self._ends, now + PAUSE_S)
        elif not speaks:
            self._ends = min(self._ends, now + PAUSE_S)

    def played(self, text: str) -> None:
        """Records words that the service has spoken."""
        if self.pieces and len(self._played) <= len(self.text):
            self._played += text

    def is_speaking(self, now: float) -> bool:
        return now < self._ends + (STUCK_S if self._is_on else 0.0)

    def next_time(self, now: float) -> float | None:
        """Returns when the speech ends if no event comes, None if it has ended."""
        if not self.is_speaking(now):
            return None
        return self._ends + (STUCK_S if self._is_on else 0.0)

    def heard(self, now: float) -> dict[str, str]:
        """Returns the words heard of each piece that may still be spoken, by its entry."""
        if not self.is_speaking(now):
            return {}
        text = self.text
        if self._played.strip():
            length = heard_length(text, self._played)
        else:
            length = self._done + round(max(0.0, now - self._began) * CHARS_A_S)
            length = _whole_words(text, length)
        return self._shares(length)

    def interrupted(self, words: str) -> dict[str, str]:
        """Ends the speech after these words. Returns the words heard of each piece."""
        shares = self._shares(heard_length(self.text, words))
        self.stop()
        return shares

    def stop(self) -> None:
        """Forgets the speech."""
        self.pieces.clear()
        self._done = 0
        self._played = ""
        self._ends = 0.0
        self._is_on = False

    def _shares(self, length: int) -> dict[str, str]:
        shares: dict[str, str] = {}
        for piece in self.pieces:
            heard = shares.get(piece.item_id, "") + piece.text[: max(0, length)]
            shares[piece.item_id] = heard.rstrip() if length < len(piece.text) else heard
            length -= len(piece.text)
        return shares


def heard_length(text: str, utterance: str) -> int:
    """Returns how many characters of a text were spoken, by the words spoken until then.

    The service may write them otherwise; then the same number of words counts.
    """
    said = utterance.strip()
    if not said:
        return 0
    start = len(text) - len(text.lstrip())
    if text.startswith(said, start):
        return start + len(said)
    if (at := text.find(said)) >= 0:
        return at + len(said)
    number = len(said.split())
    ends = [match.end() for match in _WORD.finditer(text)]
    return ends[min(number, len(ends)) - 1] if ends else 0


def _whole_words(text: str, length: int) -> int:
    """Returns the length of the text without a partial word at the end."""
    if length >= len(text):
        return len(text)
    return len(re.sub(r"\S*$", "", text[:length]))
