"""A way to a real ArangoDB that fails on demand: forwards requests, counts them, injects faults.

It takes the same orders as the double (`/_double/fault`, `/_double/stats`), so that the tests of
faults run on a server as well.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import requests

HTTP_STATUS = {1200: 409, 1600: 404, 11: 403}
_KEPT_BACK = frozenset(
    {"connection", "content-length", "transfer-encoding", "content-encoding", "date", "server"}
)


class Way(ThreadingHTTPServer):
    """Where requests pass. `faults` are used up in their order, the first that fits a request."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        self.target, self.lock = target, threading.Lock()
        self.faults: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        super().__init__(("127.0.0.1", 0), Passage)

    def next_fault(self, path: str) -> tuple[str, str]:
        with self.lock:
            for fault in self.faults:
                if fault["match"] in path and fault["times"] > 0:
                    fault["times"] -= 1
                    kind, _, argument = str(fault["action"]).partition(":")
                    return kind, argument
        return "", ""


class Passage(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Way

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.session = requests.Session()
        self.session.trust_env = False

    def finish(self) -> None:
        self.session.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        if path.startswith("/_double/"):
            self._obey(path, body)
            return
        with self.server.lock:
            self.server.counts[f"{self.command} {path}"] += 1
        kind, argument = self.server.next_fault(path)
        if kind == "drop":
            self._drop()
        elif kind == "status":
            self._answer(
                int(argument), {"error": True, "code": int(argument), "errorNum": int(argument)}
            )
        elif kind == "error":
            code = HTTP_STATUS.get(int(argument), 400)
            self._answer(
                code, {"error": True, "code": code, "errorNum": int(argument), "errorMessage": ""}
            )
        else:
            if kind == "delay":
                time.sleep(int(argument) / 1000)
            self._forward(body, lost=kind == "drop-after")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_request  # noqa: N815

    def _forward(self, body: bytes, *, lost: bool) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        found = self.session.request(
            self.command, self.server.target + self.path, data=body, headers=headers, timeout=120
        )
        if lost:
            self._drop()
            return
        passed = {
            name: value for name, value in found.headers.items() if name.lower() not in _KEPT_BACK
        }
        self._send(found.status_code, passed, found.content)

    def _obey(self, path: str, body: bytes) -> None:
        with self.server.lock:
            if path == "/_double/fault" and self.command == "POST":
                self.server.faults.append(json.loads(body))
            elif path == "/_double/fault":
                self.server.faults.clear()
            elif self.command == "DELETE":
                self.server.counts.clear()
            counts = dict(self.server.counts)
        self._answer(200, {"requests": counts})

    def _answer(self, status: int, body: Any) -> None:
        self._send(status, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):  # the client had not waited long enough
            self.close_connection = True

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def faulty_way(target: str) -> Iterator[str]:
    """Yield the address of a way to a server, as `http://127.0.0.1:PORT`."""
    way = Way(target)
    thread = threading.Thread(target=way.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{way.server_address[1]}"
    finally:
        way.shutdown()
        thread.join(10)
        way.server_close()
