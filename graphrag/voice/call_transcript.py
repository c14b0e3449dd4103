"""What was said in a call, in the order of the conversation: of the agent only what
the caller heard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

MOST_ENTRIES = 2_000
MOST_CHARS = 20_000
"""Of one entry; the rest is left out."""
MOST_CHARS_IN_ALL = 200_000
"""Of a call: three hours of talk. What is said after that is not kept."""
INAUDIBLE = "[inaudible]"

SpeakerRole = Literal["user", "assistant", "system"]


@dataclass(slots=True)
class Said:
    """One entry. `time`: seconds since the call began. `heard_ms`: of an answer that was
    interrupted, whose `unheard` words the caller did not get.
    """

    item_id: str
    role: SpeakerRole
    time: float
    text: str = ""
    is_final: bool = False
    is_interrupted: bool = False
    heard_ms: int | None = None
    unheard: str = ""

    def until(self, heard_ms: int, received_ms: int) -> Said:
        """Returns the entry cut, at the end of a word, to the share of it that was heard."""
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


@dataclass(slots=True)
class CallTranscript:
    """The entries by their item, in the order in which the server puts them."""

    entries: dict[str, Said] = field(default_factory=dict[str, Said])
    _after: dict[str, str | None] = field(default_factory=dict[str, str | None])
    _chars: int = 0

    def begin(
        self, item_id: str, role: SpeakerRole, time: float, after: str | None = None
    ) -> Said | None:
        """Return the entry of an item, new where there was none; None when there are too many."""
        found = self.entries.get(item_id)
        if found is None and len(self.entries) < MOST_ENTRIES:
            found = self.entries[item_id] = Said(item_id, role, time)
            self._after[item_id] = after
        return found

    def add(self, item_id: str, text: str) -> bool:
        """Add words to an entry that is not over; say whether it changed."""
        entry = self.entries.get(item_id)
        if entry is None or entry.is_final:
            return False
        return self._set(entry, entry.text + text)

    def finish(self, item_id: str, text: str | None) -> bool:
        """Set the final words of an entry; None: they could not be made out. Cut ones stay cut."""
        entry = self.entries.get(item_id)
        if entry is None or entry.is_interrupted:
            return False
        entry.is_final = True
        self._set(entry, INAUDIBLE if text is None else text.strip())
        return True

    def _set(self, entry: Said, text: str) -> bool:
        """Set the words of an entry, as far as they have room; say whether they changed."""
        text = text[: min(MOST_CHARS, MOST_CHARS_IN_ALL - self._chars + len(entry.text))]
        self._chars += len(text) - len(entry.text)
        entry.text, before = text, entry.text
        return text != before

    def interrupt(self, item_id: str, heard_ms: int, received_ms: int) -> bool:
        """Cut an answer to the share of it that was heard, at the end of a word."""
        entry = self.entries.get(item_id)
        if entry is None or entry.role != "assistant":
            return False
        cut = entry.until(heard_ms, received_ms)
        entry.text = cut.text
        entry.unheard = cut.unheard
        entry.heard_ms = cut.heard_ms
        entry.is_interrupted = entry.is_final = True
        return True

    def ordered(self) -> Iterator[Said]:
        """Yield the entries that hold words, each behind the one that it follows."""
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
    """Return the beginning of a text, at most `length` characters, without half a word
    at its end.
    """
    if length >= len(text):
        return text
    return re.sub(r"\S*$", "", text[: max(0, length) + 1])[: max(0, length)].rstrip()
