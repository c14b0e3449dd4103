"""The REST surface, driven through python-arango."""

from __future__ import annotations

import threading
import time

import pytest
from arango import ArangoClient
from arango.exceptions import (
    AQLQueryExecuteError,
    ArangoServerError,
    CollectionCreateError,
    CollectionDeleteError,
    CursorCloseError,
    CursorNextError,
    DocumentInsertError,
    DocumentReplaceError,
    DocumentRevisionError,
    DocumentUpdateError,
    GraphDeleteError,
    IndexCreateError,
    JWTAuthError,
    ServerConnectionError,
    TransactionAbortError,
    TransactionCommitError,
    TransactionInitError,
    ViewCreateError,
)
from arango.http import DefaultHTTPClient

from tests.support.arangodouble import ArangoDouble
from tests.support.arangodouble.conftest import code_of

pytestmark = pytest.mark.slow


@pytest.fixture
def col(db):
    return db.create_collection("c")


# -- server, logins, databases
def test_version_and_availability(db, control):
    assert db.version().startswith("3.12")
    assert control("GET", "/_admin/server/availability")["code"] == 200


def test_wrong_password(client):
    with pytest.raises(ServerConnectionError) as e:
        client.db("_system", password="nope", verify=True)
    assert e.value.http_code == 401


def test_jwt(client, db):
    assert client.db("t", auth_method="jwt", username="root", password="secret").version()
    with pytest.raises(JWTAuthError):
        client.db("t", auth_method="jwt", username="root", password="bad")


def test_databases(client, db):
    system = client.db("_system", password="secret")
    assert system.databases() == ["_system", "t"]
    assert db.properties()["name"] == "t"
    with pytest.raises(ArangoServerError) as e:
        system.create_database("t")
    assert code_of(e) == 1207
    with pytest.raises(ArangoServerError) as e:
        db.create_database("u")
    assert code_of(e) == 1230
    with pytest.raises(ArangoServerError) as e:
        client.db("absent", password="secret").collections()
    assert (code_of(e), e.value.http_code) == (1228, 404)
    assert system.delete_database("t")
    with pytest.raises(ArangoServerError) as e:
        db.collections()
    assert code_of(e) == 1228


def test_database_user(client, db):
    client.db("_system", password="secret").create_database(
        "own", users=[{"username": "u", "password": "p"}]
    )
    assert client.db("own", "u", "p", verify=True).version()
    with pytest.raises(ServerConnectionError):
        client.db("t", "u", "p", verify=True)


# -- collections
def test_collections(db):
    c = db.create_collection("c")
    assert db.has_collection("c")
    assert c.properties()["edge"] is False
    assert db.create_collection("e", edge=True).properties()["edge"]
    with pytest.raises(CollectionCreateError) as e:
        db.create_collection("c")
    assert (code_of(e), e.value.http_code) == (1207, 409)
    with pytest.raises(CollectionDeleteError) as e:
        db.delete_collection("nope")
    assert (code_of(e), e.value.http_code) == (1203, 404)
    assert db.delete_collection("nope", ignore_missing=True) is False
    with pytest.raises(CollectionCreateError) as e:
        db.create_collection("1bad")
    assert code_of(e) == 1208
    c.insert_many([{} for _ in range(5)])
    assert c.count() == 5
    assert c.truncate()
    assert c.count() == 0
    assert {x["name"] for x in db.collections() if not x["system"]} == {"c", "e"}


def test_refused_features(db):
    for call in (
        lambda: db.create_collection("s", schema={"rule": {}}),
        lambda: db.create_view("v", "search-alias"),
        lambda: db.users(),
        lambda: db.aql.execute("RETURN SOUNDEX('a')"),
        lambda: db.aql.execute("FOR x IN 1..2 WINDOW {preceding: 1} AGGREGATE a = SUM(x) RETURN a"),
    ):
        with pytest.raises(ArangoServerError) as e:
            call()
        assert (code_of(e), e.value.http_code) == (9, 501)


