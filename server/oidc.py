"""Signs people in at an OpenID Connect provider: authorization code with PKCE, all of it
on the server.

Who somebody is comes from the ID token; role and workspaces come from its claims by the tables of
the settings, and from nothing else.

Source: OpenID Connect Core 1.0; RFC 7636 (PKCE); RFC 9700 (safe use); RFC 9207
(`iss` of an answer).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlencode

import httpx2
import jwt

from graphrag.app.access_tokens import MAX_NAME
from graphrag.app.oidc_discovery import (
    IdentityProviderDown,
    ProviderFacts,
    check_oidc_settings,
    discover,
    trusted,
)
from graphrag.config import Settings
from graphrag.shares import SharedPlaces
from server.auth import identity_of
from server.errors import AuthError, KeysUnavailable
from server.jwks import KeySet

log = logging.getLogger(__name__)

FRESH_S = 3600.0
"""What a provider publishes is read again when it is older."""
PAUSE_S = 2.0
"""Between two looks at a provider that is down."""
ANSWER_S = 10.0
AT_ONCE = 16  # requests to the provider at the same time; one person or address has a share of them
RECHECK_S = 300.0
"""So long the provider is not asked again whether a session goes on."""
LONGEST_S = 12 * 3600.0
"""Of a session that cannot be asked for, whatever the ID token says."""
KINDS = ("RSA", "EC", "OKP")
SHOWN = ("name", "preferred_username", "email")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A sign-in that began in a browser: what its end must fit."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    fragment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSession:
    """Somebody who signed in at the provider. Units: seconds since 1970.

    `checked`: when the provider last said who they are. Without a `refresh` token, with which it is
    asked again, that holds until `ends`.
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


