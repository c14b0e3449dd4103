"""Serves the sample graph from a database file on loopback while a command runs, and ends
with its code.

`python -m tests.support.serving COMMAND…`: the command finds NODIUS_URL and
NODIUS_TOKEN (an editor's).
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.support.chosen_database import address_in
from tests.support.databases import nba_file
from tests.support.served import served
from tests.support.service import token


async def run(*command: str) -> int:
    """Run a command beside the service; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        path = await nba_file(Path(folder))
        async with served(db=address_in(path), rate_limit=0) as running:
            given = {"NODIUS_URL": running.address, "NODIUS_TOKEN": token()}
            process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **given})
            return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run(*sys.argv[1:])))