# -- single documents
def test_insert_get(col):
    r = col.insert({"_key": "a", "n": 1, "nested": {"x": None}}, return_new=True)
    assert r["_id"] == "c/a"
    assert r["new"]["n"] == 1
    assert r["new"]["_rev"] == r["_rev"]
    assert col.get("a")["nested"] == {"x": None}
    assert col.get("absent") is None
    assert col.has("a")
    assert col.insert({"x": 1}, silent=True) is True
    assert col.count() == 2
    auto = col.insert({})["_key"]
    assert auto.isdigit()


@pytest.mark.parametrize("key", ["a b", "a/b", "ü", "", "x" * 255, "a#b", 'a"b'])
def test_bad_keys(col, key):
    with pytest.raises(DocumentInsertError) as e:
        col.insert({"_key": key})
    assert (code_of(e), e.value.http_code) == (1221, 400)


def test_good_keys(col):
    for key in ("x" * 254, "A-Z_a.z@(0)+9,=;$!*'%:"):
        col.insert({"_key": key})
    assert col.count() == 2
    with pytest.raises(DocumentInsertError) as e:
        col.insert({"_key": 1})
    assert code_of(e) == 1221


def test_overwrite_modes(col):
    first = col.insert({"_key": "a", "x": 1, "o": {"p": 1}})
    with pytest.raises(DocumentInsertError) as e:
        col.insert({"_key": "a"})
    assert (code_of(e), e.value.http_code) == (1210, 409)
    with pytest.raises(DocumentInsertError):
        col.insert({"_key": "a"}, overwrite_mode="conflict")
    assert col.insert({"_key": "a", "x": 5}, overwrite_mode="ignore")["_rev"] == first["_rev"]
    r = col.insert(
        {"_key": "a", "o": {"q": 2}}, overwrite_mode="update", return_new=True, return_old=True
    )
    assert r["new"]["o"] == {"p": 1, "q": 2}
    assert r["old"]["x"] == 1
    assert r["_old_rev"] == first["_rev"]
    r = col.insert(
        {"_key": "a", "o": {"z": 1}, "x": None},
        overwrite_mode="update",
        merge=False,
        keep_none=False,
        return_new=True,
    )
    assert r["new"]["o"] == {"z": 1}
    assert "x" not in r["new"]
    assert "o" not in col.insert({"_key": "a"}, overwrite_mode="replace", return_new=True)["new"]


def test_update_replace_revisions(col):
    rev = col.insert({"_key": "a", "x": 1, "o": {"p": 1}})["_rev"]
    r = col.update(
        {"_key": "a", "_rev": rev, "o": {"q": 1}, "x": None},
        return_new=True,
        keep_none=False,
        return_old=True,
    )
    assert r["new"]["o"] == {"p": 1, "q": 1}
    assert "x" not in r["new"]
    assert r["_old_rev"] == rev
    assert r["old"]["x"] == 1
    with pytest.raises(DocumentRevisionError) as e:
        col.update({"_key": "a", "_rev": rev, "x": 2})
    assert (code_of(e), e.value.http_code) == (1200, 412)
    assert col.update({"_key": "a", "_rev": rev, "x": 2}, check_rev=False)
    with pytest.raises(DocumentRevisionError):
        col.replace({"_key": "a", "_rev": rev})
    assert "o" not in col.replace({"_key": "a", "y": 1}, return_new=True)["new"]
    with pytest.raises(DocumentReplaceError) as e:
        col.replace({"_key": "absent"})
    assert (code_of(e), e.value.http_code) == (1202, 404)
    with pytest.raises(DocumentRevisionError):
        col.get({"_key": "a", "_rev": rev})
    with pytest.raises(DocumentRevisionError):
        col.delete({"_key": "a", "_rev": rev})
    assert col.delete("a", return_old=True)["old"]["y"] == 1
    assert col.delete("a", ignore_missing=True) is False


