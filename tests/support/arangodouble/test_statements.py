"""The 34 representative statements on seeded data."""

from __future__ import annotations

import pytest
from arango.exceptions import AQLQueryExecuteError

from tests.support.arangodouble.conftest import code_of, load_statements

pytestmark = pytest.mark.slow


S = load_statements()


def node(key, **kw):
    return {"_key": key, "graphKey": "g1", "sheet": "0", "type": "api", **kw}


@pytest.fixture
def seeded(db):
    for n in (
        "nodius_graphs",
        "nodius_nodes",
        "nodius_node_config",
        "nodius_ai_threads",
        "rag_sessions",
        "rag_audit",
    ):
        db.create_collection(n)
    db.create_collection("nodius_edges", edge=True)
    c = db.collection
    c("nodius_graphs").insert_many(
        [
            {"_key": "g2", "workspace": "w1"},
            {"_key": "g1", "workspace": "w1"},
            {"_key": "g9", "workspace": "w2"},
        ]
    )
    c("nodius_nodes").insert_many(
        [
            node(
                "g1-root",
                process="start here",
                searchText="The user logs in",
                embedding=[0.1, 0.2, 0.3],
            ),
            node(
                "g1-a",
                process="login user",
                searchText="user login page",
                embedding=[0.1, 0.2, 0.2],
            ),
            node(
                "g1-b",
                type="data",
                process="a login table",
                searchText="database login users",
                embedding=[-1, -2, -3],
            ),
            node("g1-c", sheet="1", type="ui", searchText="nothing", embedding=[0, 0, 0]),
            node("g1-d", type="data", searchText="users"),
            node("g2-a", graphKey="g2", searchText="user login", embedding=[0.1, 0.2, 0.3]),
            node("g9-a", graphKey="g9", embedding=[0.1, 0.2, 0.3]),
        ]
    )

    def edge(key, a, b, **kw):
        return {
            "_key": key,
            "_from": "nodius_nodes/" + a,
            "_to": "nodius_nodes/" + b,
            "graphKey": "g1",
            "sheet": "0",
            **kw,
        }

    c("nodius_edges").insert_many(
        [
            edge("e1", "g1-root", "g1-a", label="x"),
            edge("e2", "g1-a", "g1-b"),
            edge("e3", "g1-b", "g1-c", sheet="1"),
            edge("e4", "g1-root", "g2-a"),
            edge("e5", "g1-a", "g1-root"),
            edge("e6", "g1-d", "gone"),
        ]
    )
    c("nodius_node_config").insert_many(
        [
            {"_key": "c1", "workspace": "w1", "displayName": "API", "category": "b", "secret": 1},
            {"_key": "c2", "workspace": "root", "displayName": "Z", "category": "a"},
        ]
    )
    c("nodius_ai_threads").insert_many(
        [
            {
                "_key": "t1",
                "workspace": "w1",
                "updatedAt": "2026-01-01",
                "messages": [{"text": "old"}],
            },
            {"_key": "t2", "workspace": "w1", "updatedAt": "2026-02-01"},
        ]
    )
    for coll, body in [
        (
            "nodius_nodes",
            {
                "type": "persistent",
                "name": "ix_graph_sheet",
                "fields": ["graphKey", "sheet", "_key"],
                "inBackground": True,
            },
        ),
        (
            "nodius_nodes",
            {"type": "persistent", "name": "ix_graph_type", "fields": ["graphKey", "type", "_key"]},
        ),
        ("nodius_graphs", {"type": "persistent", "name": "ix_ws", "fields": ["workspace", "_key"]}),
        (
            "nodius_edges",
            {"type": "persistent", "name": "ix_edge_graph", "fields": ["graphKey", "sheet"]},
        ),
        (
            "nodius_node_config",
            {
                "type": "persistent",
                "name": "ux_cfg",
                "fields": ["workspace", "displayName"],
                "unique": True,
                "sparse": False,
            },
        ),
        (
            "rag_sessions",
            {"type": "ttl", "name": "ttl_sess", "fields": ["expiresAt"], "expireAfter": 0},
        ),
        (
            "nodius_nodes",
            {
                "type": "inverted",
                "name": "inv_nodes",
                "fields": ["graphKey", "sheet", {"name": "searchText", "analyzer": "text_en"}],
            },
        ),
        (
            "nodius_nodes",
            {
                "type": "vector",
                "name": "vec_nodes",
                "fields": ["embedding"],
                "sparse": True,
                "params": {"metric": "cosine", "dimension": 3, "nLists": 2, "defaultNProbe": 10},
            },
        ),
    ]:
        c(coll).add_index(body)
    db.create_arangosearch_view(
        "nodius_nodes_view",
        properties={
            "links": {
                "nodius_nodes": {
                    "includeAllFields": False,
                    "fields": {
                        "graphKey": {"analyzers": ["identity"]},
                        "sheet": {"analyzers": ["identity"]},
                        "searchText": {"analyzers": ["text_en", "identity"]},
                    },
                }
            }
        },
    )
    return db


