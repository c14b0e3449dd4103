"""The way to a server: no write is sent twice, waits are bounded, errors are ours and
say no secret.
"""

import datetime
import inspect
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from arango import exceptions as theirs
from arango.exceptions import ArangoError, ArangoServerError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from datasources import errors
from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.connection import READ_ATTEMPTS, ArangoConnection
from datasources.arango.errors import ServerRefused, WriteConflict, translate
from datasources.arango.setup import version_of
from datasources.arango.statements import Statement
from datasources.arango.statements_write import SET_VERSION
from tests.datasources.arango.test_server_version import a_server
from tests.support.arango import ArangoServer

PING = Statement("RETURN 1")


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[ArangoConnection]:
    connection = ArangoConnection(parse_address(address))
    try:
        yield connection
    finally:
        await connection.close()


def cursors(server: ArangoServer) -> int:
    return sum(count for path, count in server.count().items() if path.endswith("/_api/cursor"))


@pytest.mark.parametrize("fault", ["drop", "drop-after", "status:503"])
async def test_a_read_is_asked_again_a_write_is_not(
    arango_faults: ArangoServer, one_database: str, fault: str
) -> None:
    async with connected(arango_faults.address(one_database)) as connection:
        arango_faults.inject("_api/cursor", fault)
        assert await connection.query(PING) == [1]
        assert cursors(arango_faults) == 2
        arango_faults.forget_counts()
        arango_faults.inject("_api/cursor", fault)
        with pytest.raises(errors.SourceUnavailable):
            await connection.query(SET_VERSION, version=1)
        assert cursors(arango_faults) == 1


async def test_reading_is_given_up_after_a_few_times(
    arango_faults: ArangoServer, one_database: str
) -> None:
    async with connected(arango_faults.address(one_database)) as connection:
        arango_faults.inject("_api/cursor", "drop", times=50)
        with pytest.raises(errors.SourceUnavailable, match="broke before an answer came"):
            await connection.query(PING)
        assert cursors(arango_faults) == READ_ATTEMPTS


async def test_a_slow_answer_is_a_timeout_and_not_asked_for_again(
    arango_faults: ArangoServer, one_database: str
) -> None:
    async with connected(arango_faults.address(one_database, options="?timeout=0.2")) as connection:
        arango_faults.inject("_api/cursor", "delay:600", times=9)
        with pytest.raises(errors.SourceTimeout) as late:
            await connection.query(PING)
        assert late.value.seconds == 0.2
        assert cursors(arango_faults) == 1


async def test_a_write_that_lost_a_race_runs_again(
    arango_faults: ArangoServer, one_database: str
) -> None:
    async with connected(arango_faults.address(one_database)) as connection:
        arango_faults.inject("_api/cursor", "error:1200", times=3)
        assert await connection.query(SET_VERSION, version=1) == [1]
        assert cursors(arango_faults) == 4
        arango_faults.inject("_api/cursor", "error:1200", times=99)
        with pytest.raises(WriteConflict):
            await connection.query(SET_VERSION, version=1)


async def test_a_lost_cursor_is_opened_again(
    arango_faults: ArangoServer, one_database: str
) -> None:
    async with connected(arango_faults.address(one_database)) as connection:
        arango_faults.inject("_api/cursor", "error:1600")
        assert await connection.query(PING) == [1]


async def test_the_next_host_is_asked_when_one_is_gone(
    arango_faults: ArangoServer, one_database: str
) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening: connections are refused
        gone = f"127.0.0.1:{taken.getsockname()[1]}"
        address = arango_faults.address(one_database, place=f"{gone},{arango_faults.place}")
        async with connected(address) as connection:
            assert await connection.query(SET_VERSION, version=1) == [1]
            assert cursors(arango_faults) == 1


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


async def test_a_server_that_never_answers_is_left(silent: str) -> None:
    async with connected(f"arango+http://u:hidden@{silent}/db?timeout=0.2") as connection:
        with pytest.raises(errors.SourceTimeout):
            await connection.query(PING)


async def test_wrong_passwords_and_missing_databases_are_distinguished(
    arango: ArangoServer,
) -> None:
    wrong = replace(arango, password="wrong-password").address("nodius")
    async with connected(wrong) as connection:
        with pytest.raises(ServerRefused, match="refuses the sign-in"):
            await connection.query(PING)
    async with connected(arango.address("no-such-database")) as connection:
        with pytest.raises(errors.DatabaseUnprepared, match="nodius db init"):
            await connection.query(PING)


