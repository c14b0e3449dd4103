"""What may stand in front of a workflow server: a certificate of its own, a page to sign in."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.raw_api import answer, raw_api

PAGE = b"<!doctype html><title>Sign in</title><form method=post action=/login>"
SIGN_IN = {
    "a page": answer(PAGE, content_type="text/html"),
    "a redirect": answer(status=302, Location="https://login.example/?next=/"),
    "a refusal with a page": answer(PAGE, 401, content_type="text/html"),
    "a prohibition with a page": answer(PAGE, 403, content_type="text/html"),
}
"""How proxies answer whoever has not signed in."""


def own_certificate(file: Path) -> Path:
    """Writes a certificate for 127.0.0.1 that nobody signed, with its key; returns the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own.example")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return file


@asynccontextmanager
async def tls_front(upstream: str, certificate: Path) -> AsyncGenerator[str]:
    """Yields the https address at which the server at `upstream` answers, too."""
    parts = urlsplit(upstream)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(_copied(reader, up_writer), _copied(up_reader, writer))

    server = await asyncio.start_server(answer_one, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes bytes on until there are no more."""
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def fronts(upstream: str, certificate: Path) -> AsyncGenerator[dict[str, str]]:
    """Yields addresses in front of the server at `upstream` by what is there."""
    async with AsyncExitStack() as stack:
        found = {
            "own certificate": await stack.enter_async_context(tls_front(upstream, certificate))
        }
        for name, page in SIGN_IN.items():
            api = await stack.enter_async_context(raw_api())
            api.answers = [page]
            found[name] = api.url
        elsewhere = await stack.enter_async_context(raw_api())
        elsewhere.answers = [answer({"error": "no such path"}, 404)]
        found["another service"] = elsewhere.url
        yield found
