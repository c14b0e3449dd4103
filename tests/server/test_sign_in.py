"""Signing in to the page at an OpenID Connect provider, over real HTTP, and what may
go wrong there.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from graphrag.app.bounded_download import MAX_BYTES
from graphrag.app.oidc_discovery import examine_sign_in
from graphrag.config import SettingsError
from server.oidc import IdentityProvider, granted
from server.sign_in_routes import SealedCookies
from tests.support.identity_providers import (
    CLIENT_SECRET,
    ForgingProvider,
    authorize,
    forget_tokens,
    mock_provider,
    oidc_settings,
)
from tests.support.loopback_api import Arrived, loopback_api
from tests.support.rsa_keys import FIRST, SECOND
from tests.support.service import SECRET, Service, error_of, replace_part, service, settings_of
from tests.support.waiting import until

OWN = {"Origin": "http://127.0.0.1:8426"}
NEXT = "/#graph=testgraph001&sheet=0&panel=chat"


@asynccontextmanager
async def forging(**given: Any) -> AsyncIterator[tuple[ForgingProvider, Service]]:
    async with loopback_api() as api, service(**oidc_settings(api.url, **given)) as running:
        yield ForgingProvider(api), running


async def begun(browser: httpx2.AsyncClient, next: str = NEXT) -> str:
    """Return where a browser is sent to sign in."""
    answer = await browser.get("/auth/login", params={"next": next})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def returned(browser: httpx2.AsyncClient, location: str) -> httpx2.Response:
    parts = urlsplit(location)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "http://127.0.0.1:8426/auth/callback"
    return await browser.get(f"{parts.path}?{parts.query}")


def bearer(answer: httpx2.Response) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['token']}"}


async def test_somebody_signs_in_works_is_renewed_and_signs_out_at_a_real_provider() -> None:
    with mock_provider(alice=["graph-admins", "staff"]) as issuer:
        async with service(**oidc_settings(issuer)) as running, running.client() as browser:
            answer = await returned(browser, await authorize(await begun(browser), "alice"))
            assert (answer.status_code, answer.headers["location"]) == (303, NEXT)
            session, signed = answer.headers.get_list("set-cookie")[:2]
            assert all(word in session for word in ("HttpOnly", "SameSite=strict", "Path=/auth"))
            assert CLIENT_SECRET not in answer.text + str(answer.headers)
            assert "nodius_signed=1" in signed
            assert (await browser.get("/api/me")).status_code == 401  # a cookie alone opens nothing
            token = await browser.post("/auth/token", headers=OWN)
            me = (await browser.get("/api/me", headers=bearer(token))).json()
            assert (me["userId"], me["username"], me["role"]) == ("alice", "Alice", "admin")
            assert 0 < token.json()["expiresIn"] <= 600
            await forget_tokens(issuer, "alice")
            assert (
                await browser.post("/auth/token", headers=OWN)
            ).status_code == 200  # asked just now
            left = await browser.post("/auth/logout", headers=OWN)
            assert left.json()["url"].startswith(f"{issuer}/")
            assert (
                error_of(await browser.post("/auth/token", headers=OWN))["code"] == "unauthorized"
            )


async def test_a_session_ends_and_roles_change_as_the_provider_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("server.oidc.RECHECK_S", 0.0)
    with mock_provider(bob=["staff"]) as issuer:
        async with service(**oidc_settings(issuer)) as running, running.client() as browser:
            await returned(browser, await authorize(await begun(browser), "bob"))
            both = await asyncio.gather(
                *(browser.post("/auth/token", headers=OWN) for _ in range(2))
            )
            assert [one.status_code for one in both] == [200, 200]  # two tabs at once
            await forget_tokens(issuer, "bob")
            ended = await browser.post("/auth/token", headers=OWN)
            assert ended.status_code == 401
            assert not any(name.startswith("nodius_s") for name in browser.cookies)


async def test_two_tabs_sign_in_side_by_side_and_an_answer_counts_once() -> None:
    async with forging() as (provider, running), running.client() as browser:
        first = await begun(browser, "/#graph=a")
        second = await begun(browser, "/#graph=b")
        one = provider.authorize(first, "code-a")
        other = provider.authorize(second, "code-b")
        assert (await returned(browser, other)).headers["location"] == "/#graph=b"
        assert (await returned(browser, one)).headers["location"] == "/#graph=a"
        again = await returned(browser, one)
        assert (again.status_code, "set-cookie" in again.headers) == (401, True)
        for _ in range(20):
            await begun(browser)
        assert len([name for name in browser.cookies if name.startswith("nodius_login_")]) <= 5


async def test_an_answer_that_fits_no_attempt_of_this_browser_signs_nobody_in() -> None:
    async with (
        forging() as (provider, running),
        running.client() as browser,
        running.client() as other,
    ):
        location = provider.authorize(await begun(browser))
        for tampered in (location[:-1], location + "x", location.partition("&")[0]):
            answer = await returned(browser, tampered)
            assert answer.status_code == 401
            assert "Try again" in answer.text
        assert (await returned(other, location)).status_code == 401  # begun in another browser
        assert (await browser.get("/auth/callback")).status_code == 401
        assert provider.api.of("POST /token_endpoint") == []
        denied = location.replace("code=code-1", "error=access_denied")
        assert (await returned(browser, denied)).status_code == 401
        assert "nodius_session" not in browser.cookies


async def test_a_code_that_was_used_already_is_refused() -> None:
    async with forging() as (provider, running), running.client() as browser:
        assert (
            await returned(browser, provider.authorize(await begun(browser)))
        ).status_code == 303
        location = provider.authorize(await begun(browser), "code-2")
        provider.challenges.clear()  # somebody else was quicker
        answer = await returned(browser, location)
        assert answer.status_code == 401
        assert "nodius_login" not in str(browser.cookies)


FORGED: dict[str, dict[str, Any]] = {
    "another issuer": {"claims": {"iss": "https://evil.example"}},
    "wrong audience": {"claims": {"aud": "another-client"}},
    "for another party": {"claims": {"aud": ["nodius", "other"], "azp": "other"}},
    "for another audience, through this client": {"claims": {"aud": "other", "azp": "nodius"}},
    "without audience": {"claims": {"aud": None}},
    "with an endless number as expiry": {"claims": {"exp": float("inf")}},
    "bound to another access token": {"claims": {"at_hash": "of-another-one"}},
    "expired": {"claims": {"exp": int(time.time()) - 3_600}},
    "without expiry": {"claims": {"exp": None}},
    "of another attempt": {"claims": {"nonce": "other"}},
    "without nonce": {"claims": {"nonce": None}},
    "signed by somebody else": {"key": SECOND},
    "signed with the client's secret": {"key": CLIENT_SECRET * 2, "algorithm": "HS256"},
    "not signed": {"key": None, "algorithm": "none"},
    "no token at all": {"token": "x.y.z"},
    "no role in it": {"claims": {"groups": ["guests"]}},
    "no groups in it": {"claims": {"groups": None}},
    "a caller's name": {"claims": {"sub": "caller:1"}},
}


async def test_no_forged_token_signs_anybody_in() -> None:
    async with forging() as (provider, running), running.client() as browser:
        for what, forged in FORGED.items():
            provider.claims = {}
            provider.key = provider.key
            provider.algorithm = "RS256"
            provider.token = ""
            before = provider.key
            for name, value in forged.items():
                setattr(provider, name, value)
            answer = await returned(browser, provider.authorize(await begun(browser), what))
            assert answer.status_code == 401, what
            assert "nodius_session" not in browser.cookies, what
            assert CLIENT_SECRET not in answer.text
            provider.key = before
        location = provider.authorize(await begun(browser)) + "&iss=https://evil.example"
        assert (await returned(browser, location)).status_code == 401  # a mix-up of providers


@pytest.mark.parametrize(
    ("status", "path", "answer"),
    [
        (503, "POST /token_endpoint", (502, {})),
        (401, "POST /token_endpoint", (302, {})),
        (503, "POST /token_endpoint", []),
        (503, "POST /token_endpoint", None),
        (401, "POST /token_endpoint", {"access_token": "a", "id_token": 5}),
        (503, "POST /token_endpoint", {"access_token": "a" * MAX_BYTES}),
        (503, "GET /jwks_uri", (500, {})),
        (503, "GET /jwks_uri", []),
        (503, "GET /jwks_uri", {"keys": 5}),
        (401, "GET /jwks_uri", {"keys": [5]}),
    ],
)
async def test_a_sign_in_fails_while_the_provider_answers_wrongly_and_works_when_it_is_well_again(
    status: int, path: str, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.oidc.PAUSE_S", 0.0)
    async with forging() as (provider, running), running.client() as browser:
        well = dict(provider.api.answers)
        provider.api.answers = well | {path: answer}
        failed = await returned(browser, provider.authorize(await begun(browser)))
        assert failed.status_code == status
        assert "nodius_session" not in browser.cookies
        provider.api.answers = well
        again = await returned(browser, provider.authorize(await begun(browser), "code-2"))
        assert again.status_code == 303


async def test_a_key_that_the_provider_added_or_withdrew_counts_at_the_next_sign_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with forging() as (provider, running), running.client() as browser:
        assert (
            await returned(browser, provider.authorize(await begun(browser)))
        ).status_code == 303
        provider.publish(SECOND, "two")
        for code in ("code-2", "code-3"):
            assert (
                await returned(browser, provider.authorize(await begun(browser), code))
            ).status_code == 303
        assert len(provider.api.of("GET /jwks_uri")) == 2
        monkeypatch.setattr("server.oidc.FRESH_S", 0.0)
        fresh = IdentityProvider(running.state.settings)
        replace_part(running.app, "authentication", identity_provider=fresh)
        provider.publish(FIRST, "two")  # SECOND, that still signs, was withdrawn
        provider.key = SECOND
        answer = await returned(browser, provider.authorize(await begun(browser), "code-4"))
        assert answer.status_code == 401


SIGNERS: dict[str, Any] = {
    "RS512": FIRST,
    "PS256": FIRST,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # by RFC 9864; providers still use it
@pytest.mark.parametrize("algorithm", SIGNERS)
async def test_a_provider_may_sign_with_any_published_key_beside_keys_for_other_uses(
    algorithm: str,
) -> None:
    async with forging() as (provider, running), running.client() as browser:
        metadata = provider.api.answers["GET /.well-known/openid-configuration"]
        metadata["id_token_signing_alg_values_supported"] = ["HS256", algorithm]
        provider.publish(SIGNERS[algorithm], "signs", algorithm)
        unknown = {"kty": "AKP", "kid": "later", "alg": "ML-DSA-44", "pub": "AA"}
        provider.api.answers["GET /jwks_uri"]["keys"].insert(0, unknown)
        answer = await returned(browser, provider.authorize(await begun(browser)))
        assert answer.status_code == 303


@pytest.mark.parametrize(
    "next",
    [
        *(
            "https://evil.example/",
            "//evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
            "http://[",
        ),
        *("/\r\nSet-Cookie: a=b", "%2f%2fevil.example", "/auth/logout"),
    ],
)
async def test_nobody_is_led_to_another_site_after_signing_in(next: str) -> None:
    async with forging() as (provider, running), running.client() as browser:
        answer = await returned(browser, provider.authorize(await begun(browser, next)))
        assert answer.headers["location"] == "/"


async def test_a_provider_that_is_down_gets_a_page_with_a_way_to_try_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with forging() as (provider, running), running.client() as browser:
        known = dict(provider.api.answers)
        provider.api.answers = {"GET /.well-known/openid-configuration": (500, {})}
        answer = await browser.get(
            "/auth/login", params={"next": NEXT}, headers={"Accept-Language": "fr"}
        )
        assert (answer.status_code, answer.headers["content-type"]) == (
            503,
            "text/html; charset=utf-8",
        )
        assert "Réessayer" in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        provider.api.answers = known
        asked = len(provider.api.of("GET /.well-known/openid-configuration"))
        assert {(await browser.get("/auth/login")).status_code for _ in range(3)} == {
            503
        }  # not asked each time
        assert len(provider.api.of("GET /.well-known/openid-configuration")) == asked
        monkeypatch.setattr("server.oidc.PAUSE_S", 0.0)
        fresh = IdentityProvider(running.state.settings)
        replace_part(running.app, "authentication", identity_provider=fresh)
        location = provider.authorize(await begun(browser))
        provider.api.answers = {**known, "POST /token_endpoint": (502, {})}
        assert (await returned(browser, location)).status_code == 503
        assert CLIENT_SECRET not in caplog.text


async def test_another_sites_page_gets_no_token_and_signs_nobody_out() -> None:
    async with forging() as (provider, running), running.client() as browser:
        await returned(browser, provider.authorize(await begun(browser)))
        for headers in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
            for path in ("/auth/token", "/auth/logout"):
                assert (await browser.post(path, headers=headers)).status_code == 403
        assert (await browser.post("/auth/token", headers=OWN)).status_code == 200


async def test_a_session_without_refresh_token_lasts_as_long_as_the_id_token_and_one_with_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with forging() as (provider, running), running.client() as browser:
        await returned(browser, provider.authorize(await begun(browser)))
        assert 0 < (await browser.post("/auth/token", headers=OWN)).json()["expiresIn"] <= 60
        monkeypatch.setattr("server.sign_in_routes.time.time", lambda: time.monotonic() + 1e10)
        assert (await browser.post("/auth/token", headers=OWN)).status_code == 401
        monkeypatch.undo()
        provider.refresh = "r" * 4_000  # more than a cookie holds: the session is as one without
        answer = await returned(browser, provider.authorize(await begun(browser)))
        assert max(len(cookie) for cookie in answer.headers.get_list("set-cookie")) < 4_096
        assert (await browser.post("/auth/token", headers=OWN)).json()["expiresIn"] <= 60
        provider.refresh = "r1"
        monkeypatch.setattr("server.oidc.RECHECK_S", -1.0)
        await returned(browser, provider.authorize(await begun(browser)))
        renewed = await browser.post("/auth/token", headers=OWN)
        me = await browser.get("/api/me", headers=bearer(renewed))
        assert me.json()["role"] == "editor"
        assert b"refresh_token=r1" in provider.api.of("POST /token_endpoint")[-1].body
        await browser.post("/auth/logout", headers=OWN)
        assert b"token=r2" in provider.api.only("POST /revocation_endpoint").body


def test_roles_come_from_the_table_and_from_nothing_else() -> None:
    table = {
        "groups": {"a": "admin", "*": "viewer"},
        "realm.roles": {"e": "editor"},
        "email": {"x@y": "admin"},
    }
    assert granted({"groups": ["a", "b"]}, table) == ["admin", "viewer"]
    assert granted({"groups": "b", "realm": {"roles": ["e"]}}, table) == ["viewer", "editor"]
    for nothing in (
        {},
        {"groups": None},
        {"groups": []},
        {"groups": [None, {}, [["a"]]]},
        {"roles": ["admin"]},
    ):
        assert granted(nothing, table) == []
    assert granted({"email": "x@y", "email_verified": False}, table) == []
    assert granted({"email": "x@y"}, table) == ["admin"]


def test_a_cookie_that_another_secret_or_another_purpose_sealed_is_none() -> None:
    from server.oidc import Attempt, PageSession

    attempt = Attempt(state="s", nonce="n", verifier="v", redirect_uri="r")
    sealed = SealedCookies(SECRET).seal(attempt)
    assert SealedCookies(SECRET).open(Attempt, sealed) == attempt
    assert SealedCookies(SECRET + "x").open(Attempt, sealed) is None
    assert SealedCookies(SECRET).open(PageSession, sealed) is None
    assert SealedCookies(SECRET).open(Attempt, sealed[:-4] + "AAA=") is None
    assert SealedCookies(SECRET).open(Attempt, "é") is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"auth_secret": None}, "auth_secret"),
        ({"oidc_client_id": None}, "oidc_client_id"),
        ({"oidc_roles": {}}, "oidc_roles"),
        ({"oidc_issuer": "http://login.example.com"}, "oidc_issuer"),
    ],
)
async def test_settings_that_let_nobody_in_are_refused_by_name(
    changed: dict[str, Any], said: str
) -> None:
    settings = settings_of(**oidc_settings("https://login.example.com", **changed))
    with pytest.raises(SettingsError, match=said):
        IdentityProvider(settings)
    (finding,) = await examine_sign_in(settings, 1.0)
    assert (finding.status, said in finding.detail) == ("error", True)


async def test_doctor_says_whether_the_provider_answers_and_what_is_wrong_with_it() -> None:
    async with loopback_api() as api:
        settings = settings_of(**oidc_settings(api.url))
        assert "404" in (await examine_sign_in(settings, 1.0))[0].detail
        provider = ForgingProvider(api)
        assert (await examine_sign_in(settings, 1.0))[0].status == "ok"
        published = api.answers["GET /.well-known/openid-configuration"]
        wrong = {
            "calls itself": {"issuer": "https://other"},
            "jwks_uri": {"jwks_uri": "http://10.0.0.1/keys"},
            "HS256": {"id_token_signing_alg_values_supported": ["HS256", "none"]},
        }
        for said, change in wrong.items():
            api.answers["GET /.well-known/openid-configuration"] = published | change
            assert said in (await examine_sign_in(settings, 1.0))[0].detail
    assert "cannot be read" in (await examine_sign_in(settings, 1.0))[0].detail
    assert provider.api.of("GET /jwks_uri")


async def test_without_a_provider_there_is_no_such_way_in() -> None:
    async with service() as running, running.client() as browser:
        for method, path in (
            ("GET", "/auth/login"),
            ("GET", "/auth/callback"),
            ("POST", "/auth/logout"),
        ):
            assert (await browser.request(method, path, headers=OWN)).status_code == 404
        assert (await browser.post("/auth/token", headers=OWN)).status_code == 204


async def test_a_client_whose_sign_ins_hang_at_the_provider_keeps_nobody_else_out() -> None:
    go = asyncio.Event()
    async with forging() as (provider, running), AsyncExitStack() as stack:
        stack.callback(go.set)
        token_endpoint = provider.api.answers["POST /token_endpoint"]

        async def hanging(request: Arrived) -> Any:
            if b"code=slow" in request.body:
                await go.wait()
            return token_endpoint(request)

        provider.api.answers["POST /token_endpoint"] = hanging
        tasks = list[asyncio.Task[httpx2.Response]]()
        for number in range(20):  # each from an address of one customer's network
            peer = f"2001:db8:0:1::{number + 1:x}"
            browser = await stack.enter_async_context(running.client(peer=peer))
            location = provider.authorize(await begun(browser), f"slow-{number}")
            tasks.append(asyncio.create_task(returned(browser, location)))
        await until(lambda: len(provider.api.of("POST /token_endpoint")) >= 4)
        other = await stack.enter_async_context(running.client(peer="2001:db8:0:2::1"))
        async with asyncio.timeout(5):
            answer = await returned(other, provider.authorize(await begun(other), "code-b"))
        assert answer.status_code == 303
        assert len(provider.api.of("POST /token_endpoint")) == 5
        go.set()
        assert {each.status_code for each in await asyncio.gather(*tasks)} == {303}
