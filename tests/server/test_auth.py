"""Who a token makes somebody, and which tokens make nobody anybody."""

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from graphrag.config import SettingsError
from server.auth import Authenticator, identity_of
from server.errors import AuthError, RoleNeeded
from tests.support.rsa_keys import FIRST, SECOND
from tests.support.service import SECRET, service, settings_of, token

PRIVATE = FIRST
OTHER = SECOND
PEM = PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def claims(**more: Any) -> dict[str, Any]:
    return {
        "sub": "ed",
        "roles": ["editor"],
        "workspaces": ["w"],
        "exp": int(time.time()) + 7_200,
        **more,
    }


def signed(
    key: Any = PRIVATE, algorithm: str = "RS256", kid: str | None = None, **more: Any
) -> str:
    return jwt.encode(
        claims(**more), key, algorithm=algorithm, headers={"kid": kid} if kid else None
    )


def jwk(key: rsa.RSAPrivateKey, kid: str, **more: Any) -> dict[str, Any]:
    return {
        **jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True),
        "kid": kid,
        **more,
    }


async def refused(authenticator: Authenticator, given: str | None) -> str:
    with pytest.raises(AuthError) as caught:
        await authenticator.authenticate(given)
    return caught.value.code


HS = Authenticator(settings_of())


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (None, "no_token"),
        ("", "no_token"),
        ("x", "token_malformed"),
        ("a.b.c", "token_malformed"),
        ("é.é.é", "token_malformed"),
        ("a" * 20_000, "token_malformed"),
        (token(exp=int(time.time()) - 9_000), "token_expired"),
        (token(nbf=int(time.time()) + 9_000), "token_early"),
        (token(iat=int(time.time()) + 9_000), "token_early"),
        (token(exp=None), "token_claims"),
        (token(exp=1e400), "token_malformed"),
        (token(exp="soon"), "token_malformed"),
        (token(sub=None), "token_claims"),
        (token(sub=["ed"]), "token_claims"),
        (token(sub="a\nb"), "token_claims"),
        (token(sub="caller:call_1"), "token_claims"),
        (token(workspaces=[]), "token_claims"),
        (token(workspaces=[{}]), "token_claims"),
        (token(workspaces=[f"w{i}" for i in range(101)]), "token_claims"),
        (jwt.encode(claims(), "x" * 40, algorithm="HS256"), "token_signature"),
        (jwt.encode(claims(), SECRET * 2, algorithm="HS512"), "token_algorithm"),
        (jwt.encode(claims(), None, algorithm="none"), "token_algorithm"),
        (signed(), "token_algorithm"),
    ],
)
async def test_a_token_that_is_not_good_is_refused_with_the_reason(
    given: str | None, code: str
) -> None:
    assert await refused(HS, given) == code


@given(position=st.integers(min_value=0), letter=st.sampled_from("ABCxyz019-_"))
async def test_a_token_that_was_changed_anywhere_is_refused(position: int, letter: str) -> None:
    good = token()
    place = position % len(good)
    changed = good[:place] + letter + good[place + 1 :]
    parts = good.split(".")
    others = changed.split(".")
    if len(parts) == len(others) and all(
        _raw(a) == _raw(b) for a, b in zip(parts, others, strict=True)
    ):
        return  # the last letter of a part holds bits that mean nothing
    with pytest.raises(AuthError):
        await HS.authenticate(changed)


