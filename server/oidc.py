"""Signs people in at an OpenID Connect provider: authorization code with PKCE, on the server.

authlib's client speaks the protocol: authorization URL, code exchange, refresh, revocation, and the
checks of ID tokens. This module adds what the library leaves to an application: checked metadata,
bounded answers, limits for requests at the same time, and roles and workspaces, which come from the
claims of the ID token by the tables of the settings and from nothing else.

Source: OpenID Connect Core 1.0; RFC 7636 (PKCE); RFC 9700 (safe use); RFC 9207
(`iss` of an answer).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast, final

import httpx2

from graphrag.app.access_tokens import MAX_NAME
from graphrag.app.bounded_download import SmallAnswerTransport, trusted_authorities
from graphrag.app.oidc_discovery import (
    IdentityProviderDown,
    ProviderFacts,
    check_oidc_settings,
    discover,
)
from graphrag.config import Settings
from graphrag.shares import SharedPlaces
from server.auth import identity_of
from server.errors import AuthError

log = logging.getLogger(__name__)

# Metadata and keys of a provider are read again when they are older: withdrawn keys stop working.
FRESH_S = 300.0
PAUSE_S = 2.0  # between two attempts to read the metadata of a provider that is down
ANSWER_S = 10.0  # for one request to the provider
AT_ONCE = 16  # requests to the provider at the same time; one person or address has a share of them
RECHECK_S = 300.0  # a session with a refresh token is confirmed by the provider this often
LONGEST_S = 12 * 3600.0  # a session without a refresh token, whatever its ID token says
SHOWN = ("name", "preferred_username", "email")  # claims that name a person, best first

# Errors of the libraries for an answer that has not the form of the protocol.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A sign-in that began in a browser. Its end must fit these values."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    fragment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSession:
    """Somebody who signed in at the provider. Units: seconds since 1970.

    `checked`: when the provider last confirmed the session. With a `refresh` token it is asked
    again after RECHECK_S; without one the session holds until `ends`.
    """

    user_id: str
    username: str
    role: str
    workspaces: tuple[str, ...]
    checked: float
    ends: float
    refresh: str = ""

    @property
    def good_until(self) -> float:
        return self.checked + RECHECK_S if self.refresh else self.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProviderClient:
    """authlib's clients for the metadata of a provider, good until the metadata is read again."""

    facts: ProviderFacts
    sign_in: Any  # StarletteOAuth2App: authorization URL, code exchange, keys, ID tokens
    http: Callable[[], Any]  # makes an AsyncOAuth2Client: refresh, revocation


