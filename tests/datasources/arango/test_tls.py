"""TLS on the way to a server: the certificate is checked, against an authority's file where one is given."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from datasources.arango import parse_address
from datasources.arango.connection import ArangoConnection
from datasources.arango.setup import version_of
from datasources.errors import InvalidDatabaseUrl, SourceUnavailable
from tests.datasources.arango.test_server_version import a_server


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


async def test_a_server_that_nobody_vouches_for_is_refused_and_gets_no_password(address: str) -> None:
    for options in ("", "?verify=yes"):
        with pytest.raises(SourceUnavailable, match=r"not trusted.*\?verify=PATH") as refused:
            await version_at(address + options)  # the greeting fails: nothing was sent
        assert "hidden" not in str(refused.value)


def test_an_authority_whose_file_is_not_there_is_said_by_name(tmp_path: Path) -> None:
    for scheme in ("arango+http", "arango+https"):
        with pytest.raises(InvalidDatabaseUrl, match=r"no file '.*missing\.pem'") as refused:
            parse_address(f"{scheme}://u:hidden@host/db?verify={tmp_path / 'missing.pem'}")
        assert "hidden" not in str(refused.value)
