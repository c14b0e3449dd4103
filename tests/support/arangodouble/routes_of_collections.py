"""Routes of the server, databases, collections and indexes."""

from __future__ import annotations

import re
import time

from tests.support.arangodouble.errors import ArangoError, refuse
from tests.support.arangodouble.state import SYSTEM, VERSION, flag, route
from tests.support.arangodouble.storage import Collection, Database, graph_collections


# -- server
# ------------------------------------------------------------------------------------------
@route("GET", "/_api/version")
def version(r):
    out = {"server": "arango", "license": "community", "version": VERSION}
    if flag(r.params, "details"):
        out["details"] = {"mode": "server", "host": "arangodouble", "server-version": VERSION}
    return 200, out


@route("GET", "/_admin/server/availability")
def availability(r):
    return 200, {"mode": "default"}


@route("GET", "/_api/engine")
def engine(r):
    return 200, {"name": "rocksdb", "supports": {}}


@route("GET", "/_admin/server/role")
def role(r):
    return 200, {"mode": "default", "role": "SINGLE"}


@route("GET", "/_admin/time")
def server_time(r):
    return 200, {"time": time.time()}


@route("POST", "/_open/auth")
def auth(r):
    b = r.body
    user = b.get("username")
    if user in r.state.users and r.state.users[user][0] == b.get("password"):
        return 200, {"jwt": r.state.make_jwt(user)}
    raise ArangoError(401, "Wrong credentials", 401)


# -- databases
# ---------------------------------------------------------------------------------------
@route("GET", "/_api/database/current")
def database_current(r):
    d = r.db
    return 200, {"result": {"name": d.name, "id": d.id, "path": "", "isSystem": d.name == SYSTEM}}


@route("GET", "/_api/database")
def database_list(r):
    if r.db.name != SYSTEM:
        raise ArangoError(1230)
    return 200, {"result": sorted(r.state.databases)}


@route("GET", "/_api/database/user")
def database_user(r):
    allowed = r.state.users[r.user][1]
    return 200, {"result": sorted(n for n in r.state.databases if allowed is None or n in allowed)}


@route("POST", "/_api/database")
def database_create(r):
    if r.db.name != SYSTEM:
        raise ArangoError(1230)
    b = r.body
    name = b.get("name")
    if (
        type(name) is not str
        or not name
        or len(name.encode()) > 128
        or not name[0].isalpha()
        or re.search(r"[/:\x00-\x1f]", name)
        or name != name.strip()
    ):
        raise ArangoError(1229)
    if name in r.state.databases:
        raise ArangoError(1207, f"duplicate database name '{name}'")
    r.state.databases[name] = Database(name, r.state.limits)
    for u in b.get("users") or []:
        uname = u.get("username") or u.get("user")
        old = r.state.users.get(uname)
        if old is None:
            r.state.users[uname] = (u.get("passwd") or u.get("password") or "", {name})
        elif old[1] is not None:
            old[1].add(name)
    return 201, {"result": True}


@route("DELETE", "/_api/database/<name>")
def database_drop(r, name):
    if r.db.name != SYSTEM or name == SYSTEM:
        raise ArangoError(1230 if r.db.name != SYSTEM else 11)
    if r.state.databases.pop(name, None) is None:
        raise ArangoError(1228)
    return 200, {"result": True}


# -- collections
# -------------------------------------------------------------------------------------
def describe(c, full=False):
    out = {
        "id": c.id,
        "name": c.name,
        "status": 3,
        "type": 3 if c.edge else 2,
        "isSystem": c.system,
        "globallyUniqueId": f"h{c.id}/{c.id}",
    }
    if full:
        key = {
            "allowUserKeys": True,
            "type": "traditional",
            "lastValue": 0,
            **c.props.get("keyOptions", {}),
        }
        out.update(
            statusString="loaded",
            waitForSync=c.props.get("waitForSync", False),
            keyOptions=key,
            cacheEnabled=c.props.get("cacheEnabled", False),
            syncByRevision=True,
            usesRevisionsAsDocumentIds=True,
            internalValidatorType=0,
            objectId=c.id,
            schema=None,
            computedValues=None,
            isSmart=False,
            isDisjoint=False,
            writeConcern=1,
        )
    return out


def legal_name(name):
    return (
        type(name) is str
        and 0 < len(name.encode()) <= 256
        and not re.search(r"[/\x00-\x1f]", name)
        and name == name.strip()
        and not re.match(r"[\d_.]", name)
    )


