"""Routes of Views, analyzers and named graphs."""

from __future__ import annotations

import re

from tests.support.arangodouble.errors import ArangoError, refuse
from tests.support.arangodouble.routes_of_collections import create_collection, legal_name
from tests.support.arangodouble.state import flag, route
from tests.support.arangodouble.storage import graph_collections, new_id, valid_key
from tests.support.arangodouble.transactions import Access

# -- views, analyzers, graphs
# ----------------------------------------------------------------------------
VIEW_DEFAULTS = {
    "cleanupIntervalStep": 2,
    "commitIntervalMsec": 1000,
    "consolidationIntervalMsec": 5000,
    "primarySort": [],
    "primarySortCompression": "lz4",
    "storedValues": [],
    "optimizeTopK": [],
    "primarySortCache": False,
    "primaryKeyCache": False,
    "writebufferActive": 0,
    "writebufferIdle": 64,
    "writebufferSizeMax": 33554432,
}


def link(db, name, spec):
    if name not in db.collections:
        raise ArangoError(1203, f"collection or view not found: {name}")

    def fill(node):
        out = {k: v for k, v in node.items() if k != "fields"}
        if node.get("fields"):
            out["fields"] = {k: fill(v) for k, v in node["fields"].items()}
        return out

    return {
        "analyzers": ["identity"],
        "fields": {},
        "includeAllFields": False,
        "storeValues": "none",
        "trackListPositions": False,
        **fill(spec),
    }


def set_links(db, view, links, keep):
    out = dict(view["links"]) if keep else {}
    for name, spec in (links or {}).items():
        if spec is None:
            out.pop(name, None)
        else:
            out[name] = link(db, name, spec)
    view["links"] = out


def view_of(r, name):
    if name not in r.db.views:
        raise ArangoError(1203, f"collection or view not found: {name}")
    return r.db.views[name]


@route("GET", "/_api/view")
def view_list(r):
    keys = ("globallyUniqueId", "id", "name", "type")
    return 200, {"result": [{k: v[k] for k in keys} for _, v in sorted(r.db.views.items())]}


@route("POST", "/_api/view")
def view_create(r):
    b = r.body
    name = b.get("name")
    if b.get("type") != "arangosearch":
        raise (
            refuse(f"views of type {b.get('type')!r}")
            if b.get("type") == "search-alias"
            else ArangoError(10)
        )
    if not legal_name(name):
        raise ArangoError(1208)
    if name in r.db.views or name in r.db.collections:
        raise ArangoError(1207, f"duplicate name: {name}")
    ident = new_id()
    view = {
        "id": ident,
        "globallyUniqueId": f"h{ident}/{ident}",
        "name": name,
        "type": "arangosearch",
        "links": {},
        **VIEW_DEFAULTS,
        **{k: v for k, v in b.items() if k not in ("name", "type", "links")},
    }
    set_links(r.db, view, b.get("links"), False)
    r.db.views[name] = view
    return 201, view


@route("GET", "/_api/view/<name>")
def view_get(r, name):
    v = view_of(r, name)
    return 200, {k: v[k] for k in ("globallyUniqueId", "id", "name", "type")}


@route("GET PUT PATCH", "/_api/view/<name>/properties")
def view_properties(r, name):
    v = view_of(r, name)
    if r.method != "GET":
        b = r.body
        if r.method == "PUT":
            v.update(VIEW_DEFAULTS)
        v.update({k: x for k, x in b.items() if k in VIEW_DEFAULTS or k == "consolidationPolicy"})
        set_links(r.db, v, b.get("links"), r.method == "PATCH")
    return 200, v


@route("DELETE", "/_api/view/<name>")
def view_drop(r, name):
    view_of(r, name)
    del r.db.views[name]
    return 200, {"result": True}


_BUILTIN = ["identity"] + [
    "text_" + x for x in ["de", "en", "es", "fi", "fr", "it", "nl", "no", "pt", "ru", "sv", "zh"]
]


@route("GET", "/_api/analyzer")
def analyzer_list(r):
    own = [{"name": f"{r.db.name}::{n}", **a} for n, a in r.db.analyzers.items()]
    return 200, {
        "result": [
            {
                "name": n,
                "type": "identity" if n == "identity" else "text",
                "properties": {},
                "features": ["frequency", "norm", "position"],
            }
            for n in _BUILTIN
        ]
        + own
    }


