"""What the server holds, its sign-in, and one request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import time
from collections import Counter

from tests.support.arangodouble.errors import ArangoError
from tests.support.arangodouble.evaluator import Runtime
from tests.support.arangodouble.storage import Database, Limits, new_id
from tests.support.arangodouble.transactions import Access
from tests.support.arangodouble.values import num

VERSION = Runtime.version
SYSTEM = "_system"


def loads(raw):
    try:
        return json.loads(raw, parse_float=lambda s: num(float(s)))
    except (ValueError, RecursionError):
        raise ArangoError(600, "VPackError error: malformed JSON", 400) from None


def encode(body):
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def flag(params, name, default=False):
    v = params.get(name)
    return default if v is None else v.lower() in ("true", "1", "yes", "on", "")


class Cursor:
    def __init__(self, rows, batch, ttl, extra, count, retry):
        self.id = new_id()
        self.rows = rows
        self.batch = batch
        self.ttl = ttl
        self.extra = extra
        self.count = count
        self.retry = retry
        self.pos = 0
        self.number = 0
        self.last = None
        self.touch()

    def touch(self):
        self.deadline = time.monotonic() + self.ttl

    def next(self):
        part = self.rows[self.pos : self.pos + self.batch]
        self.pos += len(part)
        self.number += 1
        more = self.pos < len(self.rows)
        body = {"result": part, "hasMore": more, "cached": False}
        if more or self.number > 1:
            body["id"] = self.id
        if self.retry and more:
            body["nextBatchId"] = str(self.number + 1)
        if self.count is not None:
            body["count"] = self.count
        body["extra"] = self.extra
        self.last = (self.number, body)
        self.touch()
        return body


class State:
    """Everything the server holds; one lock around each operation."""

    def __init__(self, password="", trx_idle=60.0, cursor_ttl=30.0, max_transaction=None):
        self.lock = threading.RLock()
        self.max_transaction = max_transaction
        self.password = password
        self.trx_idle = trx_idle
        self.cursor_ttl = cursor_ttl
        self.secret = base64.urlsafe_b64encode(hashlib.sha256(str(time.time()).encode()).digest())
        self.reset()

    def reset(self):
        with self.lock:
            self.limits = Limits(self.max_transaction)
            self.databases = {SYSTEM: Database(SYSTEM, self.limits)}
            self.users = {
                "root": (self.password, None)
            }  # name -> (password, databases or None for all)
            self.faults, self.requests, self.queries = [], Counter(), Counter()

    # -- logins
    def login(self, header):
        kind, _, rest = (header or "").partition(" ")
        if kind.lower() == "basic":
            try:
                user, _, pw = base64.b64decode(rest).decode().partition(":")
            except ValueError:
                user = pw = None
            if user in self.users and hmac.compare_digest(
                self.users[user][0].encode(), pw.encode()
            ):
                return user
        elif kind.lower() == "bearer":
            user = self.check_jwt(rest)
            if user in self.users:
                return user
        raise ArangoError(11, "not authorized to execute this request", 401)

    def make_jwt(self, user):
        def part(d):
            return base64.urlsafe_b64encode(json.dumps(d).encode()).rstrip(b"=")

        now = int(time.time())
        head = (
            part({"alg": "HS256", "typ": "JWT"})
            + b"."
            + part({"preferred_username": user, "iss": "arangodb", "iat": now, "exp": now + 3600})
        )
        return (
            head
            + b"."
            + base64.urlsafe_b64encode(hmac.digest(self.secret, head, "sha256")).rstrip(b"=")
        ).decode()

    def check_jwt(self, token):
        try:
            head, _, sig = token.encode().rpartition(b".")
            pad = lambda b: base64.urlsafe_b64decode(b + b"=" * (-len(b) % 4))  # noqa: E731
            if not hmac.compare_digest(pad(sig), hmac.digest(self.secret, head, "sha256")):
                return None
            claims = json.loads(pad(head.split(b".")[1]))
            return claims["preferred_username"] if claims["exp"] > time.time() else None
        except (ValueError, IndexError, KeyError):
            return None

    def expire(self):
        now = time.monotonic()
        for db in self.databases.values():
            for t in db.transactions.values():
                if t.status == "running" and t.deadline < now and not t.busy:
                    t.finish(False)
            for cid in [c.id for c in db.cursors.values() if c.deadline < now]:
                del db.cursors[cid]


ROUTES = []


def route(methods, pattern, body=True):
    rx = re.compile("^" + re.sub(r"<(\w+)>", r"(?P<\1>[^/]+)", pattern) + "$")

    def add(f):
        ROUTES.append((methods.split(), rx, f))
        return f

    return add


class Request:
    """One request against one database: helpers for the handlers below."""

    def __init__(self, state, db, user, method, path, params, headers, raw):
        self.state = state
        self.db = db
        self.user = user
        self.method = method
        self.path = path
        self.params = params
        self.headers = headers
        self.raw = raw
        self._access = None

    @property
    def body(self):
        return loads(self.raw) if self.raw else {}

    @property
    def access(self):
        if self._access is None:
            tid = self.headers.get("x-arango-trx-id")
            trx = self.transaction(tid) if tid else None
            if trx is not None:
                if trx.status == "aborted":
                    raise ArangoError(1654, f"transaction {tid} has already been aborted")
                if trx.status == "committed":
                    raise ArangoError(1653, f"transaction {tid} has already been committed")
                trx.deadline = time.monotonic() + trx.idle
            self._access = Access(self.db, trx)
        return self._access

    def transaction(self, tid):
        trx = self.db.transactions.get(tid)
        if trx is None:
            raise ArangoError(1655, f"transaction '{tid}' not found")
        return trx

    def collection(self, name):
        c = self.db.collections.get(name)
        if c is None:
            raise ArangoError(1203, f"collection or view not found: {name}")
        return c
