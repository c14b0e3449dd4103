"""The words that an instruction quotes, for answerers that cannot follow instructions."""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(r"[“«\"]\s*([^”»\"]{2,})\s*[”»\"]")


def quoted(instruction: str) -> str:
    """Returns the words to speak: the longest quotation, the text after a colon, or all of it."""
    quotations = _QUOTED.findall(instruction)
    if quotations:
        return max(quotations, key=len).strip()
    return instruction.partition(":")[2].strip() or instruction
