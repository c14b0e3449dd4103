"""Identifies callers by signed tokens. Without configured sign-in every caller is the local admin.

Source: RFC 7519 (tokens), RFC 8725 (their safe use): the algorithm is chosen by the key, never by
the token.

A server without sign-in answers only pages of this computer. A foreign site can make a browser call
an address of this computer; the Host and Origin headers reveal that, also if a DNS name was made to
point here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast, final
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from starlette.requests import HTTPConnection

from graphrag.app.access_tokens import is_name
from graphrag.app.api_keys import ApiKeys, is_api_key
from graphrag.app.wiring import LOCAL_USER
from graphrag.config import Settings, SettingsError
from graphrag.roles import CALLER, ROLE_ORDER, Channel, ClientInfo, Person
from graphrag.workers import person_id
from server.errors import AuthError, ForeignPage, RoleNeeded
from server.http_connections import connection_of
from server.jwks import KeySet
from tools.base import Role
from tools.http.addresses import is_loopback

MAX_TOKEN = 16_384
MAX_WORKSPACES = 100
# A program may name itself in it, as `name/version`; the page is `page`.
CLIENT_HEADER = "X-Nodius-Client"
MAX_CLIENT_NAME = 100


_CHANNELS: dict[str, Channel] = {"/mcp": "mcp", "/v1/": "openai", "/api/agui/": "ag-ui"}
OVER_HTTP = ClientInfo(channel="api")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A caller and their workspaces, in order and at least one.

    `name`: the person's own, if their token has one; the name of an API key is in `username`.
    Units: `expires` in seconds since 1970; None: never.
    """

    user_id: str
    role: Role
    workspaces: tuple[str, ...]
    username: str = ""
    name: str = ""
    expires: float | None = None
    client: ClientInfo = OVER_HTTP

    def person(self, workspace: str) -> Person:
        """Returns the person in one of their workspaces."""
        return Person(self.user_id, self.role, workspace, self.client, self.name)

    def through(self, channel: Channel, name: str = "", version: str = "") -> Identity:
        """Returns the identity with the program through which it acts."""
        named = replace(self.client, channel=channel, name=_shown(name), version=_shown(version))
        return replace(self, client=named)

    def require(self, role: Role) -> None:
        """Raises: RoleNeeded for a lower role."""
        if ROLE_ORDER.index(self.role) < ROLE_ORDER.index(role):
            raise RoleNeeded(user=self.user_id, role=self.role, needed=role)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKeys:
    """The keys of the settings that check signed tokens."""

    secret: str | None = None
    public_key: RSAPublicKey | None = None
    key_set: KeySet | None = None

    @classmethod
    def of(cls, settings: Settings) -> TokenKeys:
        """Raises: SettingsError for an unusable key."""
        secret = settings.auth.secret
        public_key = settings.auth.public_key
        return cls(
            secret=secret.get_secret_value() if secret else None,
            public_key=_public_key(public_key) if public_key else None,
            key_set=KeySet(settings.auth.jwks) if settings.auth.jwks else None,
        )

    @property
    def is_configured(self) -> bool:
        """Whether callers must sign in."""
        return any(key is not None for key in (self.secret, self.public_key, self.key_set))


