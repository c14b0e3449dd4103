"""Describes the machine that figures come from."""

from __future__ import annotations

import os
import platform
import re
import time
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


def busy(during_s: float = 1.0) -> float | None:
    """Return which share of the cores worked during the next moments, of whatever process."""
    try:
        before = _working_s()
        started = time.monotonic()
        time.sleep(during_s)
        worked = _working_s() - before
        passed = time.monotonic() - started
    except OSError:
        return None
    return min(1.0, worked / (passed * (os.cpu_count() or 1)))


def _working_s() -> float:
    """Return how long the cores have worked since the machine started: all but idle and waiting."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:8]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
