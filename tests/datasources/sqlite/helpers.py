"""What the tests of the embedded database share: files to open, and processes that work on one."""

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from datasources.sqlite import Limits, SqliteDatabase
from datasources.sqlite.source import SqliteSource
from datasources.types import Mutation
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, a_vector

ROOT = Path(__file__).parents[3]
NOTHING_IS_SMALL = Limits(held=-1)


@asynccontextmanager
async def opened(path: Path, limits: Limits | None = None) -> Any:
    """Open a database; yields its source of the usual workspace."""
    async with SqliteDatabase(path, limits=limits) as database:
        source = database.source(WORKSPACE)
        assert isinstance(source, SqliteSource)
        yield source


async def make_numbered(path: Path, count: int, limits: Limits | None = None) -> None:
    """Store a graph of nodes n000, n001…, each with its own word and a vector."""
    async with opened(path, limits) as source:
        await source.create_graph(a_graph())
        await source.apply(numbered(range(count)))


def word(number: int) -> str:
    """Return a word that is one token, and another for every number."""
    return "w" + "".join("bcdfghjklm"[int(digit)] for digit in str(number)) + "k"


def numbered(numbers: Any, note: str = "") -> Mutation:
    return Mutation(
        graph_key=FLOW,
        put_nodes=[a_node(f"n{i:03}", data=f"common {word(i)} {note}") for i in numbers],
        put_vectors=[a_vector(f"n{i:03}", 1.0, float(i), name=(float(i), 1.0)) for i in numbers],
    )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def start(function: Callable[..., Any], *arguments: object) -> subprocess.Popen[str]:
    """Run a function of a module in a process of its own, async or not; its prints are read
    line by line.
    """
    of = f"from {function.__module__} import {function.__name__} as of"
    code = f"import asyncio, sys; {of}; done = of(*sys.argv[1:]); done and asyncio.run(done)"
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], seconds: float = 60) -> str:
    """Wait for a process to end well and return what it printed and nobody read."""
    output, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, output
    return output


async def line_of(process: subprocess.Popen[str], seconds: float = 60) -> str:
    """Return the next line a process prints; one that says nothing for so long is ended."""
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), seconds)
    except TimeoutError:
        process.kill()
        raise
    return line.strip()