@final
class Authenticator:
    """Identifies callers by their tokens: signed ones, and the API keys of programs."""

    def __init__(
        self,
        settings: Settings,
        token_keys: TokenKeys | None = None,
        api_keys: ApiKeys | None = None,
    ) -> None:
        """Without `token_keys`, those of the settings are used; without `api_keys`, API keys are
        refused.

        Raises: SettingsError for an unusable key.
        """
        self._settings = settings
        self._token_keys = token_keys or TokenKeys.of(settings)
        self._api_keys = api_keys

    @property
    def is_configured(self) -> bool:
        """Whether callers must sign in."""
        return self._token_keys.is_configured

    async def authenticate(self, token: str | None, channel: Channel = "api") -> Identity:
        """Returns the caller with a token, who comes by `channel`.

        Without sign-in in the settings everybody is the local admin: `check_own_page` must check
        that they are at this computer.

        Raises: AuthError, KeysUnavailable.
        """
        if token is not None and is_api_key(token):
            return await self._of_key(token, channel)
        if not self.is_configured:
            workspaces = (self._settings.workspace,)
            local = Identity(
                user_id=LOCAL_USER, role="admin", workspaces=workspaces, username=LOCAL_USER
            )
            return local.through(channel)
        if not token:
            raise AuthError(code="no_token")
        claims = await self._claims(token)
        expires = int(claims["exp"]) + self._settings.auth.leeway_s
        return replace(identity_of(claims), expires=expires).through(channel)

    async def _of_key(self, token: str, channel: Channel) -> Identity:
        key = None
        if self._api_keys is not None and len(token) <= MAX_TOKEN:
            key = await self._api_keys.find(token, channel)
        if key is None:
            raise AuthError(code="key_refused")
        return Identity(
            user_id=key.user,
            role=key.role,
            workspaces=key.workspaces,
            username=key.name or key.user,
            expires=key.expires / 1000,
            client=ClientInfo(channel=channel, name=key.name, key_id=key.id),
        )

    async def _claims(self, token: str) -> dict[str, Any]:
        if len(token) > MAX_TOKEN:
            raise AuthError(code="token_malformed")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError) as exc:
            raise AuthError(code="token_malformed") from exc
        algorithm = header.get("alg")
        key = await self._key(algorithm, header.get("kid"))
        settings = self._settings
        needed = [
            "exp",
            *(["iss"] if settings.auth.issuer else []),
            *(["aud"] if settings.auth.audience else []),
        ]
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[str(algorithm)],
                audience=settings.auth.audience,
                issuer=settings.auth.issuer,
                leeway=settings.auth.leeway_s,
                options={"require": needed, "verify_aud": settings.auth.audience is not None},
            )
        except jwt.PyJWTError as exc:
            raise _refusal(exc) from exc
        except (ValueError, OverflowError) as exc:  # numbers of dates that no clock shows
            raise AuthError(code="token_malformed") from exc

    async def _key(self, algorithm: object, key_id: object) -> Any:
        keys = self._token_keys
        if algorithm == "HS256" and keys.secret is not None:
            return keys.secret
        if algorithm == "RS256" and keys.key_set is not None:
            return await keys.key_set.key(key_id if isinstance(key_id, str) else None)
        if algorithm == "RS256" and keys.public_key is not None:
            return keys.public_key
        raise AuthError(code="token_algorithm")


def _refusal(exc: jwt.PyJWTError) -> AuthError:
    match exc:
        case jwt.ExpiredSignatureError():
            return AuthError(code="token_expired")
        case jwt.ImmatureSignatureError():
            return AuthError(code="token_early")
        case jwt.MissingRequiredClaimError():
            return AuthError(code="token_claims", claim=exc.claim)
        case jwt.InvalidAudienceError():
            return AuthError(code="token_claims", claim="aud")
        case jwt.InvalidIssuerError():
            return AuthError(code="token_claims", claim="iss")
        case jwt.InvalidSignatureError() | jwt.InvalidKeyError():
            return AuthError(code="token_signature")
        case jwt.exceptions.InvalidSubjectError():
            return AuthError(code="token_claims", claim="sub")
        case _:
            return AuthError(code="token_malformed")


def identity_of(claims: dict[str, Any]) -> Identity:
    """Returns the identity in the claims of a verified token. Raises: AuthError.

    User: `sub`, else `userId`. Workspaces: `workspaces`, else `workspace`. Role: the highest of
    `roles` or `role`; viewer if no role is known.
    """
    user = next((_name(claims[name]) for name in ("sub", "userId") if name in claims), None)
    if user is None or user.startswith(CALLER):  # that is who is on the telephone, and has no token
        raise AuthError(code="token_claims", claim="sub")
    listed = claims.get("workspaces", claims.get("workspace"))
    workspaces = dict.fromkeys(_name(item) for item in _items(listed))
    workspaces.pop(None, None)
    if not workspaces or len(workspaces) > MAX_WORKSPACES:
        raise AuthError(code="token_claims", claim="workspaces")
    named = _items(claims.get("roles", claims.get("role")))
    roles: list[Role] = [role for role in ROLE_ORDER if role in named]
    named_as = ("username", "name", "preferred_username")
    shown = next((_name(claims[name]) for name in named_as if name in claims), None)
    return Identity(
        user_id=user,
        role=roles[-1] if roles else "viewer",
        workspaces=tuple(name for name in workspaces if name is not None),
        username=shown or user,
        name=shown or "",
        client=ClientInfo(channel="api", key_id=_name(claims.get("jti"))),
    )


