"""Signs the service's own tokens: JWTs for a person with a role and workspaces."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeGuard

import jwt

from graphrag.config import Settings, SettingsError
from graphrag.roles import CALLER
from tools.base import Role

MAX_DAYS = 365
MAX_NAME = 200
_MAKE = (
    "set NODIUS_AUTH_SECRET to 32 characters or more that nobody can guess, "
    "as `openssl rand -hex 32` prints"
)


def is_name(value: object) -> TypeGuard[str]:
    """Returns True if a value may name a person or workspace in a token."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable()


def sign_token(
    settings: Settings,
    *,
    user: str,
    role: Role,
    workspaces: Sequence[str],
    lifetime_s: float,
    username: str = "",
) -> tuple[str, int]:
    """Returns a signed token and its expiry, in seconds since 1970.

    Raises: SettingsError if no secret is set; ValueError for a name or lifetime out of bounds.
    """
    secret = settings.auth.secret
    if secret is None:
        others = settings.auth.jwks or settings.auth.public_key
        reason = "is not set: " + _MAKE
        if others:
            reason = (
                "is not set, and only the holder of the private key signs tokens: "
                "ask your identity provider"
            )
        raise SettingsError(name="auth_secret", origin="NODIUS_AUTH_SECRET", reason=reason)
    if not is_name(user) or user.startswith(CALLER):
        raise ValueError(f"a user is named by 1 to {MAX_NAME} printable characters")
    if not all(is_name(name) for name in workspaces):
        raise ValueError(f"a workspace is named by 1 to {MAX_NAME} printable characters")
    if not 0 < lifetime_s <= MAX_DAYS * 86_400:
        raise ValueError(f"a token is valid for more than 0 and at most {MAX_DAYS} days")
    now = time.time()
    claims: dict[str, Any] = {
        "sub": user,
        "roles": [role],
        "workspaces": list(workspaces),
        "iat": int(now),
        "exp": int(now + lifetime_s),
    }
    more = {"username": username, "iss": settings.auth.issuer, "aud": settings.auth.audience}
    claims |= {name: value for name, value in more.items() if value}
    return jwt.encode(claims, secret.get_secret_value(), algorithm="HS256"), claims["exp"]