def test_edges(db):
    e = db.create_collection("e", edge=True)
    for bad in ({}, {"_from": "c/1"}, {"_from": "c/1", "_to": "nope"}, {"_from": 1, "_to": "c/1"}):
        with pytest.raises(DocumentInsertError) as x:
            e.insert(bad)
        assert (code_of(x), x.value.http_code) == (1233, 400)
    e.insert({"_from": "c/1", "_to": "c/2"})
    e.insert_many([{"_from": "c/1", "_to": "c/3"}, {"_from": "c/1"}])
    assert e.count() == 2
    with pytest.raises(DocumentUpdateError) as x:
        e.update({"_key": e.random()["_key"], "_to": None})
    assert code_of(x) == 1233


# -- bulk
def test_bulk(col):
    out = col.insert_many([{"_key": "a"}, {"_key": "a"}, {"_key": "b c"}, {"_key": "d"}])
    assert [getattr(x, "error_code", 0) for x in out] == [0, 1210, 1221, 0]
    with pytest.raises(DocumentInsertError):
        col.insert_many([{"_key": "a"}], raise_on_document_error=True)
    assert col.insert_many([{"_key": "a"}], silent=True) is True
    out = col.update_many(
        [{"_key": "a", "x": 1}, {"_key": "zz", "x": 1}, {"_key": "d", "_rev": "_bad"}]
    )
    assert [getattr(x, "error_code", 0) for x in out] == [0, 1202, 1200]
    out = col.replace_many([{"_key": "a", "y": 1}], return_new=True)
    assert "x" not in out[0]["new"]
    assert [d["_key"] for d in col.get_many(["a", "none", "d"])] == ["a", "d"]
    out = col.delete_many([{"_key": "a"}, "d", "nope"])
    assert [getattr(x, "error_code", 0) for x in out] == [0, 0, 1202]
    assert col.count() == 0


def test_import(col):
    assert col.import_bulk([{"_key": "a", "v": 1}, {"_key": "b"}])["created"] == 2
    with pytest.raises(DocumentInsertError) as e:
        col.import_bulk([{"_key": "new"}, {"_key": "a"}])  # halt_on_error: all or nothing
    assert code_of(e) == 1210
    assert not col.has("new")
    r = col.import_bulk([{"_key": "a"}, {"_key": "n"}], halt_on_error=False)
    assert (r["created"], r["errors"]) == (1, 1)
    assert "at position 0" in r["details"][0]
    assert col.import_bulk([{"_key": "a", "w": 1}], on_duplicate="update")["updated"] == 1
    assert col.get("a")["v"] == 1
    assert col.import_bulk([{"_key": "a"}], on_duplicate="ignore")["ignored"] == 1
    assert col.import_bulk([{"_key": "a"}], on_duplicate="replace")["updated"] == 1
    assert "v" not in col.get("a")
    assert col.import_bulk([{"_key": "q"}], overwrite=True)["created"] == 1
    assert col.count() == 1


def test_driver_helpers(col):
    col.import_bulk([{"_key": str(i), "g": i % 2, "o": {"a": i}} for i in range(10)])
    assert len(list(col.find({"g": 1}))) == 5
    assert len(list(col.all(skip=2, limit=3))) == 3
    assert len(list(col.keys())) == 10
    assert col.update_match({"g": 1}, {"h": 1}) == 5
    assert col.delete_match({"g": 0}) == 5
    assert col.random()["g"] == 1


