"""The secret of a server that was given none: made at its first start and kept in a file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from graphrag.app.access_tokens import sign_token
from graphrag.app.wiring import LOCAL_USER
from graphrag.config import Settings

FIRST_S = 43_200.0  # lifetime of the first sign-in: 12 hours


def with_kept_secret(
    settings: Settings, file: Path, say: Callable[[str], None]
) -> tuple[Settings, str | None]:
    """Returns the settings with the secret in a file where they have no sign-in, and at the first
    start, which makes it, a token of an admin.

    Raises: OSError.
    """
    auth = settings.auth
    if auth.secret or auth.public_key or auth.jwks:
        return settings, None
    is_first = not file.exists()
    if is_first:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
            made.write(secrets.token_hex(32))
    secret = SecretStr(file.read_text(encoding="utf-8").strip())
    settings = settings.with_values({"auth_secret": secret})
    say(
        f"the secret of sign-in is in {file.resolve()}; another sign-in: "
        f'NODIUS_AUTH_SECRET="$(cat {file.resolve()})" nodius token --role admin'
    )
    if not is_first:
        return settings, None
    token, _ = sign_token(
        settings,
        user=LOCAL_USER,
        role="admin",
        workspaces=[settings.workspace],
        lifetime_s=FIRST_S,
    )
    return settings, token
