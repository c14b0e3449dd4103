"""A loopback HTTP server that plays scripted answers, so that real client packages run in tests.

Every request takes the next answer of the script. A request nobody scripted, and an answer nobody
asked for, fail the test when the server closes.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

FACTS = ("/v1/models", "/props", "/api/ps", "/api/v0/models")
HELD_AT_MOST_S = 30.0
"""A held answer is let go after this long even when a test forgets to release it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it arrived. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to send: `body` as it is when bytes, as JSON otherwise.

    `pieces` are sent in its place, one HTTP chunk each, so that a client sees these very cuts.
    `fault`: `drop` closes the connection without an answer, `truncate` in the middle of the body;
    after pieces, `truncate` ends them without HTTP's end, `reset` breaks the connection, `hang`
    sends nothing more until the client goes, and sets `gone` then; it waits for `fault_when`.
    `held` keeps the answer back until the event is set.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    fault: Literal["drop", "truncate", "reset", "hang"] | None = None
    held: threading.Event | None = None
    pieces: Sequence[bytes] | None = None
    gone: threading.Event | None = None
    fault_when: threading.Event | None = None

    @property
    def payload(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Scripted = Answer | Callable[[Request], Answer]


class ScriptedServer:
    """Plays its script on a free loopback port between `with` and its end.

    What a model's server is asked about itself is no part of the script
    (404), unless `scripts_facts`.
    `answers_all`: makes the answer to every request, in place of a script.
    """

    def __init__(
        self, *, scripts_facts: bool = False, answers_all: Callable[[Request], Answer] | None = None
    ) -> None:
        self.scripts_facts = scripts_facts
        self._answers_all = answers_all
        self.requests: list[Request] = []
        self._script: deque[Scripted] = deque()
        self._unexpected: list[str] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.scripted = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def play(self, *answers: Scripted) -> None:
        """Add answers to the script; one that is a function is made from its request."""
        with self._lock:
            self._script.extend(answers)

    def answer(self, request: Request) -> Answer:
        if request.path in FACTS and not self.scripts_facts:
            return Answer(status=404, body={"error": "it does not say"})
        with self._lock:
            self.requests.append(request)
            if self._answers_all is not None:
                return self._answers_all(request)
            if not self._script:
                self._unexpected.append(f"{request.method} {request.path}")
                return Answer(status=500, body={"error": {"message": "no answer was scripted"}})
            scripted = self._script.popleft()
        return scripted if isinstance(scripted, Answer) else scripted(request)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # not every system allows it; without, the end is seen after 10 ms
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._thread.join()
        self._server.end_connections()
        self._server.server_close()
        if exc_type is None:
            assert not self._unexpected, f"requests that nobody scripted: {self._unexpected}"
            assert not self._script, f"{len(self._script)} scripted answers were never asked for"


class _Server(ThreadingHTTPServer):
    scripted: ScriptedServer
    daemon_threads = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def end_connections(self) -> None:
        """End connections that a client keeps alive, so that their threads end."""
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # ended already
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gives up is part of the play."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # pieces leave as they are written
    server: _Server

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        request = Request(
            method=self.command,
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )
        answer = self.server.scripted.answer(request)
        try:
            self._send(answer)
        except ConnectionError:  # the client went without reading all
            self.close_connection = True
            if answer.gone is not None:
                answer.gone.set()

    def _send(self, answer: Answer) -> None:
        if answer.held is not None:
            answer.held.wait(HELD_AT_MOST_S)
        if answer.fault == "drop":
            self.close_connection = True
            return
        payload = answer.payload
        self.send_response(answer.status)
        if answer.pieces is None:
            self.send_header("content-length", str(len(payload)))
        else:
            self.send_header("transfer-encoding", "chunked")
        if not any(name.lower() == "content-type" for name in answer.headers):
            self.send_header("content-type", "application/json")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.pieces is not None:
            self._send_pieces(answer, answer.pieces)
        elif answer.fault == "truncate":
            self.wfile.write(payload[: len(payload) // 2])
            self.close_connection = True
        else:
            self.wfile.write(payload)

    def _send_pieces(self, answer: Answer, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if answer.fault is None:
            self.wfile.write(b"0\r\n\r\n")
            return
        self.close_connection = True
        if answer.fault_when is not None:
            answer.fault_when.wait(HELD_AT_MOST_S)
        if answer.fault == "reset":  # a linger of 0 s makes the close a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif answer.fault == "hang":
            self.connection.settimeout(HELD_AT_MOST_S)
            if self.connection.recv(1) == b"" and answer.gone is not None:
                answer.gone.set()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are recorded, not printed."""
