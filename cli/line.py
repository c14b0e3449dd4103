"""Reads a line that a person types."""

from __future__ import annotations

import signal
import threading

from cli import render


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