@route("POST", "/_api/analyzer")
def analyzer_create(r):
    b = r.body
    if b.get("type") not in ("identity", "text", "norm", "delimiter", "ngram"):
        raise refuse(f"analyzers of type {b.get('type')!r}")
    name = b.get("name")
    if type(name) is not str or not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise ArangoError(10, "invalid analyzer name")
    spec = {
        "type": b["type"],
        "properties": b.get("properties") or {},
        "features": b.get("features") or [],
    }
    old = r.db.analyzers.get(name)
    if (old is not None and old != spec) or name in _BUILTIN:
        raise ArangoError(10, f"name collision detected while registering analyzer: {name}", 409)
    r.db.analyzers[name] = spec
    return (200 if old else 201), {"name": f"{r.db.name}::{name}", **spec}


@route("GET DELETE", "/_api/analyzer/<name>")
def analyzer_one(r, name):
    short = name.split("::")[-1]
    if short not in r.db.analyzers:
        raise ArangoError(1202, f"unable to find analyzer '{name}'", 404)
    spec = r.db.analyzers[short] if r.method == "GET" else r.db.analyzers.pop(short)
    return 200, {"name": f"{r.db.name}::{short}", **spec}


@route("GET", "/_api/gharial")
def graph_list(r):
    return 200, {"graphs": [g for _, g in sorted(r.db.graphs.items())]}


@route("POST", "/_api/gharial")
def graph_create(r):
    b = r.body
    db = r.db
    name = b.get("name")
    if type(name) is not str or not valid_key(name):
        raise ArangoError(1922 if not name else 1221, "graph name missing or invalid", 400)
    if b.get("isSmart") or b.get("isDisjoint"):
        raise refuse("smart graphs")
    if name in db.graphs:
        raise ArangoError(1925)
    g = {
        "_key": name,
        "_id": f"_graphs/{name}",
        "_rev": "",
        "name": name,
        "edgeDefinitions": [],
        "orphanCollections": list(b.get("orphanCollections") or []),
    }
    for d in b.get("edgeDefinitions") or []:
        if (
            type(d) is not dict
            or type(d.get("collection")) is not str
            or not d.get("from")
            or not d.get("to")
        ):
            raise ArangoError(1923, "malformed edge definition", 400)
        if any(x["collection"] == d["collection"] for x in g["edgeDefinitions"]):
            raise ArangoError(1920, "multi use of edge collection in edge def", 400)
        g["edgeDefinitions"].append(
            {"collection": d["collection"], "from": sorted(d["from"]), "to": sorted(d["to"])}
        )
    edge_names = {d["collection"] for d in g["edgeDefinitions"]}
    for n in sorted(graph_collections(g)):
        if n not in db.collections:
            create_collection(db, {"name": n, "type": 3 if n in edge_names else 2})
        elif n in edge_names and not db.collections[n].edge:
            raise ArangoError(1944, f"{n} is not an edge collection", 400)
    doc = (
        r.access.collection("_graphs")
        and Access(db).insert(
            "_graphs", {"_key": name, **{k: g[k] for k in ("edgeDefinitions", "orphanCollections")}}
        )[1]
    )
    g["_rev"] = doc["_rev"]
    db.graphs[name] = g
    return 202, {"graph": g}


def graph_of(r, name):
    g = r.db.graphs.get(name)
    if g is None:
        raise ArangoError(1924, f"graph '{name}' not found")
    return g


@route("GET DELETE", "/_api/gharial/<name>")
def graph_one(r, name):
    g = graph_of(r, name)
    if r.method == "GET":
        return 200, {"graph": g}
    del r.db.graphs[name]
    Access(r.db).remove("_graphs", name)
    if flag(r.params, "dropCollections"):
        used = (
            set().union(*[graph_collections(x) for x in r.db.graphs.values()])
            if r.db.graphs
            else set()
        )
        for n in graph_collections(g) - used:
            r.db.collections.pop(n, None)
    return 202, {"removed": True}


@route("GET", "/_api/gharial/<name>/vertex")
def graph_vertices(r, name):
    g = graph_of(r, name)
    return 200, {
        "collections": sorted(
            graph_collections(g) - {d["collection"] for d in g["edgeDefinitions"]}
        )
    }


@route("GET", "/_api/gharial/<name>/edge")
def graph_edges(r, name):
    return 200, {
        "collections": sorted(d["collection"] for d in graph_of(r, name)["edgeDefinitions"])
    }
