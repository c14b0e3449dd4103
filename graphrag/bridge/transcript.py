"""The transcript of a call: entries in the order of the conversation, answers cut where heard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, final

MAX_ENTRIES: Final = 2_000
MAX_CHARS: Final = 20_000  # of one entry; the rest is dropped
MAX_TOTAL_CHARS: Final = 200_000  # of a call, about three hours of speech; the rest is dropped
INAUDIBLE: Final = "[inaudible]"

SpeakerRole = Literal["user", "assistant", "system"]


@final
@dataclass(slots=True)
class TranscriptEntry:
    """An utterance, or a note of the service.

    `time`: seconds since the call began. `heard_ms`: of an interrupted answer, whose `unheard`
    words the caller did not hear.
    """

    item_id: str
    role: SpeakerRole
    time: float
    text: str = ""
    is_final: bool = False
    is_interrupted: bool = False
    heard_ms: int | None = None
    unheard: str = ""

    def until(self, heard_ms: int, received_ms: int) -> TranscriptEntry:
        """Returns the entry cut to the share that was heard, at the end of a word."""
        share = min(1.0, heard_ms / received_ms) if received_ms else 0.0
        heard = cut_at_word(self.text, round(len(self.text) * share))
        return replace(self, text=heard, unheard=self.text[len(heard) :].strip(), heard_ms=heard_ms)

    def to_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "role": self.role,
            "content": self.text,
            "time": round(self.time, 3),
            "itemId": self.item_id,
        }
        if self.is_interrupted:
            document |= {
                "interrupted": True,
                "heardMs": self.heard_ms or 0,
                "unheard": self.unheard,
            }
        return document


@final
@dataclass(slots=True)
class Transcript:
    """Entries by the id of their item."""

    entries: dict[str, TranscriptEntry] = field(default_factory=dict[str, TranscriptEntry])
    _after: dict[str, str | None] = field(default_factory=dict[str, str | None])
    _chars: int = 0

    def begin(
        self, item_id: str, role: SpeakerRole, time: float, after: str | None = None
    ) -> TranscriptEntry | None:
        """Returns the entry of an item, a new one if needed; None at `MAX_ENTRIES`."""
        entry = self.entries.get(item_id)
        if entry is None and len(self.entries) < MAX_ENTRIES:
            entry = self.entries[item_id] = TranscriptEntry(item_id, role, time)
            self._after[item_id] = after
        return entry

    def add(self, item_id: str, text: str) -> bool:
        """Appends words to an entry that is not final. Returns True if it changed."""
        entry = self.entries.get(item_id)
        if entry is None or entry.is_final:
            return False
        return self._set(entry, entry.text + text)

    def finish(self, item_id: str, text: str | None) -> bool:
        """Sets the final words of an entry, `None` for inaudible ones. Returns True on success.

        Interrupted entries stay as they are.
        """
        entry = self.entries.get(item_id)
        if entry is None or entry.is_interrupted:
            return False
        entry.is_final = True
        self._set(entry, INAUDIBLE if text is None else text.strip())
        return True

    def _set(self, entry: TranscriptEntry, text: str) -> bool:
        """Sets the words of an entry within the limits. Returns True if they changed."""
        text = text[: min(MAX_CHARS, MAX_TOTAL_CHARS - self._chars + len(entry.text))]
        self._chars += len(text) - len(entry.text)
        entry.text, before = text, entry.text
        return text != before

    def interrupt(self, item_id: str, heard_ms: int, received_ms: int) -> bool:
        """Cuts an answer to the share that was heard. Returns True if there is such an answer."""
        entry = self.entries.get(item_id)
        if entry is None or entry.role != "assistant":
            return False
        cut = entry.until(heard_ms, received_ms)
        entry.text = cut.text
        entry.unheard = cut.unheard
        entry.heard_ms = cut.heard_ms
        entry.is_interrupted = entry.is_final = True
        return True

    def cut(self, item_id: str, heard: str, heard_ms: int) -> bool:
        """Cuts an answer to the words that were heard. Returns True if there is such an answer."""
        entry = self.entries.get(item_id)
        if entry is None or entry.role != "assistant" or entry.is_interrupted:
            return False
        entry.text, entry.unheard = heard, entry.text[len(heard) :].strip()
        entry.heard_ms = heard_ms
        entry.is_interrupted = entry.is_final = True
        return True

    def ordered(self) -> Iterator[TranscriptEntry]:
        """Yields the entries that hold words, each after its predecessor."""
        behind: dict[str | None, list[str]] = {}
        for item_id in self.entries:
            after = self._after[item_id]
            behind.setdefault(after if after in self.entries else None, []).append(item_id)
        waiting = behind.get(None, [])[::-1]
        seen = set[str]()
        while waiting:
            item_id = waiting.pop()
            if item_id in seen:
                continue
            seen.add(item_id)
            if self.entries[item_id].text:
                yield self.entries[item_id]
            waiting += behind.get(item_id, [])[::-1]


def cut_at_word(text: str, length: int) -> str:
    """Returns at most `length` characters of a text, without a partial word at the end."""
    if length >= len(text):
        return text
    return re.sub(r"\S*$", "", text[: max(0, length) + 1])[: max(0, length)].rstrip()
