"""Key sets over HTTP, from an issuer on this computer that may change its keys, fail, stall
or never end.
"""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from server.auth import Authenticator
from server.errors import AuthError, KeysUnavailable
from server.jwks import FRESH_S, MAX_BYTES, PAUSE_S, TIMEOUT_S, KeySet
from tests.support.rsa_keys import FIRST, SECOND
from tests.support.service import error_of, service, settings_of

OLD = FIRST
NEW = SECOND
SOON_S = 0.1
"""What never ends is given up after so long."""


def key_set(**keys: rsa.RSAPrivateKey) -> bytes:
    """Return the document of a key set, by key id."""
    to_jwk = jwt.algorithms.RSAAlgorithm.to_jwk
    listed = [{**to_jwk(key.public_key(), as_dict=True), "kid": kid} for kid, key in keys.items()]
    return json.dumps({"keys": listed}).encode()


def signed(key: rsa.RSAPrivateKey, kid: str, **claims: Any) -> str:
    now = int(time.time())
    made = {"sub": "ed", "roles": ["editor"], "workspaces": ["default"], "exp": now + 60, **claims}
    return jwt.encode(made, key, algorithm="RS256", headers={"kid": kid})


@dataclass
class Issuer:
    """Answers every request alike. `endless` repeats the body for ever; `stalls` never ends it."""

    address: str = ""
    body: bytes = b""
    status: int = 200
    headers: Sequence[str] = ()
    endless: bool = False
    stalls: bool = False
    requests: int = 0
    sent: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {self.status} X", "Connection: close", *self.headers]
        if not self.endless and not self.stalls:
            lines.append(f"Content-Length: {len(self.body)}")
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + self.body)
            await writer.drain()
            while self.endless:
                writer.write(self.body)
                self.sent += len(self.body)
                await writer.drain()
            if self.stalls:
                await self.over.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client had enough
        finally:
            writer.close()


@asynccontextmanager
async def issuer(**given: Any) -> AsyncIterator[Issuer]:
    made = Issuer(**given)
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    async with server:
        try:
            yield made
        finally:
            made.over.set()


async def test_keys_change_while_the_service_runs() -> None:
    async with (
        issuer(body=key_set(old=OLD)) as it,
        service(auth_secret=None, auth_jwks=it.address) as running,
    ):
        async with running.client(signed(OLD, "old")) as ed:
            assert (await ed.get("/api/me")).json()["userId"] == "ed"
            assert (await ed.get("/api/me")).status_code == 200
        assert it.requests == 1
        it.body = key_set(old=OLD, new=NEW)
        async with running.client(signed(NEW, "new")) as ed:
            assert error_of(await ed.get("/api/me"))["code"] == "unauthorized"  # just looked
        assert it.requests == 1


async def test_a_new_key_is_fetched_a_withdrawn_one_forgotten_and_a_forged_one_not_asked_for_each_time() -> (
    None
):
    now = 1000.0
    async with issuer(body=key_set(old=OLD)) as it:
        keys = KeySet(it.address, clock=lambda: now)
        assert await keys.key("old") == OLD.public_key()
        it.body = key_set(new=NEW)
        now += PAUSE_S
        assert await keys.key("new") == NEW.public_key()
        with pytest.raises(AuthError):
            await keys.key("old")
        for number in range(50):
            with pytest.raises(AuthError):
                await keys.key(f"forged{number}")
        assert it.requests == 2
        now += FRESH_S
        assert await keys.key("new") == NEW.public_key()
        assert it.requests == 3


async def test_many_callers_at_once_fetch_the_keys_once() -> None:
    async with issuer(body=key_set(old=OLD)) as it:
        keys = KeySet(it.address)
        found = await asyncio.gather(*(keys.key("old") for _ in range(20)))
        assert len(found) == 20
        assert it.requests == 1


@pytest.mark.parametrize(
    "broken",
    [
        {"status": 500},
        {"status": 302, "headers": ["Location: http://127.0.0.1:1/keys"]},
        {"body": b"{"},
        {"body": b"[]"},
        {"body": b'{"keys": []}'},
        {"body": b'{"keys": [{"kty": "RSA"}]}'},
        {"body": b"x" * 70_000, "endless": True},
        {"body": b'{"keys": ', "stalls": True},
        {"body": gzip.compress(b" " * MAX_BYTES), "headers": ["Content-Encoding: gzip"]},
    ],
)
async def test_a_broken_issuer_lets_nobody_in_and_locks_nobody_out(broken: dict[str, Any]) -> None:
    now = 1000.0
    async with issuer(**broken) as it:
        never_ends = "stalls" in broken or "endless" in broken
        keys = KeySet(it.address, clock=lambda: now, timeout_s=SOON_S if never_ends else TIMEOUT_S)
        with pytest.raises(KeysUnavailable):
            await keys.key("old")
        keys._timeout_s = TIMEOUT_S
        assert it.sent < 64 * MAX_BYTES
        good = {
            "status": 200,
            "headers": (),
            "endless": False,
            "stalls": False,
            "body": key_set(old=OLD),
        }
        _set(it, good)
        now += PAUSE_S
        assert await keys.key("old") == OLD.public_key()
        _set(it, broken)
        keys._timeout_s = SOON_S if never_ends else TIMEOUT_S
        now += FRESH_S
        assert await keys.key("old") == OLD.public_key()


def _set(it: Issuer, given: dict[str, Any]) -> None:
    for name, value in given.items():
        setattr(it, name, value)


async def test_an_issuer_that_is_not_there_is_a_service_that_is_unavailable_for_now() -> None:
    async with issuer() as it:
        gone = it.address
    async with (
        service(auth_secret=None, auth_jwks=gone) as running,
        running.client(signed(OLD, "old")) as ed,
    ):
        error = error_of(await ed.get("/api/me"))
        assert (error["code"], error["retryable"]) == ("unavailable", True)


@pytest.mark.parametrize(
    ("leeway_s", "claims_s", "accepted"),
    [
        (30, {"exp": -20}, True),
        (30, {"exp": -40}, False),
        (0, {"exp": -2}, False),
        (30, {"nbf": 20}, True),
        (30, {"nbf": 60}, False),
        (30, {"iat": 20}, True),
        (30, {"iat": 60}, False),
    ],
)
async def test_clocks_may_differ_by_so_much_and_no_more(
    leeway_s: int, claims_s: dict[str, int], accepted: bool
) -> None:
    now = int(time.time())
    async with issuer(body=key_set(old=OLD)) as it:
        settings = settings_of(auth_secret=None, auth_jwks=it.address, auth_leeway_s=leeway_s)
        authenticator = Authenticator(settings)
        bearer = signed(OLD, "old", **{name: now + s for name, s in claims_s.items()})
        if accepted:
            assert (await authenticator.authenticate(bearer)).user_id == "ed"
        else:
            with pytest.raises(AuthError):
                await authenticator.authenticate(bearer)
