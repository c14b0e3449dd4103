"""Describes the machine that figures come from."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path


def described() -> str:
    """Return processor, cores, memory, Python and the date in one line."""
    return ", ".join(
        [
            _processor(),
            f"{os.cpu_count()} cores",
            f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
            f"Python {platform.python_version()}",
            f"{datetime.now(UTC):%Y-%m-%d}",
        ]
    )


def _processor() -> str:
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def resident() -> int:
    """Return the process's memory, without the pages of files it has mapped. Units: bytes."""
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