@final
class IdentityProvider:
    """The provider of the settings; its metadata is read when it is first needed.

    Raises, when it is made: SettingsError for settings with which nobody could sign in.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        check_oidc_settings(settings)
        # authlib is an extra, and slow to import: at the start, not at the first sign-in.
        from authlib.integrations.httpx_client import AsyncOAuth2Client
        from authlib.integrations.starlette_client import StarletteOAuth2App

        self._http_kind: Any = AsyncOAuth2Client
        self._sign_in_kind: Any = StarletteOAuth2App
        self._settings = settings
        self._clock = clock
        self._client: _ProviderClient | None = None
        self._read_next = 0.0
        self._reading = asyncio.Lock()
        self._places = SharedPlaces(AT_ONCE)

    async def begin(self, redirect_uri: str, fragment: str) -> tuple[str, Attempt]:
        """Returns the address where a browser signs in, and the attempt to keep until it is back.

        Raises: IdentityProviderDown.
        """
        client = await self._current()
        begun = await client.sign_in.create_authorization_url(redirect_uri)
        attempt = Attempt(
            state=begun["state"],
            nonce=begun["nonce"],
            verifier=begun["code_verifier"],
            redirect_uri=redirect_uri,
            fragment=fragment,
        )
        return begun["url"], attempt

    async def finish(self, attempt: Attempt, code: str, *, network: str) -> PageSession:
        """Returns the session of the person who signed in.

        `network`: the browser's network, whose share of the requests is used.

        Raises: AuthError, IdentityProviderDown.
        """
        client = await self._current()
        async with self._asking(network):
            answer = await client.sign_in.fetch_access_token(
                attempt.redirect_uri, code=code, code_verifier=attempt.verifier
            )
            claims = await self._claims(client, answer, attempt.nonce)
        return self._session(claims, str(answer.get("refresh_token") or ""))

    async def renew(self, session: PageSession) -> PageSession:
        """Asks the provider whether a session goes on, and returns it renewed.

        Raises: AuthError if it has ended, IdentityProviderDown.
        """
        if not session.refresh:
            raise AuthError(code="sign_in_ended")
        client = await self._current()
        async with self._asking(session.user_id), client.http() as http:
            answer = await http.refresh_token(
                client.facts.token_endpoint, refresh_token=session.refresh
            )
            refresh = str(answer.get("refresh_token") or session.refresh)
            if "id_token" not in answer:  # the session goes on, with the same claims
                return replace(session, refresh=refresh, checked=self._clock())
            claims = await self._claims(client, answer, nonce=None)
        renewed = self._session(claims, refresh)
        if renewed.user_id != session.user_id:
            raise _refused("another person")
        return renewed

    async def end(self, session: PageSession, back_to: str) -> str:
        """Withdraws a session's refresh token.

        Returns the address where the browser signs out of the provider, or "".

        Raises: IdentityProviderDown.
        """
        client = await self._current()
        if session.refresh and client.facts.revocation_endpoint:
            with suppress(AuthError, IdentityProviderDown):
                async with self._asking(session.user_id), client.http() as http:
                    await http.revoke_token(
                        client.facts.revocation_endpoint,
                        token=session.refresh,
                        token_type_hint="refresh_token",
                    )
        if not client.facts.end_session_endpoint:
            return ""
        logout = await client.sign_in.create_logout_url(
            post_logout_redirect_uri=back_to, client_id=self._settings.oidc.client_id
        )
        return logout["url"]

    async def _current(self) -> _ProviderClient:
        """Returns the clients for the provider's metadata.

        While the provider is down, metadata that was read before stays in use.

        Raises: IdentityProviderDown.
        """
        async with self._reading:
            if self._clock() >= self._read_next:
                try:
                    facts = await discover(self._settings.oidc.issuer or "")
                    self._client = await self._client_of(facts)
                    self._read_next = self._clock() + FRESH_S
                except IdentityProviderDown as exc:
                    log.warning("sign_in_provider_down", extra={"reason": exc.why})
                    # Without a pause, many requests would wait for it one after the other.
                    self._read_next = self._clock() + PAUSE_S
            if self._client is None:
                raise IdentityProviderDown(why="it did not answer")
            return self._client

    async def _client_of(self, facts: ProviderFacts) -> _ProviderClient:
        settings = self._settings
        secret = settings.oidc.client_secret
        method = "none"
        if secret:
            is_basic = "client_secret_basic" in facts.auth_methods
            method = "client_secret_basic" if is_basic else "client_secret_post"
        registered = {
            "client_id": settings.oidc.client_id,
            "client_secret": secret.get_secret_value() if secret else None,
        }
        options = {
            "token_endpoint_auth_method": method,
            "revocation_endpoint_auth_method": method,
            "transport": SmallAnswerTransport(await trusted_authorities()),
            "timeout": ANSWER_S,
            "follow_redirects": False,
            "trust_env": False,
        }
        asked = {"scope": settings.oidc.scopes, "code_challenge_method": "S256"}
        sign_in = self._sign_in_kind(
            None,
            **registered,
            client_kwargs=options | asked,
            issuer=settings.oidc.issuer,
            authorization_endpoint=facts.authorization_endpoint,
            token_endpoint=facts.token_endpoint,
            jwks_uri=facts.jwks_uri,
            end_session_endpoint=facts.end_session_endpoint,
            id_token_signing_alg_values_supported=facts.algorithms,
        )
        return _ProviderClient(
            facts=facts, sign_in=sign_in, http=partial(self._http_kind, **registered, **options)
        )

    @asynccontextmanager
    async def _asking(self, holder: str) -> AsyncGenerator[None]:
        """Holds a place for requests to the provider, in the share of a person or network.

        Raises: AuthError if the provider or a check refuses, IdentityProviderDown.
        """
        from authlib.common.errors import AuthlibBaseError
        from joserfc.errors import JoseError

        try:
            async with self._places.held(holder), asyncio.timeout(ANSWER_S):
                yield
        except AuthlibBaseError as exc:
            raise _refused(str(exc.error)) from exc
        except JoseError as exc:
            self._read_again()
            raise _refused(str(exc.error)) from exc
        except (httpx2.HTTPError, OSError, *MALFORMED) as exc:
            self._read_again()
            log.warning("sign_in_provider_down", extra={"reason": type(exc).__name__})
            raise IdentityProviderDown(why=type(exc).__name__) from exc

    def _read_again(self) -> None:
        """Lets metadata and keys be read again soon: authlib keeps also keys that it cannot use."""
        self._read_next = min(self._read_next, self._clock() + PAUSE_S)

    async def _claims(
        self, client: _ProviderClient, answer: Mapping[str, Any], nonce: str | None
    ) -> dict[str, Any]:
        """Returns the claims of an answer's ID token, checked by authlib.

        The nonce is checked unless it is None. authlib checks the audience only on request.

        Raises: AuthError, and the errors of authlib, joserfc and httpx2.
        """
        settings = self._settings
        expected = {
            "iss": {"essential": True, "value": settings.oidc.issuer},
            "aud": {"essential": True, "value": settings.oidc.client_id},
        }
        claims = await client.sign_in.parse_id_token(
            answer, nonce, claims_options=expected, leeway=settings.auth.leeway_s
        )
        if claims is None:
            raise _refused("no ID token")
        return claims

    def _session(self, claims: Mapping[str, Any], refresh: str) -> PageSession:
        settings = self._settings
        now = self._clock()
        roles = granted(claims, settings.oidc.roles)
        places = (
            granted(claims, settings.oidc.workspaces)
            if settings.oidc.workspaces
            else [settings.workspace]
        )
        if not roles or not places:
            log.warning("sign_in_without_role", extra={"claims": sorted(claims)})
            raise AuthError(code="sign_in_no_role", claim=str(claims["sub"])[:MAX_NAME])
        shown = next((claims[name] for name in SHOWN if claims.get(name)), None)
        who = identity_of(
            {"sub": claims["sub"], "username": shown, "roles": roles, "workspaces": places}
        )
        return PageSession(
            user_id=who.user_id,
            username=who.username,
            role=who.role,
            workspaces=who.workspaces,
            checked=now,
            ends=float(min(claims["exp"], now + LONGEST_S)),
            refresh=refresh,
        )


def granted(claims: Mapping[str, Any], table: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns the roles or workspaces that a table of the settings grants for claims, each once.

    A claim is named as it stands, or as a path with dots (`realm_access.roles`). An e-mail address
    that the provider declares unverified grants nothing.
    """
    granted_once: dict[str, None] = {}
    for claim, grants in table.items():
        if claim == "email" and claims.get("email_verified") in (False, "false"):
            continue
        values = _texts(_claim(claims, claim))
        granted_once |= {
            grant: None
            for value, grant in grants.items()
            if value in values or (value == "*" and values)
        }
    return list(granted_once)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    first, _, rest = name.partition(".")
    inner = claims.get(first)
    return (
        _claim(cast(Mapping[str, Any], inner), rest) if rest and isinstance(inner, dict) else None
    )


def _texts(value: Any) -> set[str]:
    if isinstance(value, list):
        return {
            text
            for item in cast(list[Any], value)
            if not isinstance(item, list)
            for text in _texts(item)
        }
    if isinstance(value, bool):
        return {"true"} if value else {"false"}
    return {str(value)} if isinstance(value, int) or (isinstance(value, str) and value) else set()


def _refused(why: str) -> AuthError:
    log.warning("sign_in_refused", extra={"reason": why[:100]})
    return AuthError(code="sign_in_refused")
