"""The public keys that check the tokens of callers: a key set from an address or a file.

Sign-in at an identity provider does not use it: authlib reads the provider's keys there. Callers
choose the key id of a token, so this set limits how often a new id makes it read again; authlib
does not.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import jwt
import orjson

from graphrag.app.bounded_download import MAX_BYTES, TIMEOUT_S, download
from graphrag.app.oidc_discovery import is_private_way
from graphrag.config import SettingsError
from server.errors import AuthError, KeysUnavailable

log = logging.getLogger(__name__)

FRESH_S = 300.0  # a key set is read again when it is older: withdrawn keys stop working
PAUSE_S = 15.0  # between two reads: forged key ids must not call the issuer each time


class KeySet:
    """Keys by their ids, read when first needed and again after FRESH_S. Units: seconds."""

    def __init__(
        self,
        address: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Raises: SettingsError for an address that is neither https nor on this computer."""
        self._address = address
        self._clock = clock
        self._timeout_s = timeout_s
        self._is_remote = "://" in address
        if self._is_remote and not is_private_way(address):
            reason = "a key set is read from a file, an https address or this computer"
            raise SettingsError(name="auth_jwks", origin="settings", reason=reason)
        self._keys: dict[str | None, Any] = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._reading = asyncio.Lock()

    async def key(self, key_id: str | None) -> Any:
        """Returns the public key of an id; without an id, the only key there is.

        Raises: AuthError, KeysUnavailable.
        """
        # While another task reads the set again, a key that is in the set need not wait for it.
        if self._is_due(key_id) and not (self._reading.locked() and key_id in self._keys):
            async with self._reading:
                if self._is_due(key_id):
                    await self._refresh()
        if not self._keys:
            raise KeysUnavailable
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if key_id not in self._keys:
            raise AuthError(code="token_signature")
        return self._keys[key_id]

    def _is_due(self, key_id: str | None) -> bool:
        now = self._clock()
        if self._tried_at is not None and now - self._tried_at < PAUSE_S:
            return False
        is_stale = self._read_at is None or now - self._read_at >= FRESH_S
        return is_stale or (key_id is not None and key_id not in self._keys)

    async def _refresh(self) -> None:
        try:
            raw = await (
                download(self._address, timeout_s=self._timeout_s)
                if self._is_remote
                else asyncio.to_thread(lambda: Path(self._address).expanduser().read_bytes())
            )
            self._keys = _keys(raw)
            self._read_at = self._clock()
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            OSError,
            orjson.JSONDecodeError,
            jwt.PyJWTError,
            ValueError,
        ) as exc:
            # Keys that were read before stay valid: an issuer that is down must not lock
            # everybody out.
            log.warning(
                "keys_unavailable", extra={"error": type(exc).__name__, "known": len(self._keys)}
            )
        finally:
            self._tried_at = self._clock()  # at the end: until then others wait for the result


def _keys(raw: bytes) -> dict[str | None, Any]:
    """Returns the RSA keys of a set that may sign. Raises: PyJWTError, ValueError."""
    if len(raw) > MAX_BYTES:
        raise ValueError("the key set is too large")
    document: Any = orjson.loads(raw)
    if not isinstance(document, dict):
        raise ValueError("a key set is an object")  # noqa: TRY004 - it is the value of what was read
    keys = jwt.PyJWKSet.from_dict(document).keys  # pyright: ignore[reportUnknownArgumentType]
    return {
        key.key_id: key.key for key in keys if key.key_type == "RSA" and key.public_key_use != "enc"
    }
