"""A client of the REST service, with JSON as dictionaries, typed errors, and no retries.

docs/openapi.json describes the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast
from urllib.parse import quote

import httpx2
import orjson

from graphrag.client.errors import ServiceError, ServiceUnreachable

__all__ = ["NodiusClient", "ServiceError", "ServiceUnreachable"]

Json = dict[str, Any]
# A turn may take as long as the service's own limit for a model's answer.
TIMEOUT_S = 330.0


class NodiusClient:
    """One person's access to a service. Every method raises ServiceError or ServiceUnreachable.

    `workspace` limits all requests to one of the person's workspaces. Methods take the parts of an
    endpoint's path after `/api` (`get("graphs", key, "view")`), which may contain any characters,
    and the query and body by their names in the API. Fields that are None are not sent.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8426",
        *,
        token: str | None = None,
        workspace: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {"X-Nodius-Client": "nodius-client"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._address = address
        self._workspace = workspace
        self._http = httpx2.AsyncClient(
            base_url=address, headers=headers, timeout=TIMEOUT_S, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def get(self, *path: str, **query: Any) -> Json:
        return _document(await self.send("GET", *path, **query))

    async def post(self, *path: str, body: Json | None = None, **query: Any) -> Json:
        return _document(await self.send("POST", *path, body=body, **query))

    async def put(self, *path: str, body: Json) -> Json:
        return _document(await self.send("PUT", *path, body=body))

    async def delete(self, *path: str) -> None:
        await self.send("DELETE", *path)

    async def send(
        self, method: str, *path: str, body: Json | bytes | None = None, **query: Any
    ) -> httpx2.Response:
        """Returns the raw response. The body may be bytes, for files."""
        raw = orjson.dumps(_without_none(body)) if isinstance(body, dict) else body
        headers = {} if raw is None else {"Content-Type": "application/json"}
        address = "/".join(("/api", *(quote(part, safe="") for part in path)))
        parameters = _without_none({"workspace": self._workspace, **query})
        try:
            answer = await self._http.request(
                method, address, params=parameters, content=raw, headers=headers
            )
        except httpx2.HTTPError as exc:
            raise ServiceUnreachable(
                address=self._address, reason=str(exc) or type(exc).__name__
            ) from exc
        if answer.is_success:
            return answer
        raise _refusal(answer)


def _without_none(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _document(answer: httpx2.Response) -> Json:
    """Returns the JSON object of a response. Raises: ServiceError (`malformed`)."""
    try:
        loaded: Any = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        loaded = None
    if not isinstance(loaded, dict):
        reason = "the answer is not JSON of this service"
        raise ServiceError(status=answer.status_code, code="malformed", reason=reason)
    return cast(Json, loaded)


def _refusal(answer: httpx2.Response) -> ServiceError:
    pause = answer.headers.get("Retry-After", "")
    retry_after_s = float(pause) if pause.isascii() and pause.isdigit() else None
    try:
        facts = _document(answer)["error"]
        return ServiceError(
            status=answer.status_code,
            code=facts["code"],
            reason=facts["message"],
            retryable=facts["retryable"],
            request_id=facts.get("requestId", ""),
            details=facts.get("details"),
            retry_after_s=retry_after_s,
        )
    except (ServiceError, KeyError, TypeError):  # the answer came from a proxy
        return ServiceError(
            status=answer.status_code,
            code="unknown",
            reason="the answer is not this service's",
            retryable=answer.status_code in (502, 503, 504),
            retry_after_s=retry_after_s,
        )
