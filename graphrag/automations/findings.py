"""Compares the findings of two reports of an automation: which are new, the same, or gone.

A finding is an item of a list in the report; a report with findings but without a list is one
finding. Reports carry no keys of findings, so they are compared by their words: case, Markdown and
a remark in parentheses at the end do not count, and what one says after the other's whole text does
not either ("… (error)", "… It was applied.").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from graphrag.sessions.agent_session import SessionReport

MAX_FINDINGS: Final = 200  # of one report
FINDING_CHARS: Final = 300
# A shorter text may begin another finding by chance.
MIN_SHARED: Final = 20

_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+(\S.*)$", re.MULTILINE)
_REMARK: Final = re.compile(r"\s*\([^()]*\)\s*$")
_MARKS: Final = re.compile(r"[*_`#]|\{\{|\}\}")


@dataclass(frozen=True, slots=True)
class ComparedFindings:
    """The findings of a report beside those of an earlier one. `gone`: of the earlier one."""

    new: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def findings_of(report: SessionReport | None) -> list[str]:
    """Returns the findings of a report, each once; empty unless its outcome is `findings`."""
    if report is None or report.outcome != "findings":
        return []
    items = [item.strip() for item in _ITEM.findall(report.text)] or [
        line.strip() for line in report.text.splitlines() if line.strip()
    ][:1]
    by_words = {_words(item): item[:FINDING_CHARS] for item in reversed(items[:MAX_FINDINGS])}
    return list(reversed(by_words.values()))


def compare(now: Sequence[str], before: Sequence[str]) -> ComparedFindings:
    """Returns the findings of now and before, compared by their words."""
    words_now = [_words(one) for one in now]
    words_before = [_words(one) for one in before]

    def is_in(words: str, others: Sequence[str]) -> bool:
        return any(_is_same(words, other) for other in others)

    known = [is_in(words, words_before) for words in words_now]
    return ComparedFindings(
        new=tuple(one for one, is_known in zip(now, known, strict=True) if not is_known),
        same=tuple(one for one, is_known in zip(now, known, strict=True) if is_known),
        gone=tuple(
            one
            for one, words in zip(before, words_before, strict=True)
            if not is_in(words, words_now)
        ),
    )


def _words(text: str) -> str:
    plain = _MARKS.sub("", text)
    return " ".join(_REMARK.sub("", plain).casefold().split()).rstrip(".") or text


def _is_same(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) >= MIN_SHARED and longer.startswith(shorter))
