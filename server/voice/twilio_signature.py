"""Checks signatures of Twilio, which sign the public address of this service and the submitted
form.

The address comes from the settings and the path, never from the `Host` header, which a sender
chooses.
"""

from __future__ import annotations

import base64
import hmac
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from graphrag.config import Settings
from server.auth import check_own_page
from server.errors import SignatureRefused

log = logging.getLogger(__name__)

SIGNATURE_HEADER = "X-Twilio-Signature"
# Names the shared key and algorithm of a signature: `key=ID,algorithm=NAME`.
SETTINGS_HEADER = "X-Twilio-Webhooks-Signature-Settings"

Form = Sequence[tuple[str, str]]
_SECURE = {"wss": "https", "ws": "http"}
_ALGORITHMS = {"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}


def signature_of(secret: str, url: str, form: Form, algorithm: str = "sha1") -> str:
    """Returns the signature of Twilio: of the address, and of each name with its distinct
    values.
    """
    text = url + "".join(name + value for name, value in sorted(set(form)))
    digest = hmac.digest(secret.encode(), text.encode(), algorithm)
    return base64.b64encode(digest).decode()


def spellings(url: str) -> Iterator[str]:
    """Yields the addresses that Twilio may have signed: with and without port; for a WebSocket also
    as `https`, each with and without a slash at the end.
    """
    addresses = [url]
    scheme, colon, rest = url.partition("://")
    if scheme in _SECURE:
        bare = rest.removesuffix("/")
        addresses = [
            f"{name}{colon}{bare}{end}" for name in (scheme, _SECURE[scheme]) for end in ("", "/")
        ]
    for one in addresses:
        parts = urlsplit(one)
        host = parts.netloc if parts.port is None else parts.netloc.removesuffix(f":{parts.port}")
        # Without a port of its own: the vendor's validator takes 80 for everything but `https`.
        usual = {"https": (443,), "wss": (443, 80)}.get(parts.scheme, (80,))
        ports = usual if parts.port is None else (parts.port,)
        for place in (host, *(f"{host}:{port}" for port in ports)):
            yield parts._replace(netloc=place).geturl()


@dataclass(frozen=True, slots=True, kw_only=True)
class TwilioSignature:
    """Checks signatures. `public_url`: the address at which Twilio reaches this service;
    `shared_keys`: secrets by id.
    """

    public_url: str | None
    auth_token: str | None
    shared_keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @classmethod
    def of(cls, settings: Settings) -> TwilioSignature:
        """Returns the checker for the settings."""
        token = settings.twilio.auth_token
        keys = settings.twilio.shared_keys
        return cls(
            public_url=settings.public_url,
            auth_token=token.get_secret_value() if token is not None else None,
            shared_keys=_pairs(keys.get_secret_value()) if keys is not None else {},
        )

    @property
    def is_configured(self) -> bool:
        """True if requests must be signed; otherwise only those of this computer are answered."""
        return self.auth_token is not None or bool(self.shared_keys)

    def check(self, connection: HTTPConnection, form: Form = ()) -> None:
        """Accepts requests by Twilio only; without a token of Twilio only those of this computer.

        Raises: SignatureRefused, ForeignPage.
        """
        if not self.is_configured:
            check_own_page(connection)
        elif not self._is_signed(connection, form):
            raise SignatureRefused

    def _is_signed(self, connection: HTTPConnection, form: Form) -> bool:
        given = connection.headers.get(SIGNATURE_HEADER, "")
        secret, algorithm = self._key(connection.headers.get(SETTINGS_HEADER, ""))
        if self.public_url is None:
            log.warning("voice_without_public_url")
            return False
        if not given or secret is None:
            return False
        url = self._signed_url(self.public_url, connection)
        expected = [
            signature_of(secret, one, form, algorithm) for one in dict.fromkeys(spellings(url))
        ]
        sent = given.encode()
        # all are compared
        return sum(hmac.compare_digest(one.encode(), sent) for one in expected) > 0

    def _key(self, settings: str) -> tuple[str | None, str]:
        """Returns the secret and algorithm that a request names, None for an unknown key."""
        named = _pairs(settings)
        algorithm = _ALGORITHMS.get(named.get("algorithm", "HMAC_SHA1").upper())
        if algorithm is None:
            return None, "sha1"
        if "key" in named:
            return self.shared_keys.get(named["key"]), algorithm
        return (self.auth_token if algorithm == "sha1" else None), algorithm

    def _signed_url(self, public_url: str, connection: HTTPConnection) -> str:
        base = public_url.rstrip("/")
        if connection.scope["type"] == "websocket":
            base = f"ws{base.removeprefix('http')}"
        path = connection.scope.get("raw_path") or connection.scope["path"].encode()
        query = connection.scope.get("query_string", b"")
        return base + (path + (b"?" + query if query else b"")).decode("latin-1")


def _pairs(text: str) -> dict[str, str]:
    """Returns the pairs of `NAME=VALUE` separated by commas; parts without a value are ignored."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}
