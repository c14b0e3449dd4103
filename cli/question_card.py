"""Asks a model's question at a terminal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from typing import Any

from cli import render
from tools.session_tools import Response


def read_line(prompt: str) -> str | None:
    """Return what the person types; None when they end it with Ctrl-D or Ctrl-C."""
    in_main = threading.current_thread() is threading.main_thread()
    # The event loop's own handler would wait for the line to end.
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler) if in_main else None
    try:
        return input(prompt)
    except (EOFError, KeyboardInterrupt):
        render.line()
        return None
    finally:
        if earlier is not None:
            signal.signal(signal.SIGINT, earlier)


def ask_card(card: Mapping[str, Any]) -> Response | None:
    """Show a question's card and return the person's answer; None: later."""
    responses = card["responses"]
    free = card["freeText"]
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
