"""Posts signed requests to the address of `notify_url`, as Standard Webhooks 1.0 says.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import httpx2
import orjson

from graphrag.config import Settings, SettingsError
from tools.http.interim_answers import BoundedTransport
from tools.trace_context import TRACED

TIMEOUT_S: Final = 10.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """The receiver of the requests. `page_url`: the beginning of links to the page.

    Each request is signed with all `keys`: a receiver that knows one of them accepts it.
    """

    url: str | None
    keys: tuple[bytes, ...] = ()
    page_url: str = ""

    @classmethod
    def of(cls, settings: Settings) -> WebhookTarget:
        """Returns the receiver of the settings. Raises: SettingsError for an unusable secret."""
        secrets_by_name = {
            "notify_secret": settings.notify.secret,
            "notify_secret_before": settings.notify.secret_before,
        }
        keys = tuple(
            _key(name, secret.get_secret_value())
            for name, secret in secrets_by_name.items()
            if secret is not None
        )
        return cls(url=settings.notify.url, keys=keys, page_url=page_url(settings))

    async def post(self, key: str, body: Mapping[str, Any], *, sent_s: int) -> int | str:
        """Posts a request. Returns the HTTP status, or the name of the error of the connection.

        The answer's body is not read, however long it is. Units: `sent_s` in seconds since 1970.
        """
        content = orjson.dumps(dict(body))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": key,
            "webhook-timestamp": str(sent_s),
        }
        if self.keys:
            signed = b".".join((key.encode(), str(sent_s).encode(), content))
            digests = (hmac.digest(each, signed, "sha256") for each in self.keys)
            headers["webhook-signature"] = " ".join(
                f"v1,{base64.b64encode(each).decode()}" for each in digests
            )
        try:
            async with (
                asyncio.timeout(2 * TIMEOUT_S),
                httpx2.AsyncClient(
                    timeout=TIMEOUT_S, trust_env=False, transport=BoundedTransport(), **TRACED
                ) as client,
                client.stream("POST", str(self.url), content=content, headers=headers) as answer,
            ):
                return answer.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as exc:
            return type(exc).__name__


def _key(name: str, secret: str) -> bytes:
    """Returns the key of a secret: the bytes that `whsec_` and base64 encode, or the bytes of the
    text.
    """
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        reason = "it begins with whsec_, but no base64 follows"
        raise SettingsError(name=name, origin="settings", reason=reason) from None


def page_url(settings: Settings) -> str:
    """Returns the address of the page for other programs, without a slash at the end."""
    return (settings.public_url or f"http://{settings.host}:{settings.port}").rstrip("/")
