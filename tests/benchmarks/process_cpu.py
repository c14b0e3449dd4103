"""The CPU time of a process with its children, as Linux counts it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(process_id: int) -> float:
    """Returns the CPU time that a process and its running children have used, in seconds."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    tasks = Path(f"/proc/{process_id}/task").glob("*/children")
    children = {int(child) for task in tasks for child in task.read_text().split()}
    return own + sum(map(cpu_s, children))


async def share_of_cpu(process_id: int, seconds: float) -> float:
    """Returns the share of one core that a process uses while `seconds` pass, in percent."""
    before = cpu_s(process_id)
    await asyncio.sleep(seconds)
    return (cpu_s(process_id) - before) / seconds * 100