# -- indexes
def test_unique_index(col):
    col.insert_many([{"_key": "a", "x": 1}, {"_key": "b", "x": 2}])
    ix = col.add_index({"type": "persistent", "fields": ["x"], "unique": True, "name": "ux"})
    assert ix["isNewlyCreated"] is True
    assert (
        col.add_index({"type": "persistent", "fields": ["x"], "unique": True, "name": "ux"})[
            "isNewlyCreated"
        ]
        is False
    )
    for call in (lambda: col.insert({"x": 1}), lambda: col.update({"_key": "b", "x": 1})):
        with pytest.raises((DocumentInsertError, DocumentUpdateError)) as e:
            call()
        assert (code_of(e), e.value.http_code) == (1210, 409)
    col.insert({"_key": "n"})
    with pytest.raises(DocumentInsertError):
        col.insert({})  # not sparse: two nulls collide
    col.delete("a")
    col.insert({"x": 1})
    with pytest.raises(IndexCreateError) as e:
        col.add_index({"type": "persistent", "fields": ["y"], "unique": True})
    assert code_of(e) == 1210
    assert {i["type"] for i in col.indexes()} == {"primary", "persistent"}
    assert col.delete_index(ix["id"])


def test_sparse_unique(col):
    col.add_index({"type": "persistent", "fields": ["a", "b"], "unique": True, "sparse": True})
    col.insert_many([{}, {}, {"a": 1}, {"a": 1}, {"a": 1, "b": 1}], raise_on_document_error=True)
    with pytest.raises(DocumentInsertError):
        col.insert({"a": 1, "b": 1})


def test_ttl_index(col):
    assert col.add_index({"type": "ttl", "fields": ["at"], "expireAfter": 0})["expireAfter"] == 0
    with pytest.raises(IndexCreateError):
        col.add_index({"type": "ttl", "fields": ["other"], "expireAfter": 1})


def test_vector_index_training(db, col):
    body = {
        "type": "vector",
        "fields": ["v"],
        "sparse": True,
        "name": "vx",
        "params": {"metric": "cosine", "dimension": 2, "nLists": 2},
    }
    assert col.add_index(body)["trainingState"] == "unusable"
    q = "FOR d IN c SORT APPROX_NEAR_COSINE(d.v, @q) DESC LIMIT 2 RETURN d._key"
    with pytest.raises(AQLQueryExecuteError) as e:
        db.aql.execute(q, bind_vars={"q": [1, 0]})
    assert code_of(e) == 1555
    col.insert_many([{"_key": "a", "v": [1, 0]}, {"_key": "b", "v": [0, 1]}, {"_key": "none"}])
    assert next(i for i in col.indexes() if i["type"] == "vector")["training_state"] == "ready"
    assert list(db.aql.execute(q, bind_vars={"q": [0, 1]})) == ["b", "a"]
    for bad in ([1], [1, 2, 3], "x", ["a", 1]):
        with pytest.raises(DocumentInsertError) as e:
            col.insert({"v": bad})
        assert code_of(e) == 10


@pytest.mark.parametrize(
    "q",
    [
        "FOR d IN c SORT APPROX_NEAR_COSINE(d.v, @q) LIMIT 2 RETURN d",
        "FOR d IN c SORT APPROX_NEAR_COSINE(d.v, @q) DESC RETURN d",
        "FOR d IN c LET s = APPROX_NEAR_COSINE(d.v, @q) FILTER s > 0 SORT s DESC LIMIT 2 RETURN d",
        "FOR d IN c SORT APPROX_NEAR_COSINE(d.v, @q) DESC, d._key LIMIT 2 RETURN d",
        "FOR d IN c RETURN APPROX_NEAR_COSINE(d.v, @q)",
        "FOR d IN c SORT APPROX_NEAR_COSINE(d.other, @q) DESC LIMIT 2 RETURN d",
        "RETURN APPROX_NEAR_COSINE([1,2], @q)",
        "FOR d IN c SORT APPROX_NEAR_L2(d.v, @q) LIMIT 2 RETURN d",
    ],
)
def test_vector_shape_1554(db, col, q):
    col.insert_many([{"v": [1, 0]}, {"v": [0, 1]}])
    col.add_index(
        {
            "type": "vector",
            "fields": ["v"],
            "params": {"metric": "cosine", "dimension": 2, "nLists": 1},
        }
    )
    with pytest.raises(AQLQueryExecuteError) as e:
        db.aql.execute(q, bind_vars={"q": [1, 0]})
    assert code_of(e) == 1554


