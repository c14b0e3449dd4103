"""The HTTP client under python-arango: bounded waits, and nothing is sent a second time behind our back.

python-arango sends a request again, writes too, whenever a connection breaks, and its own client
lets a read wait for minutes. Here a request goes to the next host only when no connection came
about, so that nothing was sent; an answer that was lost is an error, and the caller knows
whether asking again is harmless.

Source: python-arango 8.3.7, `connection.BaseConnection.process_request`.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import requests
import urllib3
from arango.http import DefaultHTTPClient
from arango.response import Response
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, InsecureRequestWarning, MaxRetryError, NewConnectionError
from urllib3.util.retry import Retry

from datasources.errors import SourceUnavailable

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
POOL = 16
BUSY_STATUS = 503


class BoundedHttp(DefaultHTTPClient):
    """One session a host. Units: `timeout_s` bounds the wait for bytes of an answer."""

    def __init__(self, *, source: str, timeout_s: float, verify: bool | str) -> None:
        super().__init__()
        self.request_timeout = cast(Any, (min(CONNECT_TIMEOUT_S, timeout_s), timeout_s))
        self._source = source
        if verify is False:
            # Said once here, as an event; urllib3 would say it on standard error.
            urllib3.disable_warnings(InsecureRequestWarning)
            log.warning("certificate_not_checked", extra={"source": source})
        self.sessions: list[requests.Session] = []

    def create_session(self, host: str) -> requests.Session:  # noqa: ARG002
        session = requests.Session()
        session.trust_env = False  # neither a proxy nor a .netrc may come between
        session.max_redirects = 0
        for scheme in ("http://", "https://"):
            adapter = HTTPAdapter(pool_connections=1, pool_maxsize=POOL, max_retries=Retry(0, read=False))
            session.mount(scheme, adapter)
        self.sessions.append(session)
        return session

    def send_request(
        self, *args: Any, data: Any = None, auth: tuple[str, str] | None = None, **options: Any
    ) -> Response:
        """Send once.

        Raises: requests.ConnectionError where nothing was taken up, requests.Timeout, SourceUnavailable.
        """
        # As text requests would write a name in Latin-1, and fail where it cannot.
        login: Any = None if auth is None else (auth[0].encode(), auth[1].encode())
        body: Any = data.encode() if isinstance(data, str) else data
        try:
            answer = super().send_request(*args, data=body, auth=login, **options)
        except requests.ConnectionError as exc:
            if _never_sent(exc):
                raise
            reason = "the connection broke before an answer came"
            if isinstance(exc, requests.exceptions.SSLError):
                reason = "its certificate is not trusted; give the authority's file with `?verify=PATH`"
            raise SourceUnavailable(source=self._source, reason=reason) from exc
        if answer.status_code == BUSY_STATUS:
            # It was not taken up: another host may.
            raise requests.ConnectionError("the server is starting, busy or read-only")
        return answer

    def close(self) -> None:
        for session in self.sessions:
            session.close()


def _never_sent(exc: requests.ConnectionError) -> bool:
    """Say whether no connection came about."""
    if isinstance(exc, requests.ConnectTimeout):
        return True
    cause = exc.args[0] if exc.args else None
    reason = cause.reason if isinstance(cause, MaxRetryError) else cause
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)
