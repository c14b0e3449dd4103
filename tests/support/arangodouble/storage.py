"""Databases, collections and indexes, in memory.

Stored documents are never changed in place: a write puts a new dict.
"""

from __future__ import annotations

import itertools
import re
import time

from tests.support.arangodouble.errors import ArangoError, refuse
from tests.support.arangodouble.values import get_path, hkey, is_num

_KEY = re.compile(r"[A-Za-z0-9_\-.@()+,=;$!*'%:]{1,254}")
_REV64 = "-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
SYSTEM_COLLECTIONS = (
    "_analyzers",
    "_apps",
    "_appbundles",
    "_aqlfunctions",
    "_frontend",
    "_graphs",
    "_jobs",
    "_queues",
)
_serial = itertools.count(int(time.time() * 1000) << 20)
_ids = itertools.count(10001)


def valid_key(k):
    return _KEY.fullmatch(k) is not None


def new_rev():
    n = next(_serial)
    out = ""
    while n:
        n, d = divmod(n, 64)
        out = _REV64[d] + out
    return "_" + out.rjust(10, "-")


def new_id():
    return str(next(_ids))


def strip_nulls(v):
    return {k: strip_nulls(x) for k, x in v.items() if x is not None} if type(v) is dict else v


def field_path(f):
    return f.split(".")


class Index:
    def __init__(self, body, coll):
        self.body = body
        self.id = body["id"]
        self.type = body["type"]
        self.name = body["name"]
        self.fields = [f if type(f) is str else f.get("name") for f in body["fields"]]
        self.paths = [field_path(f) for f in self.fields]
        self.unique, self.sparse = bool(body.get("unique")), bool(body.get("sparse"))
        self.values = {}  # unique only: tuple of values -> key

    def key_of(self, doc):
        """The indexed tuple, or None where a sparse index leaves the document out."""
        t = tuple(hkey(get_path(doc, p)) for p in self.paths)
        return None if self.sparse and None in t else t