class IdentityProvider:
    """The provider of the settings; what it publishes is read when it is first needed.

    Raises, when it is made: SettingsError for settings with which nobody could sign in.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        check_oidc_settings(settings)
        # An extra, and slow to import: at the start, not when the first person signs in.
        from authlib.integrations.httpx_client import AsyncOAuth2Client
        from authlib.oauth2.client import OAuth2Client

        self._client_kind: Any = AsyncOAuth2Client
        self._url_kind: Any = OAuth2Client
        self._settings = settings
        self._clock = clock
        self._issuer = settings.oidc_issuer or ""
        self._known: tuple[ProviderFacts, KeySet] | None = None
        self._read_next = 0.0
        self._reading = asyncio.Lock()
        self._asking = SharedPlaces(AT_ONCE)

    async def begin(self, redirect_uri: str, fragment: str) -> tuple[str, Attempt]:
        """Return where a browser signs in, and what to keep until it is back.

        Raises: IdentityProviderDown.
        """
        facts, _ = await self._published()
        attempt = Attempt(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            redirect_uri=redirect_uri,
            fragment=fragment,
        )
        client = self._url_kind(
            None,
            client_id=self._settings.oidc_client_id,
            scope=self._settings.oidc_scopes,
            code_challenge_method="S256",
        )
        url, _ = client.create_authorization_url(
            facts.authorization_endpoint,
            redirect_uri=redirect_uri,
            state=attempt.state,
            nonce=attempt.nonce,
            code_verifier=attempt.verifier,
        )
        return url, attempt

    async def finish(self, attempt: Attempt, code: str, *, network: str) -> PageSession:
        """Returns who signed in. `network`: where the browser's request comes from, whose
        share it takes.

        Raises: AuthError, IdentityProviderDown.
        """
        facts, keys = await self._published()
        async with self._asked(facts, network, redirect_uri=attempt.redirect_uri) as client:
            answer = await client.fetch_token(
                facts.token_endpoint,
                grant_type="authorization_code",
                code=code,
                code_verifier=attempt.verifier,
            )
        claims = await self._claims(answer.get("id_token"), facts, keys)
        if not secrets.compare_digest(
            str(claims.get("nonce", "")).encode(), attempt.nonce.encode()
        ):
            raise _refused("nonce")
        return self._session(claims, str(answer.get("refresh_token") or ""))

    async def renew(self, session: PageSession) -> PageSession:
        """Ask whether a session goes on. Raises: AuthError where it
        does not, IdentityProviderDown.
        """
        if not session.refresh:
            raise AuthError(code="sign_in_ended")
        facts, keys = await self._published()
        async with self._asked(facts, session.user_id) as client:
            answer = await client.refresh_token(facts.token_endpoint, refresh_token=session.refresh)
        refresh = str(answer.get("refresh_token") or session.refresh)
        if "id_token" not in answer:  # the session goes on, and nothing new is known
            return replace(session, refresh=refresh, checked=self._clock())
        renewed = self._session(await self._claims(answer["id_token"], facts, keys), refresh)
        if renewed.user_id != session.user_id:
            raise _refused("another person")
        return renewed

    async def end(self, session: PageSession, back_to: str) -> str:
        """Withdraws a session's refresh token; returns where the browser signs out of the
        provider, or "".

        Raises: IdentityProviderDown.
        """
        facts, _ = await self._published()
        if session.refresh and facts.revocation_endpoint:
            with suppress(AuthError, IdentityProviderDown):
                async with self._asked(facts, session.user_id) as client:
                    await client.revoke_token(
                        facts.revocation_endpoint,
                        token=session.refresh,
                        token_type_hint="refresh_token",
                    )
        if not facts.end_session_endpoint:
            return ""
        asked = {
            "client_id": self._settings.oidc_client_id or "",
            "post_logout_redirect_uri": back_to,
        }
        mark = "&" if "?" in facts.end_session_endpoint else "?"
        return f"{facts.end_session_endpoint}{mark}{urlencode(asked)}"

    async def _published(self) -> tuple[ProviderFacts, KeySet]:
        """Return what the provider publishes. What is known goes on being good while it is down."""
        async with self._reading:
            now = self._clock()
            if now >= self._read_next:
                try:
                    facts = await discover(self._issuer)
                    self._known = (facts, KeySet(facts.jwks_uri, kinds=KINDS))
                    self._read_next = now + FRESH_S
                except IdentityProviderDown as exc:
                    log.warning("sign_in_provider_down", extra={"reason": exc.why})
                    # or many would wait one after the other
                    self._read_next = self._clock() + PAUSE_S
            if self._known is None:
                raise IdentityProviderDown(why="it did not answer")
            return self._known

    async def _client(self, facts: ProviderFacts, **more: Any) -> Any:
        secret = self._settings.oidc_client_secret
        method = (
            "client_secret_basic"
            if "client_secret_basic" in facts.auth_methods
            else "client_secret_post"
        )
        return self._client_kind(
            client_id=self._settings.oidc_client_id,
            client_secret=secret.get_secret_value() if secret else None,
            token_endpoint_auth_method=method if secret else "none",
            revocation_endpoint_auth_method=method if secret else "none",
            timeout=ANSWER_S,
            verify=await trusted(),
            follow_redirects=False,
            trust_env=False,
            **more,
        )

    @asynccontextmanager
    async def _asked(self, facts: ProviderFacts, holder: str, **more: Any) -> AsyncGenerator[Any]:
        """Yields a client for one request, in the share of a person or network.

        Raises: AuthError where it is refused, IdentityProviderDown.
        """
        from authlib.common.errors import AuthlibBaseError

        try:
            async with (
                self._asking.held(holder),
                asyncio.timeout(ANSWER_S),
                await self._client(facts, **more) as client,
            ):
                yield client
        except AuthlibBaseError as exc:
            raise _refused(str(exc.error)) from exc
        except (httpx2.HTTPError, OSError, ValueError) as exc:
            raise _down(exc) from exc

    async def _claims(self, token: object, facts: ProviderFacts, keys: KeySet) -> dict[str, Any]:
        """Return the claims of an ID token that this provider signed for this
        client. Raises: AuthError.
        """
        settings = self._settings
        try:
            header = jwt.get_unverified_header(str(token))
            algorithm = header.get("alg")
            key_id = header.get("kid")
            if algorithm not in facts.algorithms:
                raise _refused("alg")
            claims = jwt.decode(
                str(token),
                await keys.key(key_id if isinstance(key_id, str) else None),
                algorithms=[algorithm],
                audience=settings.oidc_client_id,
                issuer=self._issuer,
                leeway=settings.auth_leeway_s,
                options={"require": ["exp", "iat", "sub", "iss", "aud"]},
            )
        except KeysUnavailable as exc:
            raise _down(exc) from exc
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as exc:
            raise _refused(type(exc).__name__) from exc
        if claims.get("azp", settings.oidc_client_id) != settings.oidc_client_id:
            raise _refused("azp")
        return claims

    def _session(self, claims: Mapping[str, Any], refresh: str) -> PageSession:
        settings = self._settings
        now = self._clock()
        roles = granted(claims, settings.oidc_roles)
        places = (
            granted(claims, settings.oidc_workspaces)
            if settings.oidc_workspaces
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
            ends=min(float(claims["exp"]), now + LONGEST_S),
            refresh=refresh,
        )


def granted(claims: Mapping[str, Any], table: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what a table of the settings gives for claims; each once.

    A claim is named as it stands, or as a path with dots (`realm_access.roles`). An address of mail
    that the provider says it did not verify counts for nothing.
    """
    found: dict[str, None] = {}
    for claim, grants in table.items():
        if claim == "email" and claims.get("email_verified") in (False, "false"):
            continue
        held = _texts(_claim(claims, claim))
        found |= {
            grant: None
            for value, grant in grants.items()
            if value in held or (value == "*" and held)
        }
    return list(found)


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


def _down(exc: Exception) -> IdentityProviderDown:
    log.warning("sign_in_provider_down", extra={"reason": type(exc).__name__})
    return IdentityProviderDown(why=type(exc).__name__)


def _refused(why: str) -> AuthError:
    log.warning("sign_in_refused", extra={"reason": why[:100]})
    return AuthError(code="sign_in_refused")
