"""Sends one request of a document: to an allowed address, bounded in time and bytes, retried where safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tools.http.addresses import Origin
from tools.http.model import Method

FailCode = Literal[
    "timed_out", "unreachable", "too_large", "not_json", "too_deep", "address_not_allowed", "redirected",
    "refused_by_server", "missing_value", "template_error", "builder_failed", "secret_missing",
]  # fmt: skip


class RequestFailed(Exception):
    """A request gave no answer. `sent`: the server may have read it."""

    def __init__(self, code: FailCode, *, fact: str = "", sent: bool = False) -> None:
        self.code, self.fact, self.sent = code, fact, sent
        super().__init__(f"{code} {fact}".strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """One request as it is sent. `target`: path and query. `secret_headers`: names of headers that hold
    secrets. `key`: Idempotency-Key. `path_text`: the path as the document writes it, for logs.
    """

    method: Method
    origin: Origin
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    timeout_s: float = 10
    retries: int = 1
    key: str = ""
    secret_headers: frozenset[str] = frozenset()
    path_text: str = ""

    @property
    def url(self) -> str:
        return f"{self.origin}{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer of any status. `value`: its JSON, `{"text": …}` of another text, None of an empty one."""

    status: int
    value: Any = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class HttpClient:
    """Sends requests of one agent in one workspace; keeps at most 20 connections."""

    async def send(self, request: PreparedRequest) -> HttpAnswer:
        """Return the answer, whatever its status. Raises: RequestFailed."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close all connections."""