async def test_no_secret_and_no_data_is_logged_or_said(
    arango_faults: ArangoServer, one_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(arango_faults.address(one_database)) as connection:
        arango_faults.inject("_api/cursor", "error:1501")
        with pytest.raises(ServerRefused) as refused:
            await connection.query(PING)
    said = f"{refused.value} {caplog.text}"
    assert arango_faults.password not in said
    assert "RETURN" not in str(refused.value)
    assert refused.value.code == 1501


async def test_a_closed_connection_says_so(arango: ArangoServer, one_database: str) -> None:
    async with connected(arango.address(one_database)) as connection:
        pass
    with pytest.raises(errors.SourceUnavailable, match="not open"):
        await connection.query(PING)
    assert not [t for t in threading.enumerate() if t.name.startswith("arango") and t.is_alive()]
    with pytest.raises(errors.SourceUnavailable, match="not open"):
        ArangoDatabase(parse_address(arango.address(one_database))).source("acme")


def their_exceptions() -> list[type[BaseException]]:
    found = [
        kind
        for _, kind in inspect.getmembers(theirs, inspect.isclass)
        if issubclass(kind, ArangoError)
    ]
    requested = [kind for _, kind in inspect.getmembers(requests.exceptions, inspect.isclass)]
    return [*found, *(kind for kind in requested if issubclass(kind, requests.RequestException))]


@pytest.mark.parametrize(
    "kind", [*their_exceptions(), OSError, TimeoutError, ConnectionAbortedError]
)
def test_every_exception_of_the_libraries_becomes_one_of_ours(kind: type[Exception]) -> None:
    exc = kind.__new__(kind)
    if isinstance(exc, ArangoServerError):
        exc.error_code, exc.http_code, exc.error_message = 1202, 404, "document not found"
    ours = translate(exc, source="arango+http://u@h/db", timeout_s=3)
    assert isinstance(ours, errors.SourceError)
    assert "arango+http://u@h/db" in str(ours)
    assert isinstance(ours, errors.SourceTimeout) == issubclass(
        kind, requests.Timeout | TimeoutError
    )


def test_an_address_says_where_and_who() -> None:
    address = parse_address("arango+http://ann:p%40ss%2F@db.example:8530/graphs")
    assert address.hosts == ("http://db.example:8530",)
    assert (address.database, address.user, address.password) == ("graphs", "ann", "p@ss/")
    assert (address.verify, address.timeout_s) == (True, 30.0)
    assert address.shown == "arango+http://ann@db.example:8530/graphs"
    assert "p@ss" not in repr(address)


def test_several_hosts_are_one_deployment() -> None:
    address = parse_address("arango+http://a:1,b,[::1]:3/graphs?timeout=2.5&verify=no")
    assert (address.user, address.password) == ("root", "")
    assert address.hosts == ("http://a:1", "http://b:8529", "http://[::1]:3")
    assert address.shown == "arango+http://root@a:1,b:8529,[::1]:3/graphs"
    assert (address.timeout_s, address.verify) == (2.5, False)


def test_a_password_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    authority = tmp_path / "ca.pem"
    authority.touch()
    file.write_text("p%40 ss\n")
    address = parse_address(f"arango+http://u@h/db?password_file={file}&verify={authority}")
    assert (address.password, address.verify) == ("p%40 ss", str(authority))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("arango://u:hidden@h/db", "unknown scheme"),
        ("arango+http://u:hidden@h", "must read"),
        ("arango+http://u:hidden@h/", "must read"),
        ("arango+http:///db", "must read"),
        ("arango+http://u:hidden@h/db/more", "must read"),
        ("arango+http://u:hidden@h:port/db", "port"),
        ("arango+http://u:hidden@a,,b/db", "host"),
        ("arango+http://u:hidden@h/db?tls=no", "unknown option 'tls'"),
        ("arango+http://u:hidden@h/db?timeout=soon", "timeout"),
        ("arango+http://u:hidden@h/db?timeout=0", "timeout"),
        ("arango+http://u:hidden@h/db?timeout=nan", "timeout"),
        ("arango+http://u:hidden@h/db?password_file=/no/such/file", "cannot be read"),
    ],
)
def test_a_wrong_address_says_what_is_wrong_and_no_password(url: str, reason: str) -> None:
    with pytest.raises(errors.InvalidDatabaseUrl, match=reason) as refused:
        parse_address(url)
    assert "hidden" not in str(refused.value)
    assert "arango+http://USER:PASSWORD@HOST:8529/DATABASE" in str(refused.value)


def _self_signed(folder: Path) -> Path:
    """Write a certificate of 127.0.0.1 and its key to a file; it is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a database")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "certificate.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return file


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return _self_signed(tmp_path)


@pytest.fixture
def address(certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with a_server("3.12.11", context) as address:
        yield address


async def version_at(address: str) -> tuple[int, ...]:
    connection = ArangoConnection(parse_address(address))
    try:
        return await connection.run(version_of)
    finally:
        await connection.close()


async def test_a_server_is_trusted_by_its_authority_or_unchecked_on_request(
    address: str, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for options in (f"?verify={certificate}", "?verify=no"):
        caplog.clear()
        assert await version_at(address + options) == (3, 12, 11)
        assert ("certificate_not_checked" in caplog.messages) == options.endswith("no")


async def test_a_server_that_nobody_vouches_for_is_refused_and_gets_no_password(
    address: str,
) -> None:
    for options in ("", "?verify=yes"):
        with pytest.raises(
            errors.SourceUnavailable, match=r"not trusted.*\?verify=PATH"
        ) as refused:
            await version_at(address + options)  # the greeting fails: nothing was sent
        assert "hidden" not in str(refused.value)


def test_an_authority_whose_file_is_not_there_is_said_by_name(tmp_path: Path) -> None:
    for scheme in ("arango+http", "arango+https"):
        with pytest.raises(errors.InvalidDatabaseUrl, match=r"no file '.*missing\.pem'") as refused:
            parse_address(f"{scheme}://u:hidden@host/db?verify={tmp_path / 'missing.pem'}")
        assert "hidden" not in str(refused.value)
