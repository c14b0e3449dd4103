"""Whatever goes wrong on the way to a server: no password is said, logged or left in
an error's causes.
"""

import base64
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.setup import set_up
from datasources.base import Record
from datasources.errors import InvalidDatabaseUrl, SourceError
from datasources.types import Mutation
from tests.contracts.samples import FLOW, WORKSPACE, a_node, make_flow
from tests.support.arango import ArangoServer, running_double

PASSWORD = "h/dden:p%ss?w@rd#"
"""What has to be written otherwise in an address, in JSON and in a header."""

FAULTS = ["drop", "drop-after", "status:503", "status:500", "error:1200", "error:1501", "error:11"]


@pytest.fixture(scope="module")
def server() -> Iterator[ArangoServer]:
    """A double of its own, with that password."""
    with running_double(PASSWORD) as made:
        yield made


def secrets_in(text: str) -> list[str]:
    login = base64.b64encode(f"root:{PASSWORD}".encode()).decode()
    return [form for form in (PASSWORD, quote(PASSWORD, safe=""), login) if form in text]


@pytest.mark.slow
async def test_no_fault_brings_the_password_to_light(
    server: ArangoServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    name = server.fresh()
    async with ArangoDatabase(parse_address(server.address(name)), prepared=False) as database:
        await set_up(database.state.connection)
        await make_flow(database)
        for fault in FAULTS:
            for work in (
                database.source(WORKSPACE).get_nodes(FLOW),
                database.source(WORKSPACE).apply(
                    Mutation(graph_key=FLOW, put_nodes=[a_node(fault)])
                ),
                database.records(WORKSPACE).put(
                    Record(kind="lease", key=fault, data={}), expected_version=None
                ),
            ):
                server.inject("/_db/", fault, 3)
                try:
                    await work
                except SourceError as exc:
                    said += [repr(exc), *traceback.format_exception(exc)]
                server.heal()
    assert len(said) > len(FAULTS)
    assert "transaction_again" in caplog.text
    assert secrets_in("".join(said)) == []
    assert (
        secrets_in(caplog.text + "".join(repr(record.__dict__) for record in caplog.records)) == []
    )


@pytest.mark.parametrize(
    "address",
    [
        f"arango+http://root:{PASSWORD}@127.0.0.1:1/nodius",
        "arango+http://root:h/dden@127.0.0.1",
        "arango+http://root:a#h/dden@127.0.0.1/nodius",
        "arango+http://root:a?h/dden@127.0.0.1/nodius",
        "arango+http:root:h/dden@127.0.0.1/nodius",
        "arango+http://root:h/dden@[::1/nodius",
        "arango+http://root:a@h/dden@127.0.0.1/nodius",
    ],
)
def test_a_password_that_is_not_encoded_is_not_shown_with_what_is_wrong(address: str) -> None:
    with pytest.raises(InvalidDatabaseUrl) as refused:
        parse_address(address)
    said = str(refused.value)
    assert "dden" not in said
    assert "%2F" in said or "must read" in said


@pytest.mark.slow
def test_an_at_sign_in_the_path_of_a_file_needs_no_encoding(tmp_path: Path) -> None:
    file = tmp_path / "me@here"
    file.write_text("hidden\n")
    assert parse_address(f"arango+http://root@h/db?password_file={file}").password == "hidden"
