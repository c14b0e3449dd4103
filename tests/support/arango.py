"""An ArangoDB server for tests: the one of ARANGO_URL, else the double of this folder,
as a process.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
import requests

from datasources.arango import ArangoDatabase, layout, parse_address
from datasources.arango.layout import META
from tests.support.arango_faults import faulty_way

ROOT = Path(__file__).parents[2]
PASSWORD = "secret"
_KEPT = [name for name in layout.ALL_COLLECTIONS if name != META]
EMPTY = "\n".join(
    [*(f"LET from_{c} = (FOR d IN {c} REMOVE d IN {c})" for c in _KEPT), "RETURN null"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArangoServer:
    """A running server, or the way to one; both count requests and inject faults."""

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
        # one that nobody could end keeps its documents for a minute
        self.end_transactions(database)
        self.call("POST", f"/_db/{database}/_api/cursor", {"query": EMPTY})

    def end_transactions(self, database: str) -> None:
        open_ones = f"/_db/{database}/_api/transaction"
        for left in self.call("GET", open_ones)["transactions"]:
            self.call("DELETE", f"{open_ones}/{left['id']}")

    def inject(self, match: str, action: str, times: int = 1) -> None:
        """Make the double fail: `drop`, `drop-after`, `status:503`, `delay:MS`, `error:NUMBER`."""
        self.call("POST", "/_double/fault", {"match": match, "times": times, "action": action})

    def limit(self, **limits: int | None) -> None:
        """Sets limits of the double: `transaction` in bytes, `near` in rows of a vector search."""
        self.call("POST", "/_double/limits", limits)

    def heal(self) -> None:
        self.call("DELETE", "/_double/fault")

    def count(self) -> dict[str, int]:
        """Return the requests since `forget_counts`, by method and path."""
        return self.call("GET", "/_double/stats")["requests"]

    def forget_counts(self) -> None:
        self.call("DELETE", "/_double/stats")


@contextmanager
def running_double(password: str = PASSWORD, options: Sequence[str] = ()) -> Iterator[ArangoServer]:
    """Runs the double on loopback; `options` are those of its command line."""
    module = "tests.support.arangodouble"
    command = [sys.executable, "-m", module, "--port", "0", "--password", password, *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            yield ArangoServer(url=url, user="root", password=password, is_double=True)
        finally:
            process.kill()  # it keeps nothing, and to end in order takes it a second


class WrongServer(Exception):
    """ARANGO_URL names no server that could be tested on."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"ARANGO_URL: {reason}; it must read http://root:PASSWORD@HOST:8529")


def _real(address: str) -> tuple[str, dict[str, str]]:
    """Return where the server of ARANGO_URL is, and the sign-in. Raises: WrongServer."""
    parts = urlsplit(address.removeprefix("arango+"))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongServer("that is no address of a server")
    url = f"{parts.scheme}://{parts.hostname}:{parts.port or 8529}"
    login = {"user": unquote(parts.username or "root"), "password": unquote(parts.password or "")}
    try:
        answer = requests.get(
            f"{url}/_api/version", auth=(login["user"], login["password"]), timeout=30
        )
    except requests.RequestException as exc:
        raise WrongServer(f"no server answers at {url}") from exc
    if answer.status_code != 200:
        raise WrongServer(
            f"{url} answers with {answer.status_code}: user and password are wrong, or it is no ArangoDB"
        )
    return url, login


def running_server() -> Iterator[ArangoServer]:
    """Yields a server for a session of tests."""
    real = os.environ.get("ARANGO_URL")
    if real:
        url, login = _real(real)
        with faulty_way(url) as way:
            yield ArangoServer(url=way, **login, is_double=False)
        return
    with running_double() as server:
        yield server


@pytest.fixture(scope="session")
def arango() -> Iterator[ArangoServer]:
    yield from running_server()


async def prepare(address: str) -> None:
    """Set a database up."""
    async with ArangoDatabase(parse_address(address), prepared=False) as database:
        await database.set_up()


@pytest.fixture(scope="session")
def one_database(arango: ArangoServer) -> Iterator[str]:
    """Yield the name of a set-up database that the tests of a session share, one
    after the other.
    """
    name = arango.fresh()
    asyncio.run(prepare(arango.address(name)))
    yield name
    arango.drop(name)


@pytest.fixture
def arango_address(arango: ArangoServer, one_database: str) -> Iterator[str]:
    """Yield the address of a set-up database that is empty, and is emptied afterwards."""
    yield arango.address(one_database)
    arango.empty(one_database)


def _without_faults(server: ArangoServer) -> Iterator[ArangoServer]:
    server.heal()
    server.forget_counts()
    yield server
    server.heal()


@pytest.fixture
def arango_faults(arango: ArangoServer) -> Iterator[ArangoServer]:
    """The server, without faults before and after."""
    yield from _without_faults(arango)


@pytest.fixture
def arango_double(arango: ArangoServer) -> Iterator[ArangoServer]:
    """The server, if it is the double, without faults before and after."""
    if not arango.is_double:
        pytest.skip("only the double tells of its queries and trains a vector index on a few nodes")
    yield from _without_faults(arango)
