"""OpenID Connect providers on loopback: one of a package, and one that signs whatever
a test says.
"""

from __future__ import annotations

import base64
import hashlib
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import httpx2
import jwt

from tests.support.loopback_api import Arrived, LoopbackApi
from tests.support.rsa_keys import FIRST

CLIENT = "nodius"
CLIENT_SECRET = "the client's secret/with+signs"
ROLES: dict[str, Any] = {"groups": {"graph-admins": "admin", "staff": "editor"}}


def oidc_settings(issuer: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a service whose people sign in at a provider."""
    given = {"oidc_issuer": issuer, "oidc_client_id": CLIENT, "oidc_client_secret": CLIENT_SECRET}
    return {**given, "oidc_roles": ROLES, **more}


@contextmanager
def mock_provider(**people: list[str]) -> Iterator[str]:
    """Yield the issuer of `oidc-provider-mock`; people by name, with their groups."""
    with warnings.catch_warnings(
        record=True
    ):  # it uses parts of Authlib that will go, and so it says
        warnings.simplefilter("ignore")
        import oidc_provider_mock as mock

        known = [
            mock.User(sub=name, claims={"name": name.title(), "groups": groups})
            for name, groups in people.items()
        ]
        with mock.run_server_in_thread(user_claims=known) as server:
            yield f"http://localhost:{server.server_port}"


async def authorize(url: str, who: str) -> str:
    """Sign somebody in at the mock provider, as its form does; return where the browser is sent."""
    async with httpx2.AsyncClient() as client:
        answer = await client.post(url, data={"sub": who})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


async def forget_tokens(issuer: str, who: str) -> None:
    """End somebody's session at the mock provider."""
    async with httpx2.AsyncClient() as client:
        (await client.post(f"{issuer}/users/{quote(who)}/revoke-tokens")).raise_for_status()


class ForgingProvider:
    """Answers on a loopback API as a provider does; `claims`, `token` and `key` are what
    a test changes.

    Checks as the standard wants what comes to its token endpoint: the code, its
    verifier, the client.
    """

    def __init__(self, api: LoopbackApi) -> None:
        self.api, self.claims, self.token, self.refresh = api, dict[str, Any](), "", ""
        self.challenges: dict[str, dict[str, str]] = {}
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri", "revocation_endpoint")
        published = {"issuer": api.url, **{name: f"{api.url}/{name}" for name in names}}
        api.answers |= {
            "GET /.well-known/openid-configuration": published,
            "POST /token_endpoint": self._tokens,
            "POST /revocation_endpoint": {},
        }
        self.publish(FIRST, "one")

    def publish(self, key: Any, key_id: str, algorithm: str = "RS256") -> None:
        """Signs with a key from now on, and publishes its public key alone."""
        self.key, self.key_id, self.algorithm = key, key_id, algorithm
        to_jwk = jwt.get_algorithm_by_name(algorithm).to_jwk
        public: dict[str, Any] = to_jwk(key.public_key(), as_dict=True)
        self.api.answers["GET /jwks_uri"] = {"keys": [{**public, "kid": key_id}]}

    def authorize(self, url: str, code: str = "code-1") -> str:
        """Return where the browser is sent after somebody signed in."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        self.challenges[code] = asked
        return f"{asked['redirect_uri']}?code={code}&state={asked['state']}"

    def _tokens(self, request: Arrived) -> Any:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        basic = base64.b64encode(f"{CLIENT}:{quote(CLIENT_SECRET, safe='')}".encode()).decode()
        plain = base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
        assert request.headers["authorization"] in (f"Basic {basic}", f"Basic {plain}")
        if form["grant_type"] == "refresh_token":
            return {"access_token": "a", "token_type": "Bearer", "refresh_token": "r2"}
        asked = self.challenges.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        fits = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != fits:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        made = {"iss": self.api.url, "aud": CLIENT, "sub": "ann", "exp": now + 60, "iat": now}
        made |= {"nonce": asked["nonce"], "groups": ["staff"], **self.claims}
        made = {name: value for name, value in made.items() if value is not None}
        signed = jwt.encode(made, self.key, algorithm=self.algorithm, headers={"kid": self.key_id})
        answer = {"access_token": "a", "token_type": "Bearer", "id_token": self.token or signed}
        return answer | ({"refresh_token": self.refresh} if self.refresh else {})