# -- views and graphs
def test_views(db, col):
    v = db.create_arangosearch_view(
        "v", properties={"links": {"c": {"includeAllFields": True, "analyzers": ["text_en"]}}}
    )
    assert v["name"] == "v"
    assert "c" in db.view("v")["links"]
    assert db.views()[0]["name"] == "v"
    with pytest.raises(ViewCreateError) as e:
        db.create_arangosearch_view("v")
    assert code_of(e) == 1207
    with pytest.raises(ViewCreateError) as e:
        db.create_arangosearch_view("w", properties={"links": {"absent": {}}})
    assert code_of(e) == 1203
    col.insert({"t": "Quick brown foxes"})
    q = "FOR d IN v SEARCH ANALYZER(d.t IN TOKENS('FOX', 'text_en'), 'text_en') RETURN d.t"
    assert list(db.aql.execute(q)) == ["Quick brown foxes"]
    assert db.delete_view("v")


def test_graphs(db):
    db.create_graph(
        "g",
        edge_definitions=[
            {
                "edge_collection": "e",
                "from_vertex_collections": ["a"],
                "to_vertex_collections": ["b"],
            }
        ],
    )
    assert db.has_graph("g")
    assert [g["name"] for g in db.graphs()] == ["g"]
    assert db.collection("e").properties()["edge"]
    db.collection("a").insert({"_key": "1"})
    db.collection("b").insert({"_key": "2"})
    db.collection("e").insert({"_from": "a/1", "_to": "b/2"})
    assert list(
        db.aql.execute("FOR v IN 1..1 OUTBOUND 'a/1' GRAPH @g RETURN v._id", bind_vars={"g": "g"})
    ) == ["b/2"]
    edges = db.graph("g").edge_collection("e").edges("a/1")["edges"]
    assert len(edges) == 1
    assert db.graph("g").vertex_collections() == ["a", "b"]
    with pytest.raises(CollectionDeleteError) as e:
        db.delete_collection("e")
    assert code_of(e) == 1942
    assert db.delete_graph("g", drop_collections=True)
    assert not db.has_collection("e")
    with pytest.raises(GraphDeleteError) as e:
        db.delete_graph("g")
    assert code_of(e) == 1924


# -- cursors
def test_cursor_batches(db):
    cur = db.aql.execute("FOR i IN 1..10 RETURN i", batch_size=3, count=True)
    assert cur.has_more()
    assert len(cur.batch()) == 3
    assert len(cur) == 10
    assert list(cur) == list(range(1, 11))
    assert not cur.has_more()


def test_cursor_put_and_close(db, control):
    cur = db.aql.execute("FOR i IN 1..10 RETURN i", batch_size=3)
    resp = db.conn.send_request(
        __import__("arango.request", fromlist=["Request"]).Request("put", f"/_api/cursor/{cur.id}")
    )
    assert resp.body["result"] == [4, 5, 6]
    assert cur.close() is True
    with pytest.raises(CursorCloseError) as e:
        cur.close()
    assert code_of(e) == 1600
    with pytest.raises(CursorNextError) as e:
        cur.fetch()
    assert (code_of(e), e.value.http_code) == (1600, 404)


def test_cursor_ttl(db):
    cur = db.aql.execute("FOR i IN 1..10 RETURN i", batch_size=3, ttl=0.05)
    time.sleep(0.1)
    with pytest.raises(CursorNextError) as e:
        cur.fetch()
    assert code_of(e) == 1600


def test_cursor_retry(db):
    cur = db.aql.execute("FOR i IN 1..5 RETURN i", batch_size=2, allow_retry=True)
    assert list(cur) == [1, 2, 3, 4, 5]
    assert cur.close()