@pytest.fixture
def go(seeded, run):
    def call(name, **binds):
        q, b = S[name]
        return run(
            q, {**b, **{k.replace("AT_", "@"): v for k, v in binds.items()}}, memory_limit=None
        )

    return call


def keys(rows):
    return [r["_key"] for r in rows]


def test_s01(go):
    assert keys(go("S01")) == ["g1", "g2"]
    assert keys(go("S01", offset=1)) == ["g2"]


def test_s02_paging(go):
    assert keys(go("S02")) == ["g1-a", "g1-b", "g1-d", "g1-root"]
    assert keys(go("S02", after="g1-b", limit=1)) == ["g1-d"]
    assert go("S02", sheet=0) == []  # "0" never equals 0
    assert all("embedding" not in r for r in go("S02"))


def test_s03(go):
    assert sorted(r["key"] for r in go("S03")) == ["g1-a", "g1-b", "g1-d", "g1-root", "g2-a"]
    assert go("S03", types=[]) == []


def test_s04_order_kept(go):
    assert keys(go("S04", keys=["g1-b", "missing", "g1-a"])) == ["g1-b", "g1-a"]


def test_s05(go):
    rows = go("S05")
    assert keys(rows) == ["c2", "c1"]
    assert "secret" not in rows[1]


def test_s06(go):
    assert go("S06") == [
        {"type": "api", "amount": 2},
        {"type": "data", "amount": 2},
        {"type": "ui", "amount": 1},
    ]


def test_s07(go, seeded):
    cur = seeded.aql.execute(S["S07"][0], bind_vars=S["S07"][1])
    rows = list(cur)
    assert [r["key"] for r in rows] == ["g1-root", "g1-a"]
    assert rows[0]["sim"] == pytest.approx(1)
    assert [w["code"] for w in cur.warnings()] == [1561]  # the zero vector of g1-c
    with pytest.raises(AQLQueryExecuteError) as e:
        seeded.aql.execute(S["S07"][0], bind_vars=S["S07"][1], fail_on_warning=True)
    assert code_of(e) == 1561


def test_s08(go):
    assert [r["key"] for r in go("S08")] == ["g1-root", "g1-a"]


def test_s09(go):
    assert [r["key"] for r in go("S09")] == ["g1-a"]


def test_s10(go):
    assert go("S10") == [{"key": "g1-a", "hits": 2}, {"key": "g1-b", "hits": 1}]


def test_s11(go):
    rows = go("S11")
    assert [r["key"] for r in rows[:2]] == ["g1-a", "g1-b"]
    assert {r["key"] for r in rows} == {"g1-a", "g1-b", "g1-d", "g1-root"}
    assert go("S11", text="") == []


def test_s12(go):
    assert go("S12")[0] == "g1-a"
    assert "g1-c" not in go("S12")


def test_s13(go, run):
    assert go("S13") == ["g1-a"]
    with pytest.raises(AQLQueryExecuteError) as e:
        run(S["S13"][0].replace("inv_nodes", "absent"), S["S13"][1])
    assert code_of(e) == 1577


def test_s14(go):
    rows = go("S14")
    assert rows[0]["key"] == "g1-a"
    assert rows[0]["score"] == pytest.approx(1 / 62 + 1 / 61)


def test_s15(go):
    rows = go("S15")
    assert {(r["depth"], r["node"]["_key"]) for r in rows} == {(1, "g1-a"), (2, "g1-b")}
    assert go("S15", start="nodius_nodes/absent") == []


def test_s15_bad_start_warns(seeded):
    cur = seeded.aql.execute(S["S15"][0], bind_vars={**S["S15"][1], "start": "nothing"})
    assert list(cur) == []
    assert len(cur.warnings()) == 1


def test_s16(go):
    paths = [r["path"] for r in go("S16")]
    assert ["g1-root", "g1-a", "g1-b"] in paths
    assert not any("g1-c" in p for p in paths)


def test_s17(go):
    assert go("S17", starts=["nodius_nodes/g1-b", "nodius_nodes/g1-c"]) == [
        {"key": "g1-a", "depth": 1},
        {"key": "g1-b", "depth": 1},
        {"key": "g1-root", "depth": 2},
    ]


def test_s18(go):
    assert keys(go("S18")) == ["e2"]


def test_s19(go):
    far = go("S19", **{"from": "nodius_nodes/g1-root", "to": "nodius_nodes/g1-c"})
    assert [r["key"] for r in far] == ["g1-root", "g1-a", "g1-b", "g1-c"]
    assert next(r["edge"] for r in far) is None
    assert [r["edge"] for r in far][2:] == ["e2", "e3"]
    assert go("S19", to="nodius_nodes/g9-a") == []


