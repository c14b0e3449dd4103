"""The signature of requests: what the vendor's own validator takes, and nothing else."""

import base64
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlparse

import pytest
from starlette.requests import HTTPConnection
from twilio.request_validator import HMAC_SHA1, HMAC_SHA256, RequestValidator, add_port, remove_port

from server.errors import ForeignPage, SignatureRefused
from server.voice.twilio_signature import (
    SETTINGS_HEADER,
    SIGNATURE_HEADER,
    Form,
    TwilioSignature,
    signature_of,
)

TOKEN, SHARED = "an auth token", "a shared secret"
HOST = "voice.example.com"


class Values(dict[str, list[str]]):
    """A form as the vendor's validator reads one with several values of a name."""

    def getlist(self, name: str) -> list[str]:
        return self[name]


def connection(
    path: str, signature: str, *, kind: str = "http", settings: str = "", host: str = "evil.example"
) -> HTTPConnection:
    """A request as the server gets it, from elsewhere and under another name."""
    path, _, query = path.partition("?")
    headers = [(b"host", host.encode()), (SIGNATURE_HEADER.lower().encode(), signature.encode())]
    if settings:
        headers.append((SETTINGS_HEADER.lower().encode(), settings.encode()))
    scope: dict[str, Any] = {
        "type": kind, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": headers, "client": ("203.0.113.9", 1),
    }  # fmt: skip
    return HTTPConnection(scope)


def checker(public_url: str | None) -> TwilioSignature:
    return TwilioSignature(public_url=public_url, auth_token=TOKEN, shared_keys={"wk_1": SHARED})


def is_let_in(signature: TwilioSignature, asked: HTTPConnection, form: Form = ()) -> bool:
    try:
        signature.check(asked, form)
    except SignatureRefused:
        return False
    return True


def requests(count: int) -> Iterator[tuple[str, str, list[tuple[str, str]], str]]:
    """Yield public address, path, form and algorithm of requests made at random."""
    chance = random.Random(7)
    letters = "abcXYZ 0123+%&=é你🙂<>\"'"

    def word(most: int) -> str:
        return "".join(chance.choice(letters) for _ in range(chance.randrange(most)))

    for _ in range(count):
        scheme = chance.choice(("https", "https", "http"))
        port = chance.choice(("", "", ":8443", ":443", ":80"))
        prefix = chance.choice(("", "/base"))
        path = f"/voice/default/{chance.choice(('desk', 'a%20b', 'é'.encode().hex()))}"
        query = chance.choice(("", "", "?" + urlencode({"workspace": word(8), "b": "1"})))
        names = [word(6) for _ in range(chance.randrange(6))]
        form = (
            [(chance.choice(names), word(9)) for _ in range(chance.randrange(9))] if names else []
        )
        yield (
            f"{scheme}://{HOST}{port}{prefix}",
            path + query,
            form,
            chance.choice((HMAC_SHA1, HMAC_SHA256)),
        )


def vendor_form(form: list[tuple[str, str]]) -> Values:
    found = Values()
    for name, value in form:
        found.setdefault(name, []).append(value)
    return found


def test_it_takes_what_the_vendors_validator_takes_and_refuses_one_byte_changed() -> None:
    chance = random.Random(8)
    for public, path, form, algorithm in requests(1_000):
        secret = TOKEN if algorithm == HMAC_SHA1 else SHARED
        settings = "" if algorithm == HMAC_SHA1 else f"key=wk_1,algorithm={algorithm}"
        vendor = RequestValidator(secret)
        ours = checker(public)
        parsed = urlparse(public + path)
        url = chance.choice((public + path, add_port(parsed), remove_port(parsed)))
        signature = vendor.compute_signature(url, vendor_form(form), algorithm)
        assert vendor.validate(public + path, vendor_form(form), signature, algorithm)
        assert is_let_in(ours, connection(path, signature, settings=settings), form), (url, form)
        raw = bytearray(base64.b64decode(signature))
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        forged = base64.b64encode(raw).decode()
        assert not is_let_in(ours, connection(path, forged, settings=settings), form)
        changed = [*form[:-1], (form[-1][0], form[-1][1] + "x")] if form else [("a", "b")]
        assert not is_let_in(ours, connection(path, signature, settings=settings), changed)
        other = path.replace("/voice/", "/voicE/")
        assert not is_let_in(ours, connection(other, signature, settings=settings), form)


@pytest.mark.parametrize(
    "signed", [
    f"wss://{HOST}/voice/stream", f"wss://{HOST}/voice/stream/", f"https://{HOST}/voice/stream",
    f"https://{HOST}/voice/stream/", f"wss://{HOST}:443/voice/stream", f"https://{HOST}:443/voice/stream",
])  # fmt: skip
def test_a_websocket_may_be_signed_in_any_of_its_spellings(signed: str) -> None:
    signature = RequestValidator(TOKEN).compute_signature(signed, {})
    assert is_let_in(
        checker(f"https://{HOST}"), connection("/voice/stream", signature, kind="websocket")
    )
    elsewhere = RequestValidator(TOKEN).compute_signature(signed.replace(HOST, "other.example"), {})
    assert not is_let_in(
        checker(f"https://{HOST}"), connection("/voice/stream", elsewhere, kind="websocket")
    )


@pytest.mark.parametrize(
    "settings", [
    "key=wk_2,algorithm=HMAC_SHA256", "key=wk_1,algorithm=HMAC_MD5", "algorithm=HMAC_SHA256",
    "key=wk_2,algorithm=HMAC_SHA1", "key=,algorithm=HMAC_SHA256",
])  # fmt: skip
def test_a_key_or_an_algorithm_that_is_not_ours_is_refused(settings: str) -> None:
    for secret in (TOKEN, SHARED, ""):
        for algorithm in ("sha1", "sha256", "md5"):
            signature = signature_of(secret, f"https://{HOST}/voice/a/b", [], algorithm)
            asked = connection("/voice/a/b", signature, settings=settings)
            assert not is_let_in(checker(f"https://{HOST}"), asked)


def test_without_a_public_address_nothing_is_taken_for_signed() -> None:
    signature = signature_of(TOKEN, f"https://{HOST}/voice/a/b", [])
    assert not is_let_in(checker(None), connection("/voice/a/b", signature, host=HOST))


def test_without_a_token_only_this_computer_is_let_in() -> None:
    bare = TwilioSignature(public_url=None, auth_token=None)
    with pytest.raises(ForeignPage):
        bare.check(connection("/voice/a/b", ""))
