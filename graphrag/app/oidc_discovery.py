"""Reads the metadata that an OpenID Connect provider publishes, and reports problems that would
prevent signing in.

Source: OpenID Connect Discovery 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import orjson

from datasources.base import Finding
from graphrag.app.bounded_download import TIMEOUT_S, download
from graphrag.config import Settings, SettingsError
from graphrag.i18n import LocalizedError
from tools.http.addresses import is_loopback

# Signatures with published keys only: never with a shared secret, never none at all.
ASYMMETRIC = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)


class IdentityProviderDown(LocalizedError):
    """The provider does not answer, or its answer violates the protocol.

    `why` is for the operator's log, not for the person who signs in.
    """

    def __init__(self, *, why: str) -> None:
        self.why = why
        super().__init__()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFacts:
    """The endpoints and signature algorithms of a provider. A missing optional endpoint is
    empty.
    """

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str = ""
    revocation_endpoint: str = ""
    algorithms: tuple[str, ...] = ("RS256",)
    auth_methods: tuple[str, ...] = ("client_secret_basic",)


def is_private_way(address: str) -> bool:
    """Returns True if nobody can read or change the traffic: https, or an address of this
    computer.
    """
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def check_oidc_settings(settings: Settings) -> None:
    """Raises SettingsError for settings with which nobody could sign in."""
    if not is_private_way(settings.oidc.issuer or ""):
        raise _wrong("oidc_issuer", "a provider is asked at an https address, or on this computer")
    if settings.oidc.client_id is None:
        raise _wrong(
            "oidc_client_id", "the provider knows this service by its client id: register one there"
        )
    if settings.auth.secret is None:
        raise _wrong(
            "auth_secret", "the service signs its own tokens after a sign-in at the provider"
        )
    if not settings.oidc.roles:
        raise _wrong(
            "oidc_roles",
            'nobody would get a role; an example: {"groups": {"graph-admins": "admin"}}',
        )
    if find_spec("authlib") is None:
        raise _wrong(
            "oidc_issuer", "signing in at a provider needs: pip install 'nodius-graphrag[oidc]'"
        )


def _wrong(name: str, reason: str) -> SettingsError:
    return SettingsError(name=name, origin=f"NODIUS_{name.upper()}", reason=reason)


async def discover(issuer: str, *, timeout_s: float = TIMEOUT_S) -> ProviderFacts:
    """Returns the published metadata of a provider, validated. Raises: IdentityProviderDown."""
    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        metadata: Any = orjson.loads(await download(address, timeout_s=timeout_s))
    except httpx2.HTTPStatusError as exc:
        raise IdentityProviderDown(why=f"{address} answers {exc.response.status_code}") from exc
    except TimeoutError as exc:
        raise IdentityProviderDown(why=f"{address} did not answer within {timeout_s:g} s") from exc
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as exc:
        raise IdentityProviderDown(
            why=f"{address} cannot be read ({exc or type(exc).__name__})"
        ) from exc
    if not isinstance(metadata, dict):
        raise IdentityProviderDown(why=f"{address} is no JSON object")
    return _checked(cast(dict[str, Any], metadata), issuer)


def _checked(metadata: Mapping[str, Any], issuer: str) -> ProviderFacts:
    if metadata.get("issuer") != issuer:
        raise IdentityProviderDown(
            why=f"the provider calls itself {metadata.get('issuer')!r}, not {issuer!r}"
        )
    needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    given = {
        name: metadata.get(name)
        for name in (*needed, "end_session_endpoint", "revocation_endpoint")
    }
    ways = {name: at for name, at in given.items() if isinstance(at, str) and is_private_way(at)}
    if missing := [name for name in needed if name not in ways]:
        raise IdentityProviderDown(
            why=f"the provider names no https address as {', '.join(missing)}"
        )
    signed = _words(metadata.get("id_token_signing_alg_values_supported"), "RS256")
    if not (algorithms := tuple(one for one in signed if one in ASYMMETRIC)):
        raise IdentityProviderDown(
            why=f"the provider signs ID tokens in no way that is taken: {', '.join(signed)}"
        )
    methods = _words(metadata.get("token_endpoint_auth_methods_supported"), "client_secret_basic")
    return ProviderFacts(**ways, algorithms=algorithms, auth_methods=methods)


def _words(value: Any, default: str) -> tuple[str, ...]:
    listed = cast(list[Any], value) if isinstance(value, list) else [default]
    return tuple(str(one) for one in listed)


async def examine_sign_in(settings: Settings, patience_s: float) -> list[Finding]:
    """Checks that people can sign in at the configured provider. Returns no findings
    without one.
    """
    if settings.oidc.issuer is None:
        return []
    try:
        check_oidc_settings(settings)
        facts = await discover(settings.oidc.issuer, timeout_s=patience_s)
        await download(facts.jwks_uri, timeout_s=patience_s)
    except SettingsError as exc:
        return [Finding("sign-in", "error", str(exc), "correct the setting")]
    except (IdentityProviderDown, httpx2.HTTPError, OSError, ValueError) as exc:
        why = (
            exc.why if isinstance(exc, IdentityProviderDown) else f"its keys cannot be read ({exc})"
        )
        fix = "start the provider, or correct NODIUS_OIDC_ISSUER"
        return [Finding("sign-in", "error", f"{settings.oidc.issuer}: {why}", fix)]
    roles = sorted({role for values in settings.oidc.roles.values() for role in values.values()})
    detail = (
        f"at {settings.oidc.issuer}, as client {settings.oidc.client_id}; "
        f"roles given: {', '.join(roles)}"
    )
    return [Finding("sign-in", "ok", detail)]