def test_full_count_and_stats(db, col):
    col.import_bulk([{"x": i} for i in range(20)])
    cur = db.aql.execute(
        "FOR d IN c FILTER d.x >= 5 LIMIT 2, 3 RETURN d", full_count=True, count=True
    )
    assert len(cur) == 3
    assert cur.statistics()["fullCount"] == 15
    st = db.aql.execute("FOR d IN c UPDATE d WITH {y: 1} IN c").statistics()
    assert st["modified"] == 20
    assert st["ignored"] == 0


def test_max_runtime(db):
    with pytest.raises(AQLQueryExecuteError) as e:
        db.aql.execute("RETURN SLEEP(5)", max_runtime=0.1)
    assert (code_of(e), e.value.http_code) == (1500, 410)


# -- stream transactions
def test_transaction_isolation(db, col):
    col.insert({"_key": "a", "x": 1})
    t = db.begin_transaction(write=["c"])
    tc = t.collection("c")
    tc.update({"_key": "a", "x": 2})
    tc.insert({"_key": "b"})
    assert list(t.aql.execute("FOR d IN c SORT d._key RETURN d.x")) == [2, None]
    assert col.get("a")["x"] == 1
    assert not col.has("b")
    assert tc.count() == 2
    assert t.transaction_status() == "running"
    assert t.commit_transaction()
    assert col.get("a")["x"] == 2
    assert col.has("b")
    assert t.transaction_status() == "committed"
    with pytest.raises(TransactionAbortError) as e:
        t.abort_transaction()
    assert code_of(e) == 1653


def test_transaction_snapshot_and_abort(db, col):
    t = db.begin_transaction(read=["c"], write=[])
    col.insert({"_key": "late"})
    assert not t.collection("c").has("late")
    assert t.abort_transaction()
    t = db.begin_transaction(write=["c"])
    t.collection("c").delete("late")
    assert t.abort_transaction()
    assert col.has("late")
    with pytest.raises(TransactionCommitError) as e:
        t.commit_transaction()
    assert code_of(e) == 1653
    with pytest.raises(ArangoServerError) as e:
        t.collection("c").insert({})
    assert e.value.http_code == 410


def test_write_write_conflict(db, col):
    col.insert({"_key": "a"})
    t1 = db.begin_transaction(write=["c"])
    t2 = db.begin_transaction(write=["c"])
    t1.collection("c").update({"_key": "a", "x": 1})
    for other in (t2.collection("c"), col):
        with pytest.raises(DocumentUpdateError) as e:
            other.update({"_key": "a", "x": 2})
        assert (code_of(e), e.value.http_code) == (1200, 409)
    t1.commit_transaction()
    with pytest.raises(AQLQueryExecuteError) as e:  # changed after the snapshot
        t2.aql.execute("UPDATE 'a' WITH {x: 3} IN c")
    assert code_of(e) == 1200
    t2.abort_transaction()
    assert col.update({"_key": "a", "x": 4})


def test_unique_value_between_transactions(db, col):
    col.add_index({"type": "persistent", "fields": ["u"], "unique": True, "sparse": True})
    t = db.begin_transaction(write=["c"])
    t.collection("c").insert({"u": 1})
    with pytest.raises(DocumentInsertError) as e:
        col.insert({"u": 1})
    assert code_of(e) == 1200
    t.commit_transaction()
    with pytest.raises(DocumentInsertError) as e:
        col.insert({"u": 1})
    assert code_of(e) == 1210


def test_undeclared_collection(db, col):
    db.create_collection("other")
    with pytest.raises(TransactionInitError) as e:
        db.begin_transaction(write=["absent"])
    assert code_of(e) == 1203
    t = db.begin_transaction(read=["c"])
    for name in ("c", "other"):
        with pytest.raises(DocumentInsertError) as e:
            t.collection(name).insert({})
        assert code_of(e) == 1652
    assert t.collection("other").count() == 0
    t = db.begin_transaction(read=["c"], allow_implicit=False)
    with pytest.raises(AQLQueryExecuteError) as e:
        t.aql.execute("FOR d IN other RETURN d")
    assert code_of(e) == 1652


