"""Errors of clients of the service. In a module of their own, so that importing them loads no HTTP
client.
"""

from __future__ import annotations

from typing import Any


class ServiceError(Exception):
    """The service refused a request or failed. `status` is the HTTP status; `code` and `retryable`
    are those of the service.

    `retry_after_s` is the pause that the service requested.
    """

    def __init__(
        self,
        *,
        status: int,
        code: str,
        reason: str,
        retryable: bool = False,
        request_id: str = "",
        details: Any = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.reason = reason
        self.retryable = retryable
        self.request_id = request_id
        self.details = details
        self.retry_after_s = retry_after_s
        super().__init__(f"{code} (HTTP {status}): {reason}")


class ServiceUnreachable(Exception):
    """No service answers at the address."""

    def __init__(self, *, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"no service answers at {address}: {reason}")
