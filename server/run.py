"""Runs the service on a socket until a signal. At the end every running turn is stored."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI
from opentelemetry import context, trace

from graphrag.workers import collect_only_young
from server.app import running
from server.http_connections import MAX_FRAME, HttpConnection, WebSocketConnection
from server.server_state import ServerState

if sys.platform == "win32":  # uvloop is not to be had there
    new_event_loop = asyncio.new_event_loop
else:
    from uvloop import new_event_loop

log = logging.getLogger(__name__)

T = TypeVar("T")

GRACE_S = 10  # seconds that running turns may continue after the signal

STORE_S = 10  # seconds for storing a stopped turn

# Seconds after the last call in which its webhooks are still answered.
AFTER_S = 2.0

CONNECTIONS = 1000
FLUSH_S = 5.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
# Seconds that a thread computes while the event loop waits for the interpreter; Python's 5 ms add
# up.
SWITCH_S = 0.001
ARENAS = 2
_M_ARENA_MAX = -8


class _StoringServer(uvicorn.Server):
    """A uvicorn server that ends at a signal. Uvicorn raises the signal again at the end of
    `serve`, which would kill the process before the stopped turns are stored.

    During telephone calls it continues until they end, at most for the time of the settings; a
    second signal does not wait for calls.
    """

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._draining is None and self._state.activity.call_slots.taken:
            log.info("calls_draining", extra={"calls": self._state.activity.call_slots.taken})
            self._draining = asyncio.create_task(self._drain(sig))
        else:
            self._state.activity.call_slots.stop_accepting()
            super().handle_exit(sig, frame)

    async def _drain(self, sig: int) -> None:
        """Waits for the calls to end, then stops. Until then all requests are answered."""
        try:
            await self._state.activity.call_slots.drain(self._state.settings.voice.drain_s)
            await asyncio.sleep(AFTER_S)
        finally:
            if not self.should_exit:
                super().handle_exit(sig, None)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            if self._draining is not None:
                self._draining.cancel()
            for number in signals:
                loop.remove_signal_handler(number)


def config_of(app: FastAPI, *, grace_s: int = GRACE_S) -> uvicorn.Config:
    """Returns the configuration of uvicorn for the application, whose state the caller opens and
    closes.
    """
    proxies = app.state.setup.settings.forwarded_allow_ips
    return uvicorn.Config(
        app,
        http=HttpConnection,
        ws=WebSocketConnection,
        lifespan="off",  # opened by the caller, so that what fails is raised to them
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        ws_max_size=MAX_FRAME,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=grace_s,
        # Pieces of answers are short: compressing them costs more than it saves, and memory
        # for each client.
        ws_per_message_deflate=False,
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `work`, run on uvloop if it is installed: a call takes a seventh less
    time.
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


@asynccontextmanager
async def sent_spans(environ: Mapping[str, str] | None = None) -> AsyncGenerator[None]:
    """Sends spans to `OTEL_EXPORTER_OTLP_ENDPOINT` until the block ends, then the remaining ones.

    Keeps a provider that OpenTelemetry's own launcher has set up.
    """
    given = os.environ if environ is None else environ
    if (
        not any(given.get(name) for name in _ENDPOINTS)
        or given.get("OTEL_SDK_DISABLED", "").lower() == "true"
    ):
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("spans_not_sent", extra={"error": "install nodius-graphrag[otel]"})
        yield
        return
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        yield
        return
    provider = TracerProvider(
        resource=Resource.create({"service.name": given.get("OTEL_SERVICE_NAME", "nodius")})
    )

    class WithoutQueries(SpanProcessor):
        """Removes the queries of addresses from the framework's spans: some contain credentials."""

        def on_start(self, span: Span, parent_context: context.Context | None = None) -> None:
            del parent_context
            if span.attributes and "url.query" in span.attributes:
                span.set_attribute("url.query", "")

    provider.add_span_processor(WithoutQueries())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(provider.shutdown), FLUSH_S)


def make_routes(app: FastAPI) -> None:
    """Makes the framework build all of its routes now, instead of in the event loop at the first
    requests.
    """
    nowhere: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/-",
        "root_path": "",
        "headers": [],
    }
    for route in app.routes:
        route.matches(nowhere)


def limit_arenas() -> None:
    """Makes threads share the memory arenas of glibc, as each arena keeps the memory that it once
    needed.

    By default glibc makes one for each thread, up to eight a processor. Source: mallopt(3).
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


async def run_server(
    app: FastAPI, listening: socket.socket, ready: Callable[[], None], *, grace_s: int = GRACE_S
) -> None:
    """Serves until SIGINT or SIGTERM; a second SIGINT does not wait for turns. Calls `ready` at the
    start.

    Raises: SettingsError, and the errors of opening the database.
    """
    limit_arenas()
    make_routes(app)
    async with sent_spans(), running(app) as state:
        server = _StoringServer(config_of(app, grace_s=grace_s), state)
        gc.collect()
        collect_only_young()
        sys.setswitchinterval(SWITCH_S)
        # Connections inherit it: a small message that waits for the last one's receipt comes
        # 40 ms late.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ready()
        await server.serve(sockets=[listening])
        stopped = set(server.server_state.tasks)
        if stopped:
            _, late = await asyncio.wait(stopped, timeout=STORE_S)
            log.info("stopped", extra={"turns": len(stopped), "late": len(late)})