def _raw(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_claims_are_read_in_the_forms_that_issuers_use() -> None:
    found = identity_of({"userId": 7, "workspace": "w", "role": "admin", "name": "Ed"})
    assert (found.user_id, found.workspaces, found.role, found.username) == (
        "7",
        ("w",),
        "admin",
        "Ed",
    )
    found = identity_of(
        {"sub": "a", "workspaces": ["w", "w", "v"], "roles": ["viewer", "reviewer", "boss"]}
    )
    assert (found.workspaces, found.role, found.username) == (("w", "v"), "reviewer", "a")


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.integers(),
        st.lists(st.one_of(st.text(), st.none(), st.booleans())),
    )
)
def test_a_role_that_nobody_knows_only_reads(roles: Any) -> None:
    known = {"viewer", "editor", "reviewer", "admin"}
    named = {
        item for item in (roles if isinstance(roles, list) else [roles]) if isinstance(item, str)
    }
    found = identity_of({"sub": "a", "workspaces": ["w"], "roles": roles})
    if not named & known:
        assert found.role == "viewer"
        with pytest.raises(RoleNeeded):
            found.require("editor")


async def test_a_public_key_checks_tokens_and_is_no_secret() -> None:
    by_text = Authenticator(settings_of(auth_secret=None, auth_public_key=PEM))
    assert (await by_text.authenticate(signed())).workspaces == ("w",)
    assert await refused(by_text, signed(OTHER)) == "token_signature"
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=").decode()
    body = signed().split(".")[1]
    digest = hmac.new(PEM.encode(), f"{header}.{body}".encode(), hashlib.sha256).digest()
    forged = f"{header}.{body}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    assert await refused(by_text, forged) == "token_algorithm"


async def test_issuer_and_audience_must_be_those_configured() -> None:
    strict = Authenticator(settings_of(auth_issuer="https://issuer", auth_audience="nodius"))
    assert await refused(strict, token()) == "token_claims"
    assert await refused(strict, token(iss="https://other", aud="nodius")) == "token_claims"
    assert await refused(strict, token(iss="https://issuer", aud="others")) == "token_claims"
    assert (
        await strict.authenticate(token(iss="https://issuer", aud=["x", "nodius"]))
    ).user_id == "ed"


async def test_a_token_is_checked_with_the_key_set(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [jwk(PRIVATE, "one"), jwk(OTHER, "secret", use="enc")]}))
    authenticator = Authenticator(settings_of(auth_secret=None, auth_jwks=str(file)))
    assert (await authenticator.authenticate(signed(kid="one"))).user_id == "ed"
    assert await refused(authenticator, signed(OTHER, kid="one")) == "token_signature"
    assert await refused(authenticator, signed(kid="two")) == "token_signature"
    assert await refused(authenticator, signed(OTHER, kid="secret")) == "token_signature"
    assert (await authenticator.authenticate(signed())).user_id == "ed"


@pytest.mark.parametrize(
    "address", ["http://issuer.example/keys", "ftp://127.0.0.1/keys", "file:///keys"]
)
def test_a_key_set_comes_from_nowhere_that_others_could_answer_for(address: str) -> None:
    with pytest.raises(SettingsError, match="auth_jwks"):
        Authenticator(settings_of(auth_jwks=address))


@pytest.mark.parametrize(
    "key", ["nowhere.pem", "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----"]
)
def test_a_key_that_is_none_stops_the_start(key: str) -> None:
    with pytest.raises(SettingsError, match="auth_public_key"):
        Authenticator(settings_of(auth_public_key=key))


async def test_without_sign_in_this_computer_is_the_admin_and_nobody_else_is() -> None:
    async with service(auth_secret=None) as running:
        async with running.client() as here:
            assert (await here.get("/api/me")).json()["role"] == "admin"
            for headers in (
                {"Host": "evil.example"},
                {"Host": "127.0.0.1.evil.example"},
                {"Host": ""},
                {"Origin": "https://evil.example"},
                {"Origin": "http://127.0.0.1:9999"},
                {"Origin": "null"},
            ):
                answer = await here.get("/api/me", headers=headers)
                assert answer.status_code == 403, headers
            same = await here.get("/api/me", headers={"Origin": "http://127.0.0.1:8426"})
            assert same.status_code == 200
        async with running.client(peer="192.0.2.1") as other:
            assert (await other.get("/api/me")).status_code == 403