def create_collection(db, b):
    name = b.get("name")
    if not legal_name(name) and not (
        b.get("isSystem") and type(name) is str and re.fullmatch(r"_\w+", name)
    ):
        raise ArangoError(1208, "illegal name: collection name invalid")
    if name in db.collections or name in db.views:
        raise ArangoError(1207, f"duplicate name: {name}")
    kind = b.get("type", 2)
    if kind not in (2, 3, "2", "3", "document", "edge"):
        raise ArangoError(10, "invalid collection type")
    if b.get("schema"):
        raise refuse("schema validation")
    if b.get("computedValues"):
        raise refuse("computed values")
    opts = b.get("keyOptions") or {}
    if opts.get("type", "traditional") != "traditional":
        raise refuse(f"the key generator {opts['type']!r}")
    c = Collection(
        name,
        {"keyOptions": opts, "waitForSync": bool(b.get("waitForSync"))},
        str(kind) in ("3", "edge"),
        bool(b.get("isSystem")),
    )
    db.collections[name] = c
    return c


@route("GET", "/_api/collection")
def collection_list(r):
    skip = flag(r.params, "excludeSystem")
    return 200, {
        "result": [
            describe(c) for _, c in sorted(r.db.collections.items()) if not (skip and c.system)
        ]
    }


@route("POST", "/_api/collection")
def collection_create(r):
    return 200, describe(create_collection(r.db, r.body), True)


@route("GET", "/_api/collection/<name>")
def collection_get(r, name):
    return 200, describe(r.collection(name))


@route("GET", "/_api/collection/<name>/properties")
def collection_properties(r, name):
    return 200, describe(r.collection(name), True)


@route("PUT", "/_api/collection/<name>/properties")
def collection_configure(r, name):
    c = r.collection(name)
    b = r.body
    if b.get("schema") or b.get("computedValues"):
        raise refuse("schema validation and computed values")
    c.props.update({k: b[k] for k in ("waitForSync", "cacheEnabled") if k in b})
    return 200, describe(c, True)


@route("GET", "/_api/collection/<name>/count")
def collection_count(r, name):
    n = len(r.access.collection(name).docs)
    return 200, {**describe(r.collection(name), True), "count": n}


@route("GET", "/_api/collection/<name>/revision")
def collection_revision(r, name):
    c = r.collection(name)
    return 200, {**describe(c, True), "revision": str(c.revision)}


@route("GET", "/_api/collection/<name>/figures")
def collection_figures(r, name):
    c = r.collection(name)
    return 200, {
        **describe(c, True),
        "count": len(c.docs),
        "figures": {
            "indexes": {"count": len(c.index_bodies()), "size": 0},
            "documentsSize": 0,
            "cacheInUse": False,
            "cacheSize": 0,
            "cacheUsage": 0,
        },
    }


@route("PUT", "/_api/collection/<name>/load")
@route("PUT", "/_api/collection/<name>/loadIndexesIntoMemory")
@route("PUT", "/_api/collection/<name>/compact")
@route("PUT", "/_api/collection/<name>/recalculateCount")
def collection_noop(r, name):
    c = r.collection(name)
    return 200, {**describe(c), "result": True, "count": len(c.docs)}


@route("PUT", "/_api/collection/<name>/truncate")
def collection_truncate(r, name):
    r.access.truncate(name)
    return 200, describe(r.collection(name))


@route("PUT", "/_api/collection/<name>/rename")
def collection_rename(r, name):
    raise refuse("renaming collections")


@route("DELETE", "/_api/collection/<name>")
def collection_drop(r, name):
    c = r.collection(name)
    for g in r.db.graphs.values():
        if name in graph_collections(g):
            raise ArangoError(1942, f"must not drop collection, it is part of graph {g['name']}")
    if c.system and not flag(r.params, "isSystem"):
        raise ArangoError(11, "forbidden", 403)
    del r.db.collections[name]
    for v in r.db.views.values():
        v["links"].pop(name, None)
    return 200, {"id": c.id}


# -- indexes
# -----------------------------------------------------------------------------------------
@route("GET", "/_api/index")
def index_list(r):
    c = r.collection(r.params.get("collection", ""))
    bodies = c.index_bodies()
    return 200, {"indexes": bodies, "identifiers": {b["id"]: b for b in bodies}}


@route("POST", "/_api/index")
def index_create(r):
    body, new = r.collection(r.params.get("collection", "")).ensure_index(r.body)
    return (201 if new else 200), {**body, "isNewlyCreated": new}


@route("GET DELETE", "/_api/index/<name>/<ident>")
def index_one(r, name, ident):
    c = r.collection(name)
    body = next(
        (b for b in c.index_bodies() if b["id"] == f"{name}/{ident}" or b["name"] == ident), None
    )
    if body is None:
        raise ArangoError(1212)
    if r.method == "DELETE":
        if body["type"] in ("primary", "edge"):
            raise ArangoError(11, "forbidden", 403)
        c.indexes = [ix for ix in c.indexes if ix.id != body["id"]]
    return 200, body
