"""Stream transactions, and what one operation sees and writes.

A stream transaction works on copies of the collections taken at its start, and locks the keys and
unique values that it writes.
"""

from __future__ import annotations

import json
import time

from tests.support.arangodouble.errors import ArangoError
from tests.support.arangodouble.functions_of_lists import deep_merge
from tests.support.arangodouble.storage import new_id, new_rev, strip_nulls, valid_key


class Transaction:
    """A stream transaction: collection copies, the keys written, and the declared collections."""

    def __init__(self, db, declared, allow_implicit, idle):
        self.id = new_id()
        self.db = db
        self.idle = idle
        self.status = "running"
        # name -> read | write | exclusive
        self.declared, self.allow_implicit = (
            declared,
            allow_implicit,
        )
        self.copies = {n: c.clone() for n, c in db.collections.items()}
        self.touched = {}  # name -> {key: committed doc at start}
        self.deadline = time.monotonic() + idle
        self.busy = False
        self.written = 0  # bytes

    def finish(self, commit):
        if commit:
            for name, keys in self.touched.items():
                target = self.db.collections.get(name)
                if target is None:
                    continue
                for k in keys:  # free the unique values first
                    target.drop_key(k)
                for k in keys:
                    doc = self.copies[name].docs.get(k)
                    if doc is not None:
                        target.put(k, doc)
        self.status = "committed" if commit else "aborted"
        self.db.locks = {k: t for k, t in self.db.locks.items() if t is not self}
        self.copies = {}
        self.touched = {}


