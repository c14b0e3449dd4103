"""Asks a model's question at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli import render
from cli.line import read_line
from tools.session_tools import Response


def ask_card(card: Mapping[str, Any]) -> Response | None:
    """Show a question's card and return the person's answer; None: later."""
    responses, free = card["responses"], card["freeText"]
    render.said("? ", card["text"], "bold")
    if responses == [True, False]:
        return _yes_or_no()
    for number, response in enumerate(responses, 1):
        render.said(f"  {number} ", response)
    own = ", or write an answer" if free else ""
    while answer := (read_line(f"1-{len(responses)}{own} (Enter: later) ") or "").strip():
        if answer.isdecimal() and 1 <= int(answer) <= len(responses):
            return responses[int(answer) - 1]
        if answer in responses or (free and len(answer) <= free):
            return answer
        render.fault(f"a number from 1 to {len(responses)}{own}")
    return None


def _yes_or_no() -> bool | None:
    while answer := (read_line("[y]es, [n]o (Enter: later) ") or "").strip().casefold()[:1]:
        if answer in ("y", "o", "n"):
            return answer != "n"
        render.fault("y or n")
    return None