def _shown(name: str) -> str:
    return "".join(letter for letter in name[:MAX_CLIENT_NAME] if letter.isprintable())


def _items(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]


def _name(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if is_name(value) else None


def _public_key(text: str) -> RSAPublicKey:
    """Returns the key of a PEM text, or of the file with that name. Raises: SettingsError."""
    try:
        pem = (
            text.encode()
            if text.lstrip().startswith("-----BEGIN")
            else Path(text).expanduser().read_bytes()
        )
        key = load_pem_public_key(pem)
    except (OSError, ValueError, UnsupportedAlgorithm) as exc:
        reason = f"it is neither a PEM public key nor a file with one ({type(exc).__name__})"
        raise SettingsError(name="auth_public_key", origin="settings", reason=reason) from None
    if not isinstance(key, RSAPublicKey):
        raise SettingsError(
            name="auth_public_key", origin="settings", reason="it is not an RSA key"
        )
    return key


_bearer = HTTPBearer(
    auto_error=False, description="A signed token; not needed where sign-in is not configured."
)


async def caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> Identity:
    """Returns the caller of an endpoint. Raises: AuthError, KeysUnavailable, ForeignPage."""
    identity: Identity | None = getattr(request.state, "identity", None)
    return identity or await sign_in(request, given.credentials if given else None)


def bearer_token(request: Request) -> str | None:
    """Returns the token of a request."""
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    return token if scheme.lower() == "bearer" else None


def channel_of(path: str) -> Channel:
    """Returns the channel of a request."""
    for beginning, channel in _CHANNELS.items():
        if path.startswith(beginning):
            return channel
    return "api"


async def sign_in(request: Request, token: str | None) -> Identity:
    """Identifies the sender of a request and records it.

    Raises: AuthError, KeysUnavailable, ForeignPage, TooManyRequests.
    """
    authenticator: Authenticator = request.app.state.server.authentication.authenticator
    if not authenticator.is_configured and not is_api_key(token):
        check_own_page(request)
    identity = await authenticator.authenticate(token, channel_of(request.url.path))
    name, _, version = request.headers.get(CLIENT_HEADER, "").partition("/")
    if name:
        coming = identity.client
        is_page = name == "page" and coming.channel == "api" and not is_api_key(token)
        identity = identity.through("page" if is_page else coming.channel, name, version)
    request.state.identity = identity
    request.state.user_id = identity.user_id
    mark_signed(request, identity.user_id)
    return identity


def mark_signed(connection: HTTPConnection, user_id: str | None) -> None:
    """Counts a connection, if there is one, for the person who signed in or for a telephone call
    (None), and the work of the current task for the person.

    Raises: TooManyRequests if this person has the maximum of connections and none is idle.
    """
    if (held := connection_of(connection)) is not None:
        held.signed(user_id)
    if user_id is not None:
        person_id.set(user_id)


# Parameter of endpoints: the caller.
Caller = Annotated[Identity, Depends(caller)]


def check_own_page(connection: HTTPConnection) -> None:
    """Raises: ForeignPage for requests that are not of this computer and its own pages."""
    peer = connection.client.host if connection.client else ""
    called = _host(f"//{connection.headers.get('host', '')}")
    origin = connection.headers.get("origin")
    if not is_loopback(peer) or not is_loopback(called):
        raise ForeignPage
    if origin is not None and authority(origin) != connection.headers.get("host", "").lower():
        raise ForeignPage


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def authority(url: str) -> str:
    """Returns host and port of an address, "" if it is none."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""
