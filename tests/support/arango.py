"""An ArangoDB server for tests: the one of ARANGO_URL, else the double of the shared folder, as a process.

Tests that need it skip with a clear line where there is neither.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests

from datasources.arango import ArangoDatabase, layout, parse_address
from datasources.arango.names import META

DOUBLE = Path(__file__).parents[2] / "../shared/arangodouble"
PASSWORD = "secret"
MISSING = "no ArangoDB: set ARANGO_URL, or put the double at ../shared/arangodouble"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArangoServer:
    """A running server. `is_double`: it counts requests and injects faults."""

    url: str
    user: str
    password: str
    is_double: bool

    @property
    def place(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def address(self, database: str, *, options: str = "", place: str | None = None) -> str:
        """Return the database address as users write it."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        secure = "s" if self.url.startswith("https") else ""
        return f"arango+http{secure}://{login}@{place or self.place}/{database}{options}"

    def fresh(self) -> str:
        """Return the name of a database that is not there yet."""
        return f"t{uuid.uuid4().hex[:20]}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request of the test's own."""
        answer = requests.request(
            method, f"{self.url}{path}", json=body, auth=(self.user, self.password), timeout=30
        )
        answer.raise_for_status()
        return answer.json()

    def drop(self, database: str) -> None:
        requests.delete(
            f"{self.url}/_api/database/{database}", auth=(self.user, self.password), timeout=30
        ).close()

    def empty(self, database: str) -> None:
        """Remove what a set-up database holds; quicker than to set up another."""
        names = [name for name in layout.ALL_COLLECTIONS if name != META]
        counts = ", ".join(f"LENGTH({name})" for name in names)
        row = self.call("POST", f"/_db/{database}/_api/cursor", {"query": f"RETURN [{counts}]"})["result"][0]
        for name, count in zip(names, row, strict=True):
            if count:
                self.call("PUT", f"/_db/{database}/_api/collection/{name}/truncate")

    def inject(self, match: str, action: str, times: int = 1) -> None:
        """Make the double fail: `drop`, `drop-after`, `status:503`, `delay:MS`, `error:NUMBER`."""
        self.call("POST", "/_double/fault", {"match": match, "times": times, "action": action})

    def heal(self) -> None:
        self.call("DELETE", "/_double/fault")

    def count(self) -> dict[str, int]:
        """Return the requests since `forget_counts`, by method and path."""
        return self.call("GET", "/_double/stats")["requests"]

    def forget_counts(self) -> None:
        self.call("DELETE", "/_double/stats")


def start_double() -> tuple[subprocess.Popen[str], ArangoServer]:
    """Start the double on loopback; whoever starts it ends it."""
    command = [sys.executable, "-m", "arangodouble", "--port", "0", "--password", PASSWORD]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, cwd=DOUBLE, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    return process, ArangoServer(url=url, user="root", password=PASSWORD, is_double=True)


def running_server() -> Iterator[ArangoServer]:
    """Yield a server for a session of tests, or skip."""
    real = os.environ.get("ARANGO_URL")
    if real:
        parts = urlsplit(real)
        url = f"{parts.scheme.removeprefix('arango+')}://{parts.hostname}:{parts.port or 8529}"
        yield ArangoServer(
            url=url, user=parts.username or "root", password=parts.password or "", is_double=False
        )
        return
    if not DOUBLE.is_dir():
        pytest.skip(MISSING)
    process, server = start_double()
    try:
        yield server
    finally:
        process.terminate()
        process.wait(timeout=10)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def arango() -> Iterator[ArangoServer]:
    yield from running_server()


async def prepare(address: str) -> None:
    """Set a database up."""
    async with ArangoDatabase(parse_address(address), prepared=False) as database:
        await database.set_up()


@pytest.fixture(scope="session")
def one_database(arango: ArangoServer) -> Iterator[str]:
    """Yield the name of a set-up database that the tests of a session share, one after the other."""
    name = arango.fresh()
    asyncio.run(prepare(arango.address(name)))
    yield name
    arango.drop(name)


@pytest.fixture
def arango_address(arango: ArangoServer, one_database: str) -> Iterator[str]:
    """Yield the address of a set-up database that is empty, and is emptied afterwards."""
    yield arango.address(one_database)
    arango.empty(one_database)


@pytest.fixture
def arango_double(arango: ArangoServer) -> Iterator[ArangoServer]:
    """The server, if it is the double, without faults before and after."""
    if not arango.is_double:
        pytest.skip("only the double counts requests and injects faults")
    arango.heal()
    arango.forget_counts()
    yield arango
    arango.heal()
