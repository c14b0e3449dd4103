"""Routes of queries, cursors and stream transactions."""

from __future__ import annotations

from tests.support.arangodouble.errors import ArangoError
from tests.support.arangodouble.execution import execute, explain
from tests.support.arangodouble.parser import parse
from tests.support.arangodouble.state import Cursor, route
from tests.support.arangodouble.transactions import Transaction


# -- queries
# -------------------------------------------------------------------------------------------
def query_text(b):
    q = b.get("query")
    if type(q) is not str:
        raise ArangoError(
            1502 if q in (None, "") else 1501,
            "query is empty" if q in (None, "") else "bad query",
            400,
        )
    binds = b.get("bindVars")
    if binds is not None and type(binds) is not dict:
        raise ArangoError(1550, "invalid structure of bind parameters", 400)
    return q, binds or {}


@route("POST", "/_api/cursor")
def cursor_create(r):
    b = r.body
    q, binds = query_text(b)
    r.state.queries[q] += 1
    o = dict(b.get("options") or {})
    batch = b.get("batchSize", 1000)
    ttl = b.get("ttl") or r.state.cursor_ttl
    if type(batch) is not int or batch < 1:
        raise ArangoError(10, "expecting positive integer for <batchSize>")
    if o.get("stream") and (b.get("count") or o.get("fullCount")):
        b = {**b, "count": False}
        o = {**o, "fullCount": False}
    rows, rt = execute(r.access, q, binds, o)
    extra = {"warnings": rt.warnings, "stats": rt.stats}
    if o.get("profile"):
        extra["profile"] = {
            "initializing": 0,
            "parsing": 0,
            "executing": rt.stats["executionTime"],
            "finalizing": 0,
        }
    c = Cursor(
        rows, batch, float(ttl), extra, len(rows) if b.get("count") else None, o.get("allowRetry")
    )
    body = c.next()
    if body["hasMore"] or (o.get("allowRetry") and len(rows) > batch):
        r.db.cursors[c.id] = c
    return 201, body


def cursor_of(r, ident):
    c = r.db.cursors.get(ident)
    if c is None:
        raise ArangoError(1600)
    return c


@route("POST PUT", "/_api/cursor/<ident>")
def cursor_next(r, ident):
    c = cursor_of(r, ident)
    body = c.next()
    if not body["hasMore"] and not c.retry:
        del r.db.cursors[ident]
    return 200, body


@route("POST", "/_api/cursor/<ident>/<number>")
def cursor_batch(r, ident, number):
    c = cursor_of(r, ident)
    n = int(number) if number.isdigit() else -1
    if n == c.last[0]:
        return 200, c.last[1]
    if n != c.number + 1 or c.pos >= len(c.rows):
        raise ArangoError(1600)
    return 200, c.next()


@route("DELETE", "/_api/cursor/<ident>")
def cursor_close(r, ident):
    cursor_of(r, ident)
    del r.db.cursors[ident]
    return 202, {"id": ident}


@route("POST", "/_api/explain")
def explain_query(r):
    b = r.body
    q, binds = query_text(b)
    out = explain(r.access, q, binds, b.get("options"))
    if (b.get("options") or {}).get("allPlans"):
        out["plans"] = [out.pop("plan")]
    return 200, out


@route("POST", "/_api/query")
def parse_query(r):
    q = parse(query_text(r.body)[0])
    names = sorted({d.name or "@" + d.bind for d in q.reads + q.writes + q.withs})
    return 200, {
        "parsed": True,
        "collections": [n for n in names if not n.startswith("@")],
        "bindVars": sorted(q.binds),
        "ast": [],
        "warnings": [],
    }


# -- stream transactions
# -----------------------------------------------------------------------------------
@route("POST", "/_api/transaction/begin")
def transaction_begin(r):
    b = r.body
    colls = b.get("collections")
    if type(colls) is not dict:
        raise ArangoError(10, "missing/invalid collections definition for transaction")
    declared = {}
    for mode in ("read", "write", "exclusive"):
        names = colls.get(mode) or []
        for n in [names] if type(names) is str else names:
            r.collection(n)
            declared[n] = mode
    for n, mode in declared.items():
        if (
            any(
                t.status == "running"
                and (
                    t.declared.get(n) == "exclusive"
                    or (mode == "exclusive" and t.declared.get(n) == "write")
                )
                for t in r.db.transactions.values()
            )
            and mode != "read"
        ):
            raise ArangoError(18, f"timeout waiting to lock collection {n}")
    trx = Transaction(r.db, declared, b.get("allowImplicit", True), r.state.trx_idle)
    r.db.transactions[trx.id] = trx
    return 201, {"result": {"id": trx.id, "status": "running"}}


@route("GET", "/_api/transaction")
def transaction_list(r):
    return 200, {
        "transactions": [
            {"id": t.id, "state": t.status}
            for t in r.db.transactions.values()
            if t.status == "running"
        ]
    }


@route("GET PUT DELETE", "/_api/transaction/<ident>")
def transaction_one(r, ident):
    if not ident.isdigit():
        raise ArangoError(10, "bad transaction ID")
    t = r.transaction(ident)
    want = {"PUT": "committed", "DELETE": "aborted"}.get(r.method)
    if want and t.status == "running":
        t.finish(want == "committed")
    elif want and t.status != want:
        raise ArangoError(1653, f"transaction '{ident}' is already {t.status}")
    return 200, {"result": {"id": t.id, "status": t.status}}
