"""The connection to an ArangoDB server: runs python-arango in worker threads, with translated
errors and limited time.

Decision: python-arango's synchronous client in our own threads instead of its asynchronous
variant, because fail-over between hosts works there and its HTTP client can be replaced.

python-arango sends a request again, writes too, whenever a connection breaks, and its own client
lets a read wait for minutes. Here a request goes to the next host only when no connection came
about, so that nothing was sent; an answer that was lost is an error, and the caller knows
whether asking again is harmless.

Source: python-arango 8.3.7, `connection.BaseConnection.process_request`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import orjson
import requests
import urllib3
from arango.client import ArangoClient
from arango.database import StandardDatabase, TransactionDatabase
from arango.http import DefaultHTTPClient
from arango.response import Response
from requests.adapters import HTTPAdapter
from urllib3.exceptions import (
    ConnectTimeoutError,
    InsecureRequestWarning,
    MaxRetryError,
    NewConnectionError,
)
from urllib3.util.retry import Retry

from datasources.arango.address import ArangoAddress
from datasources.arango.errors import CURSOR_LOST, EXPECTED, ServerRefused, WriteConflict, translate
from datasources.arango.statements import Statement
from datasources.errors import DatabaseUnprepared, SourceError, SourceUnavailable
from datasources.store_spans import traced

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
POOL = 16
BUSY_STATUS = 503


class BoundedHttp(DefaultHTTPClient):
    """One session for each host. `timeout_s` is the maximum wait for bytes of an answer."""

    def __init__(self, *, source: str, timeout_s: float, verify: bool | str) -> None:
        super().__init__()
        self.request_timeout = cast(Any, (min(CONNECT_TIMEOUT_S, timeout_s), timeout_s))
        self._source = source
        if verify is False:
            # Logged once here; urllib3 would print a warning to standard error.
            urllib3.disable_warnings(InsecureRequestWarning)
            log.warning("certificate_not_checked", extra={"source": source})

    def create_session(self, host: str) -> requests.Session:  # noqa: ARG002
        session = requests.Session()
        session.trust_env = False  # neither a proxy nor a .netrc may come between
        session.max_redirects = 0
        for scheme in ("http://", "https://"):
            adapter = HTTPAdapter(
                pool_connections=1, pool_maxsize=POOL, max_retries=Retry(0, read=False)
            )
            session.mount(scheme, adapter)
        return session

    def send_request(
        self, *args: Any, data: Any = None, auth: tuple[str, str] | None = None, **options: Any
    ) -> Response:
        """Sends a request once.

        Raises: requests.ConnectionError if there was no connection, requests.Timeout,
        SourceUnavailable.
        """
        # As bytes, because requests would encode a user name as Latin-1 and fail for others.
        login: Any = None if auth is None else (auth[0].encode(), auth[1].encode())
        body: Any = data.encode() if isinstance(data, str) else data
        try:
            answer = super().send_request(*args, data=body, auth=login, **options)
        except requests.ConnectionError as exc:
            if _never_sent(exc):
                raise
            reason = "the connection broke before an answer came"
            if isinstance(exc, requests.exceptions.SSLError):
                reason = (
                    "its certificate is not trusted; give the authority's file with `?verify=PATH`"
                )
            raise SourceUnavailable(source=self._source, reason=reason) from exc
        if answer.status_code == BUSY_STATUS:
            # It was not taken up: another host may.
            raise requests.ConnectionError("the server is starting, busy or read-only")
        return answer


def _never_sent(exc: requests.ConnectionError) -> bool:
    """Returns whether no connection was established, so that nothing was sent."""
    if isinstance(exc, requests.ConnectTimeout):
        return True
    cause = exc.args[0] if exc.args else None
    reason = cause.reason if isinstance(cause, MaxRetryError) else cause
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)


T = TypeVar("T")

THREADS = 16
BATCH = 10_000
READ_ATTEMPTS = 3
WRITE_ATTEMPTS = 8
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
LIMIT_S = 30.0
"""Nothing is repeated after so long."""


class ArangoConnection:
    """The client and its threads, shared by all sources. Must not be used after a fork.

    Sends nothing before the first request. `source` is the address used in errors.
    """

    def __init__(self, address: ArangoAddress) -> None:
        self.address = address
        self.source = address.shown
        self._threads: ThreadPoolExecutor | None = ThreadPoolExecutor(
            THREADS, thread_name_prefix="arango"
        )
        self._client = ArangoClient(
            hosts=list(address.hosts),
            host_resolver="fallback",
            resolver_max_tries=len(address.hosts),
            http_client=BoundedHttp(
                source=self.source, timeout_s=address.timeout_s, verify=address.verify
            ),
            verify_override=address.verify,
            serializer=_to_json,
            deserializer=orjson.loads,
        )
        self._database = self.database_named(address.database)

    def database_named(self, name: str) -> StandardDatabase:
        """Returns a handle to a database of the server. Sends nothing."""
        return self._client.db(name, username=self.address.user, password=self.address.password)

    async def close(self) -> None:
        threads = self._threads
        self._threads = None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
            self._client.close()

    async def run(
        self,
        work: Callable[[StandardDatabase], T],
        *,
        idempotent: bool = False,
        repeatable: bool = False,
    ) -> T:
        """Runs blocking `work` in a thread.

        `idempotent` work, such as reading, is retried if no answer came; `repeatable` work is
        retried after a write conflict. Work is not retried after a timeout.
        Raises: SourceTimeout, SourceUnavailable.
        """
        threads = self._threads
        database = self._database
        if threads is None:
            raise SourceUnavailable(source=self.source, reason="the database is not open")

        def patiently() -> T:
            unanswered = RetryBudget(READ_ATTEMPTS if idempotent else 1)
            conflicts = RetryBudget(WRITE_ATTEMPTS if repeatable else 1)
            while True:
                try:
                    return work(database)
                except (SourceError, *EXPECTED) as exc:
                    error = translate(exc, source=self.source, timeout_s=self.address.timeout_s)
                    budget = conflicts if isinstance(error, WriteConflict) else unanswered
                    if not _may_pass(error) or not budget.wait():
                        raise error from exc

        return await asyncio.get_running_loop().run_in_executor(threads, patiently)

    async def query(self, statement: Statement, **values: Any) -> list[Any]:
        """Runs one statement and returns its rows. Retries reads, and writes after a conflict.

        Raises: SourceTimeout, SourceUnavailable (ServerRefused carries the server's error number).
        """
        with traced("arangodb", "write" if statement.writes else "read", statement.text):
            return await self.run(
                lambda database: self.execute(database, statement, **values),
                idempotent=not statement.writes or statement.idempotent,
                repeatable=True,
            )

    def execute(
        self, database: StandardDatabase | TransactionDatabase, statement: Statement, **values: Any
    ) -> list[Any]:
        """Runs one statement in this thread, on the database or in a stream transaction."""
        cursor: Any = database.aql.execute(
            statement.text,
            bind_vars=statement.binds(values),
            batch_size=BATCH,
            memory_limit=cast(
                int, None
            ),  # python-arango's default 0 would remove the server's limit
            max_runtime=cast(Any, self.address.timeout_s),
        )
        # Read to its end a cursor is gone; one left behind by an error lapses at the server.
        return list(cursor)


class RetryBudget:
    """Limits retries: a number of attempts, exponential pauses with jitter, and a deadline."""

    def __init__(self, attempts: int) -> None:
        self._left, self._end = attempts, time.monotonic() + LIMIT_S
        self._pause_s = FIRST_PAUSE_S

    def wait(self) -> bool:
        """Sleeps before the next attempt. Returns False if there is none left.

        Blocks: only for worker threads.
        """
        self._left -= 1
        pause = random.uniform(0, self._pause_s)
        if self._left <= 0 or time.monotonic() + pause > self._end:
            return False
        time.sleep(pause)
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
        return True


def _may_pass(error: SourceError) -> bool:
    """Returns whether a retry may succeed."""
    if isinstance(error, ServerRefused):
        return isinstance(error, WriteConflict) or error.code == CURSOR_LOST
    return isinstance(error, SourceUnavailable) and not isinstance(error, DatabaseUnprepared)


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()
