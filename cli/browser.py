"""The page in this person's browser, where there is one."""

from __future__ import annotations

import os
import sys
import webbrowser


def has_screen() -> bool:
    """Tell whether a window can be shown. A browser that draws in the terminal is not wanted there."""
    if sys.platform in ("darwin", "win32"):
        return True
    # No setting of ours: how X11 and Wayland tell every program where the screen is.
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_page(address: str) -> bool:
    """Show the address in a browser; return whether one was found."""
    if not has_screen():
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
