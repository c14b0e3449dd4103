"""Requests to a workflow server: one host, no redirects, bounded in time and bytes.

Each way in which an address can be the wrong one has an error of its own, because a person who
connects a server for the first time has to learn from it what to do.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson
from websockets.asyncio.client import ClientConnection

from graphrag.connections.errors import EditorFault, EditorUnreachable, FaultCode
from graphrag.connections.server_socket import server_socket
from graphrag.importers.json_values import as_dict, as_text
from tools.http.addresses import METADATA, AddressRefused, AddressRules
from tools.http.checked_transport import CheckedTransport
from tools.secret_texts import redacted

MAX_ANSWER_BYTES = 64 * 1024 * 1024
REQUEST_S = 60.0
CONNECT_S = 5.0
MAX_REASON_CHARS = 300
GATEWAY_STATUSES = (502, 503, 504)
"""Answers of a proxy whose server is away, and of a server that starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """An answer of any status but a redirect. `value` is its JSON, None where it has none."""

    status: int
    value: Any = None
    is_html: bool = False
    text: str = ""


def server_rules(address: str, *, allow_private: bool) -> AddressRules:
    """Returns rules by which only the server itself is reached.

    A private address, such as one of this computer, is reached where `allow_private`; a service
    that hands out the credentials of a computer in a cloud never is.
    """
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    is_allowed = allow_private and host not in {str(each) for each in METADATA}
    return AddressRules(only=(place,), allow=(place,) if is_allowed else ())


class ServerHttp:
    """Sends the requests of one connection to the server at `address`."""

    def __init__(
        self,
        address: str,
        rules: AddressRules,
        *,
        headers: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        request_s: float = REQUEST_S,
    ) -> None:
        self.address = address.rstrip("/")
        self._request_s = request_s
        self._rules = rules
        self._ssl_context = ssl_context
        self._client = httpx2.AsyncClient(
            transport=CheckedTransport(rules, ssl_context=ssl_context),
            headers={"accept": "application/json", **(headers or {})},
            timeout=httpx2.Timeout(request_s, connect=CONNECT_S),
            follow_redirects=False,
            trust_env=False,
        )

    async def get(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> ServerAnswer:
        """Returns the answer to a GET. Raises: EditorFault."""
        return await self._send("GET", path, headers=headers, params=params)

    async def post_form(self, path: str, form: Mapping[str, str]) -> ServerAnswer:
        """Returns the answer to a form; used to sign in only. Raises: EditorFault."""
        return await self._send("POST", path, data=form)

    async def send_json(
        self,
        method: str,
        path: str,
        value: Any,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> ServerAnswer:
        """Returns the answer to a request that writes. It is sent once.

        Raises: EditorUnreachable where no whole answer came: the server may have done it all the
        same; EditorFault where the request was never sent.
        """
        content = await asyncio.to_thread(orjson.dumps, value)
        types = {"content-type": "application/json", **(headers or {})}
        return await self._send(method, path, content=content, headers=types, params=params)

    def socket(self, path: str) -> AbstractAsyncContextManager[ClientConnection]:
        """Opens a WebSocket to the server under the same rules. Raises: EditorFault."""
        return server_socket(self.address, path, self._rules, self._ssl_context)

    def value_of(
        self,
        answer: ServerAnswer,
        *,
        server: str,
        right: str,
        refusal: FaultCode = "editor_key_refused",
    ) -> Any:
        """Returns the JSON of an answer of status 200. Raises: EditorFault for any other.

        `server` is the name of the program that should answer, `right` the one that a key needs
        for the request, `refusal` the fault of an answer 401.
        """
        self.check_program(answer, server)
        if answer.status == 401:
            raise EditorFault(refusal, address=self.address)
        if answer.status == 403:
            raise EditorFault("editor_right_missing", address=self.address, right=right)
        if answer.status != 200:
            raise EditorFault("editor_status", address=self.address, status=str(answer.status))
        if answer.value is None:
            raise EditorFault("editor_unreadable", address=self.address)
        return answer.value

    def check_program(self, answer: ServerAnswer, server: str) -> None:
        """Raises: EditorFault where something else than the program `server` answered.

        APIs answer with JSON or plain text: a page comes from a proxy, also where it refuses
        somebody. So it says nothing about the key.
        """
        if answer.status in GATEWAY_STATUSES:
            raise EditorUnreachable(
                "editor_status", address=self.address, status=str(answer.status)
            )
        if answer.status == 404:
            raise EditorFault("editor_not_there", address=self.address, server=server)
        if answer.is_html and answer.status < 500:
            raise EditorFault("editor_sign_in_page", address=self.address)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _send(self, method: str, path: str, **parts: Any) -> ServerAnswer:
        url = f"{self.address}{path}"
        try:
            async with (
                asyncio.timeout(self._request_s),
                self._client.stream(method, url, **parts) as response,
            ):
                if response.is_redirect:
                    raise EditorFault("editor_redirects", address=self.address)
                body = await self._bounded(response)
        except AddressRefused:
            raise EditorFault("editor_private", address=self.address) from None
        except (TimeoutError, httpx2.TimeoutException):
            raise EditorUnreachable(
                "editor_timed_out", address=self.address, seconds=f"{self._request_s:g}"
            ) from None
        except (httpx2.TransportError, OSError) as exc:
            if _is_certificate_fault(exc):
                raise EditorFault("editor_certificate", address=self.address) from None
            raise EditorUnreachable("editor_unreachable", address=self.address) from None
        return await asyncio.to_thread(_parsed, response.status_code, body)

    async def _bounded(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise EditorFault(
                    "editor_too_large", address=self.address, limit=str(MAX_ANSWER_BYTES >> 20)
                )
        return bytes(body)


def _is_certificate_fault(exc: BaseException) -> bool:
    """Returns whether an error, or one that it came from, is about a certificate."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _parsed(status: int, body: bytes) -> ServerAnswer:
    beginning = body.lstrip()[:200].lower()
    try:
        value = orjson.loads(body) if beginning else None
    except orjson.JSONDecodeError:
        return ServerAnswer(
            status=status,
            is_html=beginning.startswith((b"<!doctype", b"<html", b"<")),
            text=body.decode(errors="replace"),
        )
    return ServerAnswer(status=status, value=value)


def answered_reason(answer: ServerAnswer) -> str:
    """Returns why a server refused something, in its own words, without secrets and short."""
    fields = as_dict(answer.value) or {}
    said = as_text(fields.get("message")) or as_text(fields.get("reason")) or ""
    if not said and not answer.is_html:
        said = answer.text
    return short_text(said)


def short_text(said: str) -> str:
    """Returns a text of a server on one line, without secrets and short."""
    return redacted(" ".join(said.split())).text[:MAX_REASON_CHARS]
