"""The name of a host is what its certificate is verified for, whatever address is connected to."""

import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.raw_api import raw_api
from tests.tools.http.test_fetch import LyingNames, failing, request
from tools.http.addresses import AddressRules, Origin
from tools.http.fetch import HttpClient


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of its own for shop.example, with its key."""
    file = tmp_path_factory.mktemp("tls") / "shop.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    made += [
        "-keyout",
        str(file) + ".key",
        "-out",
        str(file),
        "-days",
        "30",
        "-subj",
        "/CN=shop.example",
    ]
    subprocess.run(
        [*made, "-addext", "subjectAltName=DNS:shop.example"], check=True, capture_output=True
    )
    file.write_bytes(file.read_bytes() + Path(str(file) + ".key").read_bytes())
    return file


@pytest.mark.parametrize(
    ("host", "trusted", "reached"),
    [("shop.example", True, True), ("other.example", True, False), ("shop.example", False, False)],
)
async def test_the_name_is_what_a_certificate_is_verified_for(
    certificate: Path, host: str, trusted: bool, reached: bool
) -> None:
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate)
    seen: list[str | None] = []
    serving.sni_callback = lambda _socket, name, _context: seen.append(name)
    trusting = ssl.create_default_context(cafile=str(certificate)) if trusted else None
    async with raw_api(ssl=serving) as api:
        rules = AddressRules(allow=(host,), resolver=LyingNames(["127.0.0.1"]))
        client = HttpClient(rules, ssl_context=trusting)
        asked = replace(
            request(api, "POST"), origin=Origin(scheme="https", host=host, port=api.port)
        )
        if reached:
            assert (await client.send(asked)).status == 200
        else:
            failed = await failing(client, replace(asked, retries=0))
            assert (failed.code, failed.sent) == ("unreachable", False)
        assert seen == [host]
        assert len(api.got) == int(reached)
        await client.aclose()
