"""The HTTP side: connections, authentication, faults on demand."""

from __future__ import annotations

import gzip
import re
import socket
import threading
import time
import traceback
import zlib
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.arangodouble import (
    routes_of_collections,
    routes_of_documents,
    routes_of_queries,
    routes_of_views,
)
from tests.support.arangodouble.errors import AqlError, ArangoError, refuse
from tests.support.arangodouble.state import ROUTES, SYSTEM, Request, State, encode, loads

# Importing a module of routes fills ROUTES.
ROUTE_MODULES = (routes_of_collections, routes_of_documents, routes_of_queries, routes_of_views)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "arangodouble", ""
    state: State

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def reply(self, code, body, heads=None):
        raw = body if type(body) is bytes else encode(body)
        self.send_response(code)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        for k, v in (heads or {}).items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else raw)

    def drop(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def handle_one(self):
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        url = urlsplit(self.path)
        try:
            encoding = (self.headers.get("Content-Encoding") or "").lower()
            raw = (
                gzip.decompress(raw)
                if encoding == "gzip"
                else zlib.decompress(raw)
                if encoding == "deflate"
                else raw
            )
            if url.path.startswith("/_double/"):
                return self.control(url.path, raw)
            with self.state.lock:
                self.state.requests[f"{self.command} {url.path}"] += 1
                action = self.fault(url.path)
            if action:
                kind, _, arg = action.partition(":")
                if kind == "drop":
                    return self.drop()
                if kind == "status":
                    return self.reply(
                        int(arg),
                        {
                            "error": True,
                            "code": int(arg),
                            "errorNum": int(arg),
                            "errorMessage": "injected by /_double/fault",
                        },
                    )
                if kind == "delay":
                    time.sleep(float(arg) / 1000)
                if kind == "error":
                    raise ArangoError(int(arg))  # noqa: TRY301
            answer = self.answer(url, raw)
            if action == "drop-after":
                return self.drop()
            self.reply(*answer)
        except ArangoError as e:
            heads = (
                {"Www-Authenticate": 'Bearer token_type="JWT", realm="ArangoDB"'}
                if e.code == 401
                else {}
            )
            self.reply(e.code, e.body(), heads)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except RecursionError:
            self.reply(400, AqlError(1524, "AQL: query has too much nesting").body())
        except Exception as e:  # noqa: BLE001 - a defect of the double: say so, never guess
            traceback.print_exc()
            self.reply(
                500,
                {"error": True, "code": 500, "errorNum": 4, "errorMessage": f"arangodouble: {e!r}"},
            )

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_one  # noqa: N815

    def fault(self, path):
        for f in self.state.faults:
            if f["match"] in path and f["times"] > 0:
                f["times"] -= 1
                return f["action"]
        return None

    def control(self, path, raw):
        s = self.state
        if path == "/_double/reset" and self.command == "POST":
            s.reset()
            return self.reply(200, {"reset": True})
        with s.lock:
            if path == "/_double/fault" and self.command == "POST":
                f = loads(raw)
                if not re.fullmatch(
                    r"drop|drop-after|(status|delay|error):\d+", f.get("action", "")
                ):
                    return self.reply(
                        400,
                        ArangoError(
                            10, "action: status:N | drop | drop-after | delay:ms | error:N"
                        ).body(),
                    )
                s.faults.append(
                    {
                        "match": f.get("match", ""),
                        "times": int(f.get("times", 1)),
                        "action": f["action"],
                    }
                )
                return self.reply(200, {"faults": s.faults})
            if path == "/_double/fault" and self.command == "DELETE":
                s.faults = []
                return self.reply(200, {"faults": []})
            if path == "/_double/limits" and self.command == "POST":
                for name, most in loads(raw).items():
                    setattr(s.limits, name, most)
                return self.reply(200, {})
            if path == "/_double/stats" and self.command == "GET":
                return self.reply(200, {"requests": dict(s.requests), "queries": dict(s.queries)})
            if path == "/_double/stats" and self.command == "DELETE":
                s.requests, s.queries = Counter(), Counter()
                return self.reply(200, {})
        return self.reply(404, ArangoError(404).body())

    def answer(self, url, raw):
        state = self.state
        path = url.path
        name = SYSTEM
        if path == "/_admin/server/availability":
            return 200, {"mode": "default", "error": False, "code": 200}, {}
        m = re.match(r"^/_db/([^/]+)(/.*)$", path)
        if m:
            name = unquote(m.group(1))
            path = m.group(2)
        headers = {k.lower(): v for k, v in self.headers.items()}
        with state.lock:
            state.expire()
            user = None
            if path != "/_open/auth":
                user = state.login(headers.get("authorization"))
            db = state.databases.get(name)
            if db is None:
                raise ArangoError(1228)
            if user and state.users[user][1] is not None and name not in state.users[user][1]:
                raise ArangoError(11, "not authorized to execute this request", 401)
            if headers.get("x-arango-async"):
                raise refuse("asynchronous jobs")
            params = dict(parse_qsl(url.query, keep_blank_values=True))
            r = Request(state, db, user, self.command, path, params, headers, raw)
            wrong_method = False
            for methods, rx, f in ROUTES:
                m = rx.match(path)
                if m and self.command in methods:
                    try:
                        code, body, *heads = f(
                            r, **{k: unquote(v) for k, v in m.groupdict().items()}
                        )
                    except BaseException:
                        if r._access is not None:
                            r._access.rollback()
                        raise
                    if type(body) is dict and not path.startswith("/_api/document"):
                        body = {"error": False, "code": code, **body}
                    return code, b"" if code == 304 else encode(body), (heads[0] if heads else {})
                wrong_method |= bool(m)
            if wrong_method:
                raise ArangoError(405)
            if re.match(r"/_(api|admin)/", path):
                raise refuse(f"{self.command} {path}")
            raise ArangoError(404)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class ArangoDouble:
    """with ArangoDouble(password="secret") as url: ..."""

    def __init__(
        self,
        host="127.0.0.1",
        port=0,
        password="",
        trx_idle=60.0,
        cursor_ttl=30.0,
        max_transaction=None,
    ):
        self.state = State(password, trx_idle, cursor_ttl, max_transaction)
        self.server = Server((host, port), type("BoundHandler", (Handler,), {"state": self.state}))
        self.url = f"http://{host}:{self.server.server_address[1]}"

    def start(self):
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        self.start()
        return self.url

    def __exit__(self, *exc):
        self.stop()
