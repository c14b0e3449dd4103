"""What is said of a server's version: too old, open to anybody, right, or not told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from arango.database import StandardDatabase

from datasources.arango import parse_address
from datasources.arango.checking import look_at_server
from datasources.arango.connection import ArangoConnection
from datasources.arango.server_version import refuse_old
from datasources.base import Finding
from datasources.errors import SourceUnavailable


@contextmanager
def a_server(version: str | None) -> Iterator[str]:
    """Yield where a server answers `/_api/version` as ArangoDB does; a hardened one tells no version."""
    answer: dict[str, Any] = {"server": "arango", "license": "community"}
    if version is not None:
        answer |= {"version": version, "details": {}}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"arango+http://u@127.0.0.1:{server.server_address[1]}/db"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def said_of(version: str | None) -> tuple[Finding, str]:
    """Return the finding, and why a set-up is refused if it is."""

    def look(database: StandardDatabase) -> tuple[Finding, str]:
        try:
            refuse_old(database, source="here")
        except SourceUnavailable as exc:
            return look_at_server(database), str(exc)
        return look_at_server(database), ""

    with a_server(version) as address:
        connection = ArangoConnection(parse_address(address))
        connection.open()
        try:
            return await connection.run(look)
        finally:
            await connection.close()


@pytest.mark.parametrize(
    ("version", "status", "detail", "refused"),
    [
        ("3.11.14", "error", "too old", True),
        ("3.12.3-1", "error", "too old", True),
        ("3.12.4", "warning", "without signing in", False),
        ("3.12.10.1", "warning", "without signing in", False),
        ("3.12.11", "ok", "ArangoDB 3.12.11, community edition", False),
        ("4.0.0-devel", "ok", "ArangoDB 4.0.0-devel", False),
        (None, "warning", "version not told", False),
    ],
)
async def test_a_version_is_judged(version: str | None, status: str, detail: str, refused: bool) -> None:
    finding, why = await said_of(version)
    assert (finding.status, bool(why)) == (status, refused)
    assert detail in finding.detail
    assert (finding.fix is None) == (status == "ok")
