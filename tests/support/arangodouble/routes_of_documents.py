"""Routes of documents and imports."""

from __future__ import annotations

import json
from collections import Counter

from tests.support.arangodouble.errors import ArangoError, refuse
from tests.support.arangodouble.state import flag, loads, route
from tests.support.arangodouble.storage import valid_key


# -- documents
# ---------------------------------------------------------------------------------------
def written(r, old, new, silent=False, known=None):
    if silent:
        return {}
    ref = new if new is not None else old
    out = {"_id": ref["_id"], "_key": ref["_key"], "_rev": ref["_rev"]}
    if old is not None and new is not None:
        out["_oldRev"] = old["_rev"]
    if flag(r.params, "returnNew") and new is not None:
        out["new"] = new
    if flag(r.params, "returnOld") and old is not None:
        out["old"] = old
    return out


def bulk(r, items, work):
    """Each item on its own: failures are reported in place, the rest stays written."""
    if type(items) is not list:
        raise ArangoError(400, "body must be an array", 400)
    out = []
    codes = Counter()
    silent = flag(r.params, "silent")
    for x in items:
        mark = len(r.access.undo)
        try:
            out.append(work(x))
        except ArangoError as e:
            if e.num in (9, 1203, 1652):
                raise
            r.access.rollback(mark)
            codes[e.num] += 1
            out.append({"error": True, "errorNum": e.num, "errorMessage": e.msg})
    heads = (
        {"X-Arango-Error-Codes": json.dumps({str(k): v for k, v in codes.items()})} if codes else {}
    )
    if silent:
        out = [x for x in out if x.get("error")]
    return status(r), out, heads


def status(r):
    return 201 if flag(r.params, "waitForSync") else 202


def if_match(r):
    v = r.headers.get("if-match")
    return v.strip('"') if v else None


def conflict_is_412(f):
    def call(*a, **k):
        try:
            return f(*a, **k)
        except ArangoError as e:
            if e.num == 1200 and "_rev" in e.extra:
                e.code = 412
            raise

    return call


@route("POST", "/_api/document/<name>")
def document_insert(r, name):
    p = r.params
    b = r.body
    mode = p.get("overwriteMode") or ("replace" if flag(p, "overwrite") else "conflict")
    if p.get("versionAttribute"):
        raise refuse("versionAttribute")
    if flag(p, "overwrite") is False and p.get("overwriteMode") is None:
        mode = "conflict"
    silent = flag(p, "silent")

    def one(doc):
        old, new = r.access.insert(
            name, doc, mode, flag(p, "keepNull", True), flag(p, "mergeObjects", True)
        )
        return written(r, old, new, silent and type(b) is not list)

    r.access.collection(name, write=True)
    if type(b) is list:
        return bulk(r, b, one)
    return status(r), one(b)


def key_of(x, name):
    if type(x) is dict:
        x = x.get("_key") or x.get("_id")
        if x is None:
            raise ArangoError(1226)
    if type(x) is not str:
        raise ArangoError(1227)
    if "/" in x:
        coll, _, x = x.partition("/")
        if coll != name:
            raise ArangoError(1213)
    return x


@route("GET HEAD", "/_api/document/<name>/<key>")
def document_get(r, name, key):
    doc = r.access.get(name, key)
    if doc is None:
        raise ArangoError(1202 if valid_key(key) else 1221)
    rev = if_match(r)
    if rev and rev != doc["_rev"]:
        raise ArangoError(
            1200,
            "conflict, _rev values do not match",
            412,
            {"_id": doc["_id"], "_key": doc["_key"], "_rev": doc["_rev"]},
        )
    etag = {"Etag": f'"{doc["_rev"]}"'}
    none = (r.headers.get("if-none-match") or "").strip('"')
    return (304, {}, etag) if none == doc["_rev"] else (200, doc, etag)


