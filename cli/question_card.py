"""Asks the person a question of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli import render
from cli.inputs import YES_OR_NO, choose, read_line
from tools.session_tools import Response


def ask_card(card: Mapping[str, Any]) -> Response | None:
    """Shows the card of a question and returns the answer, None to answer it later."""
    responses = card["responses"]
    max_chars = card["freeText"]
    render.quote("? ", card["text"], "bold")
    if responses == [True, False]:
        return choose("[y]es, [n]o (Enter: later) ", YES_OR_NO)
    for number, response in enumerate(responses, 1):
        render.quote(f"  {number} ", response)
    own = ", or write an answer" if max_chars else ""
    while answer := (read_line(f"1-{len(responses)}{own} (Enter: later) ") or "").strip():
        if answer.isdecimal() and 1 <= int(answer) <= len(responses):
            return responses[int(answer) - 1]
        if answer in responses or (max_chars and len(answer) <= max_chars):
            return answer
        render.fault(f"a number from 1 to {len(responses)}{own}")
    return None
