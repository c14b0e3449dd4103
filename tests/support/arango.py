"""An ArangoDB server for tests: the one of ARANGO_URL, else the double of the shared folder, as a process.

Tests that need it skip with a clear line where there is neither.
"""

from __future__ import annotations

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


@pytest.fixture
def arango_double(arango: ArangoServer) -> Iterator[ArangoServer]:
    """The server, if it is the double, without faults before and after."""
    if not arango.is_double:
        pytest.skip("only the double counts requests and injects faults")
    arango.heal()
    arango.forget_counts()
    yield arango
    arango.heal()
