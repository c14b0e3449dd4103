"""What is said of a server's version: too old, open to anybody, right, or unknown."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from arango.database import StandardDatabase

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.connection import ArangoConnection
from datasources.arango.database import look_at_server
from datasources.arango.setup import refuse_old
from datasources.base import Finding
from datasources.errors import SourceUnavailable
from datasources.types import Graph, Mutation, Node
from tests.contracts.searches import search_text
from tests.support.arango import ArangoServer


@contextmanager
def a_server(version: str | None, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Yield where a server answers `/_api/version` as ArangoDB does; a hardened one
    tells no version.
    """
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
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"arango+http{'s' if context else ''}://u:hidden@127.0.0.1:{server.server_address[1]}/db"
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
        try:
            return await connection.run(look)
        finally:
            await connection.close()


@pytest.mark.parametrize(
    ("version", "status", "detail", "refused"),
    [
        ("3.10.14", "error", "too old: statements need 3.11", True),
        ("3.11.14", "warning", "exact search only", False),
        ("3.12.3-1", "error", "sorts wrongly by some indexes", True),
        ("3.12.4", "warning", "without signing in", False),
        ("3.12.10.1", "warning", "without signing in", False),
        ("3.12.11", "ok", "ArangoDB 3.12.11, community edition", False),
        ("4.0.0-devel", "ok", "ArangoDB 4.0.0-devel", False),
        (None, "warning", "unnamed version", False),
    ],
)
async def test_a_version_is_accepted_or_refused(
    version: str | None, status: str, detail: str, refused: bool
) -> None:
    finding, why = await said_of(version)
    assert (finding.status, bool(why)) == (status, refused)
    assert detail in finding.detail
    assert (finding.fix is None) == (status == "ok")


async def test_of_3_11_every_search_is_exact_and_no_order_is_taken_from_the_server(
    arango: ArangoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = parse_address(arango.address(arango.fresh()))
    async with ArangoDatabase(address, prepared=False) as database:
        await database.set_up()
    monkeypatch.setattr("datasources.arango.setup.version_of", lambda _: (3, 11, 14))
    async with ArangoDatabase(address, exact_nodes=1) as database:
        source = database.source("acme")
        await source.create_graph(Graph(key="flow", name="Flow", workspace="acme"))
        nodes = [
            Node(key=key, graph_key="flow", type="task", data={"name": "refund"}) for key in "aBc"
        ]
        await source.apply(Mutation(graph_key="flow", put_nodes=nodes))
        arango.forget_counts()
        assert [hit.key for hit in await search_text(source, "flow", "refund", limit=3)] == [
            "B",
            "a",
            "c",
        ]
        if arango.is_double:
            assert not any(
                "@@view" in text for text in arango.call("GET", "/_double/stats")["queries"]
            )
        page = await source.get_nodes("flow", limit=2)
        assert [node.key for node in page] == ["B", "a"]
        assert [node.key for node in await source.get_nodes("flow", after="a", limit=2)] == ["c"]