class Collection:
    def __init__(self, name, props=None, edge=False, system=False):
        self.name, self.edge, self.system, self.id = name, edge, system, new_id()
        self.props = props or {}
        self.docs = {}
        self.maps = {}
        self.indexes = []
        self.revision = 0

    # -- lookups
    def map_for(self, field):
        m = self.maps.get(field)
        if m is None:
            m = {}
            path = field_path(field)
            for k, d in self.docs.items():
                m.setdefault(hkey(get_path(d, path)), {})[k] = None
            self.maps[field] = m
        return m

    def indexed_fields(self):
        out = {"_from", "_to"} if self.edge else set()
        for ix in self.indexes:
            if ix.type in ("persistent", "ttl", "inverted"):
                out.update(f for f in ix.fields if f and "[*]" not in f)
        return out - {"_key", "_id"}

    def candidates(self, conds):
        """Keys that can satisfy all (field, values) equalities, or None when no index applies."""
        best = None
        indexed = self.indexed_fields()
        for field, values in conds:
            if field == "_key":
                keys = [v for v in values if type(v) is str and v in self.docs]
            elif field == "_id":
                pre = self.name + "/"
                keys = [
                    v[len(pre) :]
                    for v in values
                    if type(v) is str and v.startswith(pre) and v[len(pre) :] in self.docs
                ]
            elif field in indexed:
                m = self.map_for(field)
                keys = []
                for h in {hkey(v): None for v in values}:
                    keys.extend(m.get(h, ()))
            else:
                continue
            keys = list(dict.fromkeys(keys))
            if best is None or len(keys) < len(best):
                best = keys
        return best

    # -- raw changes, indexes kept in step
    def check_unique(self, doc, key):
        for ix in self.indexes:
            if ix.unique:
                t = ix.key_of(doc)
                if t is not None and ix.values.get(t, key) != key:
                    raise ArangoError(
                        1210,
                        f"unique constraint violated - in index {ix.name} of type {ix.type} over "
                        f"'{', '.join(ix.fields)}'; conflicting key: {ix.values[t]}",
                    )
            elif ix.type == "vector":
                self.check_vector(ix, doc)

    @staticmethod
    def check_vector(ix, doc):
        v = get_path(doc, ix.paths[0])
        dim = ix.body["params"]["dimension"]
        if v is None:
            if not ix.sparse:
                raise ArangoError(10, "vector field not present in document")
            return
        if type(v) is not list or not all(is_num(x) for x in v):
            raise ArangoError(10, "vector field must be an array of numbers")
        if len(v) != dim:
            raise ArangoError(
                10,
                f"input vector of {len(v)} dimension does not have the correct dimension of {dim}",
            )

    def put(self, key, doc):
        old = self.docs.get(key)
        for field, m in self.maps.items():
            path = field_path(field)
            new = hkey(get_path(doc, path))
            if old is not None:
                was = hkey(get_path(old, path))
                if was == new:
                    continue
                m.get(was, {}).pop(key, None)
            m.setdefault(new, {})[key] = None
        for ix in self.indexes:
            if ix.unique:
                if old is not None:
                    ix.values.pop(ix.key_of(old), None)
                t = ix.key_of(doc)
                if t is not None:
                    ix.values[t] = key
        self.docs[key] = doc
        self.revision += 1
        if any(
            ix.type == "vector" and get_path(doc, ix.paths[0]) is not None for ix in self.indexes
        ):
            self.train()

    def drop_key(self, key):
        old = self.docs.pop(key, None)
        if old is None:
            return
        for field, m in self.maps.items():
            m.get(hkey(get_path(old, field_path(field))), {}).pop(key, None)
        for ix in self.indexes:
            if ix.unique:
                ix.values.pop(ix.key_of(old), None)
        self.revision += 1

    def clone(self):
        c = Collection.__new__(Collection)
        c.__dict__.update(self.__dict__)
        c.docs = dict(self.docs)
        c.maps = {}
        c.indexes = []
        for ix in self.indexes:
            j = Index.__new__(Index)
            j.__dict__.update(ix.__dict__)
            j.values = dict(ix.values)
            c.indexes.append(j)
        return c

    # -- index definitions
    def index_bodies(self):
        base = {
            "sparse": False,
            "unique": True,
            "type": "primary",
            "fields": ["_key"],
            "name": "primary",
            "id": f"{self.name}/0",
            "selectivityEstimate": 1,
        }
        out = [base]
        if self.edge:
            out.append(
                {
                    "id": f"{self.name}/1",
                    "type": "edge",
                    "name": "edge",
                    "fields": ["_from", "_to"],
                    "unique": False,
                    "sparse": False,
                    "selectivityEstimate": 1,
                }
            )
        return out + [ix.body for ix in self.indexes]

    def train(self):
        for ix in self.indexes:
            if ix.type == "vector" and ix.body["trainingState"] != "ready":
                n_lists = ix.body["params"].get("nLists")
                need = n_lists if type(n_lists) is int else 2
                have = sum(1 for d in self.docs.values() if get_path(d, ix.paths[0]) is not None)
                if have >= need:
                    ix.body["trainingState"] = "ready"
                    ix.body.pop("errorMessage", None)
                else:
                    ix.body["errorMessage"] = "not enough training data for vector index"

    def ensure_index(self, body):
        kind = body.get("type")
        if kind in ("hash", "skiplist"):
            kind = "persistent"
        if kind not in ("persistent", "ttl", "inverted", "vector"):
            if kind in ("geo", "fulltext", "mdi", "mdi-prefixed", "zkd"):
                raise refuse(f"{kind} indexes")
            raise ArangoError(10, "invalid index type")
        fields = body.get("fields")
        if type(fields) is not list or not fields:
            raise ArangoError(10, "invalid or missing fields")
        if kind != "inverted" and not all(type(f) is str and f for f in fields):
            raise ArangoError(10, "index field must be a non-empty string")
        if kind in ("ttl", "vector") and len(fields) != 1:
            raise ArangoError(10, f"a {kind} index needs exactly one field")
        if kind == "persistent" and len(set(fields)) != len(fields):
            raise ArangoError(10, "duplicate attribute in index fields list")
        known = {
            "persistent": {
                "unique",
                "sparse",
                "deduplicate",
                "estimates",
                "storedValues",
                "cacheEnabled",
            },
            "ttl": {"expireAfter"},
            "vector": {"sparse", "parallelism", "params", "storedValues"},
            "inverted": {
                "searchField",
                "analyzer",
                "features",
                "includeAllFields",
                "trackListPositions",
                "parallelism",
                "primarySort",
                "storedValues",
                "cleanupIntervalStep",
                "commitIntervalMsec",
                "cache",
                "optimizeTopK",
                "consolidationIntervalMsec",
                "consolidationPolicy",
                "writebufferIdle",
                "writebufferActive",
                "writebufferSizeMax",
                "primaryKeyCache",
            },
        }[kind]
        new = {"type": kind, "fields": fields, "unique": False, "sparse": False}
        if kind == "persistent":
            new.update(
                unique=bool(body.get("unique")),
                sparse=bool(body.get("sparse")),
                deduplicate=True,
                estimates=True,
                cacheEnabled=False,
            )
            if any("[*]" in f for f in fields) and new["unique"]:
                raise refuse("unique array indexes")
        elif kind == "ttl":
            if not is_num(body.get("expireAfter")) or body["expireAfter"] < 0:
                raise ArangoError(10, "expireAfter attribute must be a non-negative number")
            new["sparse"] = True
        elif kind == "vector":
            p = body.get("params")
            if (
                type(p) is not dict
                or p.get("metric") not in ("cosine", "l2", "innerProduct")
                or type(p.get("dimension")) is not int
                or p["dimension"] < 1
            ):
                raise ArangoError(10, "vector index needs params.metric and params.dimension")
            new.update(
                sparse=bool(body.get("sparse")),
                parallelism=2,
                trainingState="unusable",
                params={"defaultNProbe": 1, "trainingIterations": 25, **p},
            )
        else:
            new["sparse"] = True
        for k, v in body.items():
            if k in known and k not in ("params", "sparse", "unique"):
                new[k] = v

        def same(b):
            keys = {"type", "fields", "unique", "sparse"} | (
                {"expireAfter"} if kind == "ttl" else set()
            )
            if any(b.get(k) != new.get(k) for k in keys):
                return False
            return kind != "vector" or all(
                b["params"].get(k) == v for k, v in new["params"].items()
            )

        name = body.get("name")
        for ix in self.indexes:
            if same(ix.body):
                return ix.body, False
            if kind == "ttl" and ix.type == "ttl":
                raise ArangoError(10, "there can only be one ttl index per collection")
            if name and ix.name == name:
                raise ArangoError(1207, f"duplicate value for field 'name' of index: {name}")
        if name in ("primary", "edge"):
            raise ArangoError(1207)
        number = new_id()
        new.update(id=f"{self.name}/{number}", name=name or f"idx_{number}")
        if kind == "persistent":
            new["selectivityEstimate"] = 1
        ix = Index(new, self)
        if ix.unique:
            for k, d in self.docs.items():
                t = ix.key_of(d)
                if t is not None and t in ix.values:
                    raise ArangoError(
                        1210,
                        f"unique constraint violated - in index {ix.name} of type persistent over "
                        f"'{', '.join(ix.fields)}'; conflicting key: {ix.values[t]}",
                    )
                if t is not None:
                    ix.values[t] = k
        elif kind == "vector":
            for d in self.docs.values():
                self.check_vector(ix, d)
        self.indexes.append(ix)
        self.train()
        return new, True


class Limits:
    """Limits of the server; None: without one.

    `transaction`: bytes that a stream transaction may write; `near`: rows that a vector search
    gives, as one of a real server that looks into a few of its lists.
    """

    def __init__(self, transaction=None, near=None):
        self.transaction = transaction
        self.near = near


class Database:
    def __init__(self, name, limits):
        self.name, self.id, self.limits = name, new_id(), limits
        self.collections = {n: Collection(n, system=True) for n in SYSTEM_COLLECTIONS}
        self.views = {}
        self.graphs = {}
        self.analyzers = {}
        self.cursors = {}
        self.transactions = {}
        self.locks = {}


def graph_collections(g):
    out = set(g["orphanCollections"])
    for d in g["edgeDefinitions"]:
        out |= {d["collection"], *d["from"], *d["to"]}
    return out