def test_s20(go):
    assert go("S20") == [{"edge": "e6", "from": "nodius_nodes/g1-d", "to": "nodius_nodes/gone"}]


def test_s21_compare_and_set(go, seeded):
    rev = seeded.collection("nodius_nodes").get("g1-a")["_rev"]
    docs = [
        {"_key": "g1-a", "_rev": rev, "embedding": [1, 0, 0]},
        {"_key": "g1-b", "_rev": "_old", "embedding": [1, 0, 0]},
    ]
    assert go("S21", docs=docs) == ["g1-a"]
    d = seeded.collection("nodius_nodes").get("g1-a")
    assert d["embedding"] == [1, 0, 0]
    assert d["embeddingModel"] == "e5-small"
    assert d["_rev"] != rev


def test_s21_bad_vector_rolls_back(go, seeded):
    col = seeded.collection("nodius_nodes")
    docs = [
        {"_key": k, "_rev": col.get(k)["_rev"], "embedding": v}
        for k, v in (("g1-a", [9, 9, 9]), ("g1-b", [1]))
    ]
    with pytest.raises(AQLQueryExecuteError) as e:
        go("S21", docs=docs)
    assert code_of(e) == 10
    assert col.get("g1-a")["embedding"] == [0.1, 0.2, 0.2]


def test_s22(seeded):
    b = {
        **S["S22"][1],
        "docs": [
            {"_key": "g1-a", "embedding": [1, 1, 1]},
            {"_key": "absent", "embedding": [1, 1, 1]},
        ],
    }
    st = seeded.aql.execute(S["S22"][0], bind_vars=b).statistics()
    assert (st["modified"], st["ignored"]) == (1, 1)


def test_s23(go):
    assert keys(go("S23")) == ["g1-a", "g1-b", "g1-c", "g1-d", "g1-root"]


def test_s24(go, seeded):
    rows = go(
        "S24",
        docs=[{"_key": "g1-a", "posX": 1, "process": None}, {"_key": "new", "graphKey": "g1"}],
    )
    assert [r["created"] for r in rows] == [False, True]
    d = seeded.collection("nodius_nodes").get("g1-a")
    assert d["posX"] == 1
    assert "process" not in d
    assert d["embedding"]


def test_s25(go, seeded):
    assert go("S25") == [{"key": "c1", "isNew": False}]
    assert go("S25", displayName="New")[0]["isNew"] is True
    assert seeded.collection("nodius_node_config").get("c1")["icon"] == "x"


def test_s26(go, seeded):
    rev = seeded.collection("nodius_nodes").get("g1-a")["_rev"]
    assert go("S26", rev=rev)[0]["key"] == "g1-a"
    for binds, code in (({"rev": rev}, 1200), ({"key": "absent", "rev": rev}, 1202)):
        with pytest.raises(AQLQueryExecuteError) as e:
            go("S26", **binds)
        assert code_of(e) == code


def test_s27(go, seeded):
    rows = go("S27")
    assert rows[0]["node"] == "g1-a"
    assert sorted(rows[0]["edges"]) == ["e1", "e2", "e5"]
    with pytest.raises(AQLQueryExecuteError) as e:
        go("S27", id="nodius_nodes/g1-b", key="absent")
    assert code_of(e) == 1202
    assert seeded.collection("nodius_edges").has("e3")


def test_s28(go, seeded):
    assert go("S28")[0]["amount"] == 2
    assert go("S28", key="absent") == []
    assert go("S28", keep=-2)[0]["amount"] == 2
    assert seeded.collection("nodius_ai_threads").get("t1")["messages"][-1]["text"] == "hi"


def test_s29(go):
    rows = go("S29")
    assert keys(rows) == ["t2", "t1"]
    assert "messages" not in rows[1]


def test_s30_s31(go):
    first = go("S30")
    assert go("S30", data={"a": 1}) != first
    assert go("S31")[0]["data"] == {"a": 1}
    assert go("S31", nowSeconds=1767225600) == []


def test_s32_s33(go):
    assert go("S32") == []
    assert [r["action"] for r in go("S33")] == ["search"]
    assert go("S33", **{"from": "2026-01-01T00:00:00.001Z"}) == []


def test_s34(go):
    assert len(go("S34", slice=2)) == 2
    assert len(go("S34")) == 3
    assert go("S34") == []


def test_explain_node_types(seeded):
    def types(name):
        return [n["type"] for n in seeded.aql.explain(S[name][0], bind_vars=S[name][1])["nodes"]]

    assert "IndexNode" in types("S02")
    assert "EnumerateViewNode" in types("S11")
    assert "TraversalNode" in types("S15")


@pytest.mark.parametrize("name", sorted(S))
def test_parses(db, name):
    assert sorted(db.aql.validate(S[name][0])["bind_vars"]) == sorted(S[name][1])