def test_transaction_idle_timeout():
    d = ArangoDouble(trx_idle=0.05).start()
    try:
        db = ArangoClient(hosts=d.url).db("_system", password="")
        db.create_collection("c")
        t = db.begin_transaction(write=["c"])
        t.collection("c").insert({"_key": "a"})
        time.sleep(0.1)
        with pytest.raises(TransactionCommitError) as e:
            t.commit_transaction()
        assert code_of(e) == 1653
        assert not db.collection("c").has("a")
    finally:
        d.stop()


# -- the double's own hooks, load
def test_faults(db, col, control):
    control("POST", "/_double/fault", {"match": "/_api/cursor", "times": 1, "action": "error:1200"})
    with pytest.raises(AQLQueryExecuteError) as e:
        db.aql.execute("RETURN 1")
    assert (code_of(e), e.value.http_code) == (1200, 409)
    assert list(db.aql.execute("RETURN 1")) == [1]
    control("POST", "/_double/fault", {"match": "/_api/cursor", "times": 1, "action": "drop"})
    assert list(db.aql.execute("RETURN 2")) == [2]  # the driver sends it again
    control(
        "POST", "/_double/fault", {"match": "/_api/document", "times": 1, "action": "drop-after"}
    )
    with pytest.raises(DocumentInsertError) as e:
        col.insert({"_key": "twice"})  # written, answer lost, sent again by the driver
    assert code_of(e) == 1210
    control(
        "POST", "/_double/fault", {"match": "/_api/document", "times": 3, "action": "status:503"}
    )
    with pytest.raises(ConnectionAbortedError):
        col.insert({"_key": "a"})
    control("POST", "/_double/fault", {"match": "/_api/version", "times": 1, "action": "delay:120"})
    began = time.monotonic()
    db.version()
    assert time.monotonic() - began >= 0.12


def test_stats(db, col, control):
    control("DELETE", "/_double/stats")
    col.insert({})
    list(db.aql.execute("FOR i IN 1..4 RETURN i", batch_size=2))
    s = control("GET", "/_double/stats")
    assert s["queries"] == {"FOR i IN 1..4 RETURN i": 1}
    assert s["requests"]["POST /_db/t/_api/document/c"] == 1
    assert sum(n for k, n in s["requests"].items() if "/_api/cursor" in k) == 2


def test_sixteen_clients(url, db, col):
    errors = []

    def work(n):
        try:
            c = ArangoClient(hosts=url, http_client=DefaultHTTPClient(retry_attempts=0)).db(
                "t", password="secret"
            )
            for i in range(25):
                c.collection("c").insert({"_key": f"{n}-{i}", "n": n})
                assert (
                    len(
                        list(
                            c.aql.execute(
                                "FOR d IN c FILTER d.n == @n RETURN 1", bind_vars={"n": n}
                            )
                        )
                    )
                    == i + 1
                )
                c.aql.execute(
                    "UPSERT {_key: 'sum'} INSERT {_key: 'sum', v: 1} UPDATE {v: OLD.v + 1} IN c"
                )
        except BaseException as e:  # noqa: BLE001 - any failure of a thread fails the test
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors
    assert col.count() == 401
    assert col.get("sum")["v"] == 400


def test_twenty_thousand_documents(db, col):
    col.import_bulk([{"_key": f"k{i}", "g": f"g{i % 200}", "v": [i, 1, 2]} for i in range(20_000)])
    col.add_index({"type": "persistent", "fields": ["g", "_key"]})
    q = "FOR d IN c FILTER d.g == @g SORT d._key LIMIT 50 RETURN UNSET(d, 'v')"
    db.aql.execute(q, bind_vars={"g": "g1"})
    began = time.monotonic()
    for i in range(50):
        cur = db.aql.execute(q, bind_vars={"g": f"g{i}"})
        assert len(list(cur)) == 50
        assert cur.statistics()["scanned_index"] == 100
        assert cur.statistics()["scanned_full"] == 0
    assert time.monotonic() - began < 3
