"""What goes wrong between a client and the service; apart, so that naming it
loads no HTTP client.
"""

from __future__ import annotations

from typing import Any


class ServiceError(Exception):
    """The service refused or failed. `code` and `retryable` are its own; `status` is HTTP's.

    `retry_after_s` is the pause that it asked for.
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
    """Nothing answered at the address."""

    def __init__(self, *, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"no service answers at {address}: {reason}")
