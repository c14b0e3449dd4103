"""Counts the functions and files that a question and an approval pass;
`python -m tests.benchmarks.hops`.

Two counts of each command, on the sample graphs with rules as the model. *On the way*: the
functions of the rooms that were waiting for another when the store or the model was asked, which a
reader has to follow from the command to what is read and written. *In all*: every function of the
rooms that was called.

The embedding that follows an approval by itself is a task which the command awaits only before
it ends: what is on the way of that task has a row of its own, and what it calls is among all
that the command called.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from typer.testing import CliRunner

from cli.main import app

ROOT = Path(__file__).parents[2]
ROOMS = tuple(
    f"{ROOT / room}{os.sep}" for room in ("cli", "datasources", "graphrag", "server", "tools")
)
ASKS_MODEL = frozenset(("stream", "search_text", "search_vectors"))
LEAVES = frozenset(("run_in_executor", "to_thread", "submit", "execute"))
"""Functions of others by which the rooms leave their thread, or ask the database."""
FOLLOWS = "EmbeddingQueue._run"
"""The task that goes on by itself after a command's own work."""
Place = tuple[str, str]


@dataclass(slots=True)
class Hops:
    """Which functions were passed, as (file, name)."""

    all: set[Place] = field(default_factory=set[Place])
    on_the_way: set[Place] = field(default_factory=set[Place])
    follows: set[Place] = field(default_factory=set[Place])
    """On the way of the task that follows."""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        """Note a call; this is a function for `sys.setprofile`."""
        if event != "call":
            return
        code = frame.f_code
        if _is_function(code):
            self.all.add((code.co_filename, code.co_qualname))
        if code.co_name in LEAVES or (_is_function(code) and code.co_name in ASKS_MODEL):
            self._add_waiting(frame)

    def _add_waiting(self, frame: FrameType | None) -> None:
        waiting: set[Place] = set()
        while frame is not None:
            code = frame.f_code
            if _is_function(code):
                waiting.add((code.co_filename, code.co_qualname))
                if code.co_qualname == FOLLOWS:  # what stands above it runs the event loop
                    self.follows |= waiting
                    return
            frame = frame.f_back
        self.on_the_way |= waiting

    def rows(self, name: str) -> list[str]:
        """Return the lines of the table, the second one for what follows, where something does."""
        found = [f"| {name} | {_count(self.on_the_way)} | {_count(self.all)} |"]
        if self.follows:
            found.append(f"| embedding after it, by itself | {_count(self.follows)} | |")
        return found


def _count(places: set[Place]) -> str:
    return f"{len(places)} in {len({file for file, _ in places})}"


def _is_function(code: CodeType) -> bool:
    return code.co_filename.startswith(ROOMS) and not code.co_name.startswith("<")


def run(*arguments: str, hops: Hops | None = None) -> str:
    """Run a command in this process and return what it printed. Raises: RuntimeError."""
    sys.setprofile(hops)
    threading.setprofile(hops)
    try:
        result = CliRunner().invoke(app, arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if result.exit_code:
        raise RuntimeError(f"{arguments}: {result.output[-500:]}")
    return result.output


def measure() -> Sequence[str]:
    """Return the rows of the table. The first question is not counted: it loads
    and fills caches.
    """
    ask = Hops()
    approve = Hops()
    run("demo", "--no-serve")
    run("ask", "testgraph001", "What happens when fetching the players fails?")
    run("ask", "testgraph001", "Which nodes call an API?", hops=ask)
    run("ask", "testgraph001", "add a log-node named Night players after filter-active")
    waiting = json.loads(run("review", "list", "--json"))
    run("review", "approve", waiting[0]["id"], hops=approve)
    return [*ask.rows("`nodius ask`"), *approve.rows("`nodius review approve`")]


def main() -> None:
    """Measure in a folder of its own and print the table."""
    with tempfile.TemporaryDirectory(prefix="nodius-hops-") as folder:
        os.chdir(folder)
        rows = measure()
        os.chdir(ROOT)
    print("| command | functions on the way, in files | in all |\n|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