@route("PUT PATCH DELETE", "/_api/document/<name>/<key>")
@conflict_is_412
def document_write(r, name, key):
    p = r.params
    rev = if_match(r)
    b = r.body if r.method != "DELETE" else {}
    if rev is None and not flag(p, "ignoreRevs", True) and type(b) is dict:
        rev = b.get("_rev")
    if p.get("versionAttribute"):
        raise refuse("versionAttribute")
    if r.method == "DELETE":
        old, new = r.access.remove(name, key, rev)
    elif r.method == "PATCH":
        old, new = r.access.update(
            name, key, b, rev, flag(p, "keepNull", True), flag(p, "mergeObjects", True)
        )
    else:
        old, new = r.access.replace(name, key, b, rev)
    code = status(r) if r.method != "DELETE" else (200 if flag(p, "waitForSync") else 202)
    return code, written(r, old, new, flag(p, "silent"))


@route("PUT PATCH DELETE", "/_api/document/<name>")
def document_bulk(r, name):
    p = r.params
    a = r.access
    check = not flag(p, "ignoreRevs", True)
    if r.method == "PUT" and flag(p, "onlyget"):
        coll = a.collection(name)

        def read(x):
            doc = coll.docs.get(key_of(x, name))
            if doc is None:
                raise ArangoError(1202)
            if check and type(x) is dict and x.get("_rev") not in (None, doc["_rev"]):
                raise ArangoError(1200, "conflict, _rev values do not match")
            return doc

        return 200, bulk(r, r.body, read)[1]
    a.collection(name, write=True)

    def work(x):
        key = key_of(x, name)
        rev = x.get("_rev") if check and type(x) is dict else None
        if r.method == "DELETE":
            return written(r, *a.remove(name, key, rev))
        if type(x) is not dict:
            raise ArangoError(1227)
        if r.method == "PATCH":
            return written(
                r,
                *a.update(
                    name, key, x, rev, flag(p, "keepNull", True), flag(p, "mergeObjects", True)
                ),
            )
        return written(r, *a.replace(name, key, x, rev))

    return bulk(r, r.body, work)


@route("POST", "/_api/import")
def document_import(r):
    p = r.params
    name = r.params.get("collection", "")
    coll = r.access.collection(name, write=True)
    mode = p.get("onDuplicate", "error")
    if mode not in ("error", "update", "replace", "ignore"):
        raise ArangoError(10, "invalid onDuplicate value")
    kind = p.get("type")
    if kind not in ("array", "list", "documents", "auto"):
        raise refuse("CSV-style imports")
    text = r.raw.decode("utf-8", "replace").strip()
    if kind in ("array", "list") or (kind == "auto" and text.startswith("[")):
        docs = loads(text)
        if type(docs) is not list:
            raise ArangoError(400, "expecting a JSON array in the request")
    else:
        docs = [loads(line) if line.strip() else None for line in text.split("\n")]
    out = {"created": 0, "errors": 0, "empty": 0, "updated": 0, "ignored": 0}
    details = []
    if flag(p, "overwrite"):
        r.access.truncate(name)
    for i, doc in enumerate(docs):
        if doc is None and kind != "array":
            out["empty"] += 1
            continue
        mark = len(r.access.undo)
        try:
            if type(doc) is dict and coll.edge:
                doc = {
                    **doc,
                    **{
                        a: f"{p[q]}/{doc[a]}"
                        for a, q in (("_from", "fromPrefix"), ("_to", "toPrefix"))
                        if q in p and type(doc.get(a)) is str and "/" not in doc[a]
                    },
                }
            old, new = r.access.insert(name, doc, "conflict" if mode == "error" else mode)
            out["ignored" if new is None else "updated" if old is not None else "created"] += 1
        except ArangoError as e:
            if e.num in (9, 1203, 1652):
                raise
            if flag(p, "complete"):
                raise
            r.access.rollback(mark)
            out["errors"] += 1
            details.append(
                f"at position {i}: creating document failed with error '{e.msg}', offending document: "
                + json.dumps(doc, ensure_ascii=False)
            )
    if flag(p, "details"):
        out["details"] = details
    return 201, out


@route("GET", "/_api/edges/<name>")
def edges(r, name):
    coll = r.access.collection(name)
    vertex = r.params.get("vertex", "")
    way = r.params.get("direction", "any")
    keys = {}
    for field, skip in (("_from", "in"), ("_to", "out")):
        if way != skip:
            keys.update(coll.map_for(field).get(vertex, {}))
    return 200, {
        "edges": [coll.docs[k] for k in keys],
        "stats": {"scannedIndex": len(keys), "filtered": 0},
    }