class Access:
    """One operation's (or one query's) view of the data: committed state, or
    a transaction's copies.
    """

    def __init__(self, db, trx=None):
        self.db = db
        self.trx = trx
        self.undo = []

    def collection(self, name, write=False):
        trx = self.trx
        if trx is None:
            c = self.db.collections.get(name)
        else:
            mode = trx.declared.get(name)
            if mode is None and name in trx.copies and (write or not trx.allow_implicit):
                raise ArangoError(1652, f"collection not registered in transaction: {name}")
            if write and mode == "read":
                raise ArangoError(
                    1652, f"unregistered collection used in transaction: {name} [write]"
                )
            c = trx.copies.get(name)
        if c is None:
            raise ArangoError(1203, f"collection or view not found: {name}")
        return c

    def committed(self, name):
        return self.db.collections[name]

    # -- conflict detection
    def _lock(self, coll, key, doc):
        names = [(coll.name, key)]
        if doc is not None:
            names += [
                (coll.name, ix.id, ix.key_of(doc))
                for ix in coll.indexes
                if ix.unique and ix.key_of(doc) is not None
            ]
        for n in names:
            if self.db.locks.get(n, self.trx) is not self.trx:
                raise ArangoError(
                    1200,
                    "write-write conflict; timeout waiting to lock key - "
                    f"in index primary of type primary over '_key'; conflicting key: {key}",
                )
        if self.trx is None:
            return
        base = self.db.collections.get(coll.name)
        touched = self.trx.touched.setdefault(coll.name, {})
        if base is not None and key not in touched and base.docs.get(key) is not coll.docs.get(key):
            raise ArangoError(
                1200,
                "write-write conflict; snapshot too old - in index primary of type primary over "
                f"'_key'; conflicting key: {key}",
            )
        if base is not None and doc is not None:
            for ix in base.indexes:
                t = ix.unique and ix.key_of(doc)
                other = ix.values.get(t) if t else None
                mine = next((i for i in coll.indexes if i.id == ix.id), None)
                if (
                    other is not None
                    and other not in touched
                    and other != key
                    and (mine is None or mine.values.get(t) is None)
                ):
                    raise ArangoError(
                        1200, f"write-write conflict - in index {ix.name}; conflicting key: {other}"
                    )
        for n in names:
            self.db.locks[n] = self.trx
        touched.setdefault(key, coll.docs.get(key))

    def _write(self, coll, key, doc):
        self._lock(coll, key, doc if doc is not None else coll.docs.get(key))
        self._weigh(doc)
        if doc is not None:
            coll.check_unique(doc, key)
        self.undo.append((coll, key, coll.docs.get(key)))
        if doc is None:
            coll.drop_key(key)
        else:
            coll.put(key, doc)

    def _weigh(self, doc):
        """Counts what a stream transaction writes; a removal writes its key. Error 32
        above the limit.
        """
        most = self.db.limits.transaction
        if self.trx is None or most is None:
            return
        self.trx.written += 100 + (len(json.dumps(doc)) if doc is not None else 0)
        if self.trx.written > most:
            raise ArangoError(
                32,
                f"aborting transaction because maximal transaction size limit of {most} bytes is reached",
            )

    def rollback(self, mark=0):
        undo = self.undo[mark:]
        self.undo = self.undo[:mark]
        last = {}
        for coll, key, doc in reversed(undo):
            last[(id(coll), key)] = (coll, key, doc)
        for coll, key, _ in last.values():
            coll.drop_key(key)
        for coll, key, doc in last.values():
            if doc is not None:
                coll.put(key, doc)

    # -- reading
    def get(self, name, key):
        return self.collection(name).docs.get(key)

    def document(self, ident):
        """For DOCUMENT() and traversals: None when there is no such document or collection."""
        name, _, key = ident.partition("/")
        known = self.db.collections if self.trx is None else self.trx.copies
        return self.get(name, key) if name in known else None

    # -- writing
    def _edge_check(self, coll, doc):
        if coll.edge:
            for a in ("_from", "_to"):
                v = doc.get(a)
                if (
                    type(v) is not str
                    or v.count("/") != 1
                    or not all(v.split("/"))
                    or not valid_key(v.split("/")[1])
                ):
                    raise ArangoError(1233, "edge attribute missing or invalid")

    @staticmethod
    def _finish(coll, key, doc):
        out = {"_key": key, "_id": f"{coll.name}/{key}", "_rev": new_rev()}
        for a in ("_from", "_to"):
            if coll.edge and a in doc:
                out[a] = doc[a]
        if coll.edge:
            out = {k: out[k] for k in ("_key", "_id", "_from", "_to", "_rev") if k in out}
        out.update((k, v) for k, v in doc.items() if k not in ("_key", "_id", "_rev"))
        return out

    def insert(self, name, doc, mode="conflict", keep_null=True, merge=True, ignore_revs=True):
        """-> (old or None, new or None); new is None when overwriteMode ignore
        met an existing document.
        """
        coll = self.collection(name, write=True)
        if type(doc) is not dict:
            raise ArangoError(1227, "invalid document type")
        key = doc.get("_key")
        if "_key" in doc:
            if type(key) is not str or not valid_key(key):
                raise ArangoError(1221, "illegal document key")
            if not coll.props.get("keyOptions", {}).get("allowUserKeys", True):
                raise ArangoError(1222, "unexpected document key")
        else:
            key = new_id()
            while key in coll.docs:
                key = new_id()
        old = coll.docs.get(key)
        if old is not None and mode != "conflict":
            if mode == "ignore":
                return old, None
            if mode == "update":
                return self.update(name, key, doc, keep_null=keep_null, merge=merge)
            if mode == "replace":
                return self.replace(name, key, doc)
            raise ArangoError(10, f"invalid overwriteMode {mode!r}")
        if mode not in ("conflict", "ignore", "update", "replace"):
            raise ArangoError(10, f"invalid overwriteMode {mode!r}")
        self._edge_check(coll, doc)
        if old is not None:
            self._lock(coll, key, None)
            raise ArangoError(
                1210,
                "unique constraint violated - in index primary of type primary over '_key'; "
                f"conflicting key: {key}",
            )
        new = self._finish(coll, key, doc)
        self._write(coll, key, new)
        return None, new

    def _existing(self, name, key, rev):
        coll = self.collection(name, write=True)
        old = coll.docs.get(key)
        if old is None:
            raise ArangoError(1202, "document not found")
        if rev is not None and rev != old["_rev"]:
            raise ArangoError(
                1200,
                "conflict, _rev values do not match",
                extra={"_id": old["_id"], "_key": old["_key"], "_rev": old["_rev"]},
            )
        return coll, old

    def update(self, name, key, patch, rev=None, keep_null=True, merge=True):
        coll, old = self._existing(name, key, rev)
        if type(patch) is not dict:
            raise ArangoError(1227, "invalid document type")
        patch = {k: v for k, v in patch.items() if k not in ("_key", "_id", "_rev")}
        new = deep_merge(old, patch) if merge else {**old, **patch}
        if not keep_null:
            for k in patch:
                new[k] = strip_nulls(new[k])
            new = {k: v for k, v in new.items() if v is not None or k not in patch}
        self._edge_check(coll, new)
        new = self._finish(coll, key, new)
        self._write(coll, key, new)
        return old, new

    def replace(self, name, key, doc, rev=None):
        coll, old = self._existing(name, key, rev)
        if type(doc) is not dict:
            raise ArangoError(1227, "invalid document type")
        self._edge_check(coll, doc)
        new = self._finish(coll, key, doc)
        self._write(coll, key, new)
        return old, new

    def remove(self, name, key, rev=None):
        coll, old = self._existing(name, key, rev)
        self._write(coll, key, None)
        return old, None

    def truncate(self, name):
        coll = self.collection(name, write=True)
        for k in list(coll.docs):
            self._write(coll, k, None)
