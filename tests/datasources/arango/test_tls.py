"""TLS on the way to a server: the certificate is checked, against an authority's file where one is given."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from datasources.arango import ArangoDatabase, parse_address
from datasources.errors import InvalidDatabaseUrl, SourceUnavailable
from tests.support.arango import ArangoServer

CHUNK = 65_536


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


class Tunnel:
    """Takes TLS connections and forwards what they carry. Use as a context manager."""

    def __init__(self, certificate: Path, target: tuple[str, int]) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.target = target
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.ended = threading.Event()
        self.open: list[socket.socket] = []
        self.threads: list[threading.Thread] = []

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.listening.getsockname()[1]}"

    def _run(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self.threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.ended.is_set():
            with suppress(OSError):  # who does not trust us goes in the middle of the greeting
                plain, _ = self.listening.accept()
                outside = self.context.wrap_socket(plain, server_side=True)
                inside = socket.create_connection(self.target)
                for each in (outside, inside):  # nothing waits to be sent together with more
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.open += [outside, inside]
                self._run(self._carry, outside, inside)
                self._run(self._carry, inside, outside)

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(CHUNK):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Tunnel:
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.listening.shutdown(socket.SHUT_RDWR)
        for each in self.open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10)
        for each in (self.listening, *self.open):
            each.close()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return _self_signed(tmp_path)


@pytest.fixture
def tunnel(arango: ArangoServer, certificate: Path) -> Iterator[Tunnel]:
    host, _, port = arango.place.partition(":")
    with Tunnel(certificate, (host, int(port))) as tunnel:
        yield tunnel


def secure(server: ArangoServer, tunnel: Tunnel, database: str, options: str) -> str:
    plain = server.address(database, place=tunnel.place, options=options)
    return plain.replace("arango+http://", "arango+https://", 1)


async def test_a_server_is_trusted_by_its_authority_or_unchecked_on_request(
    arango: ArangoServer,
    one_database: str,
    tunnel: Tunnel,
    certificate: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for options in (f"?verify={certificate}", "?verify=no"):
        caplog.clear()
        async with ArangoDatabase(parse_address(secure(arango, tunnel, one_database, options))) as database:
            assert (await database.check())[0].name == "server"
        assert ("certificate_not_checked" in caplog.messages) == options.endswith("no")


async def test_a_server_that_nobody_vouches_for_is_refused_and_gets_no_password(
    arango: ArangoServer, one_database: str, tunnel: Tunnel
) -> None:
    for options in ("", "?verify=yes"):
        with pytest.raises(SourceUnavailable, match=r"not trusted.*\?verify=PATH") as refused:
            await ArangoDatabase(parse_address(secure(arango, tunnel, one_database, options))).__aenter__()
        assert arango.password not in str(refused.value)
    assert tunnel.open == []


def test_an_authority_whose_file_is_not_there_is_said_by_name(arango: ArangoServer, tmp_path: Path) -> None:
    for scheme in ("arango+http", "arango+https"):
        with pytest.raises(InvalidDatabaseUrl, match=r"no file '.*missing\.pem'") as refused:
            parse_address(f"{scheme}://u:hidden@host/db?verify={tmp_path / 'missing.pem'}")
        assert "hidden" not in str(refused.value)
