"""Takes tool calls that a model wrote into its text out of the stream, however the pieces are cut.

A marker and what follows, to its closing mark, is left out; without a closing mark, all the rest is.
"""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase

MARKERS = ("<｜DSML｜", "<|DSML|", "<function_calls>", "<function_call>", "<tool_call>")

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Changes no length, as `str.lower` may."""
_FOLDED = tuple(marker.translate(_LOWER) for marker in MARKERS)
_OPENING = re.compile("|".join(re.escape(marker) for marker in _FOLDED))
_LONGEST = max(map(len, MARKERS))
_NAME = re.compile(r"[a-z_]{0,40}")


class LeakFilter:
    """Lets text through piece by piece. `leaked` says whether something was taken out."""

    def __init__(self) -> None:
        self.leaked = False
        self._held = ""
        self._marker: str | None = None
        self._closing: str | None = None
        self._recent = ""

    def feed(self, text: str) -> str:
        """Take a piece and return what may be shown by now."""
        self._held += text
        shown: list[str] = []
        while self._step(shown):
            pass
        return "".join(shown)

    def finish(self) -> str:
        """Return what was held back as the possible beginning of a marker and is none."""
        held, self._held = self._held, ""
        return "" if self._marker else held

    def _step(self, shown: list[str]) -> bool:
        """Deal with what is held up to the next change of state; False: more text is needed."""
        if self._marker is None:
            return self._outside(shown)
        if self._closing is None:
            return self._name()
        folded = self._held.translate(_LOWER)
        end = folded.find(self._closing)
        if end < 0:
            self._held = self._held[-(len(self._closing) - 1) :]
            return False
        self._held = self._held[end + len(self._closing) :]
        self._marker = self._closing = None
        return True

    def _outside(self, shown: list[str]) -> bool:
        folded = self._held.translate(_LOWER)
        found = _OPENING.search(folded)
        if found is None:
            keep = _possible_beginning(folded)
            cut = len(self._held) - keep
            self._show(self._held[:cut], shown)
            self._held = self._held[cut:]
            return False
        self.leaked = True
        self._show(self._held[: found.start()], shown)
        if _possible_beginning(self._recent):
            self._show(" ", shown)  # "<tool", a call and "_call>" must not join into a marker
        self._held = self._held[found.end() :]
        self._marker = found.group()
        if self._marker.endswith(">"):
            self._closing = "</" + self._marker[1:]
        return True

    def _show(self, text: str, shown: list[str]) -> None:
        shown.append(text)
        self._recent = (self._recent + text.translate(_LOWER))[-_LONGEST:]

    def _name(self) -> bool:
        """Read the element's name after a DSML marker; its closing mark repeats it."""
        found = _NAME.match(self._held.translate(_LOWER))
        name = found.group() if found else ""
        if len(name) == len(self._held):
            return False
        self._closing = f"</{(self._marker or '<')[1:]}{name}>"
        return True


def _possible_beginning(folded: str) -> int:
    """Return how many characters at the end may be the beginning of a marker."""
    place = folded.rfind("<")
    tail = folded[place:] if place >= 0 else ""
    return len(tail) if tail and any(marker.startswith(tail) for marker in _FOLDED) else 0
