"""The processes of the benchmark of calls, and its statistics."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def worked_s(pid: int) -> float:
    """Return the processor time of a process. Units: seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


@dataclass
class Process:
    """One of the other processes: asked by lines, it answers each with one."""

    process: subprocess.Popen[str]
    address: str

    async def ask(self, **what: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        async with asyncio.timeout(60):
            return json.loads(await asyncio.to_thread(self.process.stdout.readline))

    def worked_s(self) -> float:
        return worked_s(self.process.pid)

    def held(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def running(*arguments: str, python: str = sys.executable) -> AsyncIterator[Process]:
    command = [python, *arguments]
    pipe = subprocess.PIPE
    quiet = None if "--loud" in sys.argv else subprocess.DEVNULL
    process = subprocess.Popen(  # noqa: ASYNC220 - takes a millisecond
        command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=quiet, text=True
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(90):
            address = (await asyncio.to_thread(process.stdout.readline)).strip()
        if not address:
            raise RuntimeError(f"{' '.join(command)} did not begin")
        yield Process(process, address)
    finally:
        process.kill()
        process.communicate()


def at(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")
