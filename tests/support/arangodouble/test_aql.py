"""AQL semantics: the documented examples, the error numbers, the warnings."""

from __future__ import annotations

import pytest
from arango.exceptions import AQLQueryExecuteError, AQLQueryValidateError

from tests.support.arangodouble.conftest import code_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # operators.md
        ("0 == null", False),
        ("1 > 0", True),
        ("true != null", True),
        ('45 <= "yikes!"', True),
        ('65 != "65"', True),
        ("1.23 > 1.32", False),
        ("1.5 IN [2, 3, 1.5]", True),
        ('"foo" IN null', False),
        ("42 NOT IN [17, 40, 50]", True),
        ('"abc" == "ABC"', False),
        ('"foo" LIKE "f%"', True),
        ('"foo" NOT LIKE "f%"', False),
        ('"foo" =~ "^f[o].$"', True),
        ('"foo" !~ "[a-z]+bar$"', True),
        ('"abc" LIKE "_bc"', True),
        ('"a_b_foo" LIKE "a\\\\_b\\\\_foo"', True),
        ("[1, 2, 3] ALL IN [2, 3, 4]", False),
        ("[1, 2, 3] ALL IN [1, 2, 3]", True),
        ("[1, 2, 3] NONE IN [3]", False),
        ("[1, 2, 3] ANY IN [1, 42]", True),
        ("[1, 2, 3] ANY == 4", False),
        ("[1, 2, 3] NONE > 10", True),
        ("[1, 2, 3] ALL > 0", True),
        ("[1, 2, 3] AT LEAST (2) IN [2, 3, 4]", True),
        ('["foo", "bar"] AT LEAST (1+1) == "foo"', False),
        ("1 || 7", 1),
        ('null || "foo"', "foo"),
        ("null && true", None),
        ("true && 23", 23),
        ("1 || ! 0", 1),
        ('1 + "a"', 1),
        ('1 + "99"', 100),
        ("1 + null", 1),
        ("3 + [ ]", 3),
        ("24 + [ 2 ]", 26),
        ("24 + [ 2, 4 ]", 24),
        ("25 - null", 25),
        ("17 - true", 16),
        ("23 * { }", 0),
        ("5 * [ 7 ]", 35),
        ('24 / "12"', 2),
        ("1 / 0", None),
        ("2010..2013", [2010, 2011, 2012, 2013]),
        ("0..-1", [0, -1]),
        ("23 % 7", 2),
        ("-5 % 3", -2),
        ("null ?: 'd'", "d"),
        ("[1, [2, 3], [[4]]][**]", [1, 2, 3, [4]]),
        ("[[1, 2], 3, [4, 5], 6][** FILTER CURRENT % 2 == 0]", [2, 4, 6]),
        ("[1, 2, 3, 4][* FILTER CURRENT > 1 LIMIT 1, 2 RETURN CURRENT * 10]", [30, 40]),
        ("[{a: [{b: 1}, {b: 2}]}, {a: [{b: 3}]}][*].a[*].b", [[1, 2], [3]]),
        ("{}.z[*].x", []),
        ("{a: 1}.b.c", None),
        ("[1, 2, 3][-1]", 3),
        ("[1][7]", None),
        ("[1, 2, 3][? 2 FILTER CURRENT > 1]", True),
        ("2 + 3 * 4 == 14 AND NOT false", True),
        # type-and-value-order.md
        ("null < false", True),
        ("true < 0", True),
        ("0 < ''", True),
        ("'abc' < []", True),
        ("[] < {}", True),
        ("[] < [0]", True),
        ("[1, 2] < [2]", True),
        ("[99, 99] < [100]", True),
        ("[false, 1] < [false, '']", True),
        ("{} == {a: null}", True),
        ("{} < {a: 1}", True),
        ("{b: 1} < {a: 0}", True),
        ("{a: {c: true}} < {a: {c: 0}}", True),
        ("{a: 1, b: 2} == {b: 2, a: 1}", True),
        ("null >= 0.3", False),
        ("null < 5", True),
        ("true == 1", False),
        # type-check-and-cast.md
        ("TO_STRING(null)", ""),
        ("TO_STRING(true)", "true"),
        ("TO_STRING(-1.23)", "-1.23"),
        ("TO_STRING(0.0000002)", "2e-7"),
        ("TO_STRING([1, 2, 3])", "[1,2,3]"),
        ('TO_STRING({foo: "bar", baz: null})', '{"foo":"bar","baz":null}'),
        ("TO_ARRAY({foo: 1, bar: 2, baz: [3, 4, 5]})", [1, 2, [3, 4, 5]]),
        ("TO_ARRAY(null)", []),
        ("TO_NUMBER(' 7 ')", 7),
        # string.md, array.md, document-object.md
        ('SPLIT("foo-bar-baz", "-", 1)', ["foo"]),
        ('SPLIT("foo, bar & baz", [", ", " & "])', ["foo", "bar", "baz"]),
        ('SUBSTRING("Holy Guacamole!", 10, 4)', "mole"),
        ('SUBSTRING("Holy Guacamole!", -5, 4)', "mole"),
        ('CONCAT("foo", null, 3, [1])', "foo3[1]"),
        ('CONCAT_SEPARATOR(", ", "a", null, "b")', "a, b"),
        ('CONTAINS("x", "")', True),
        ('CONTAINS("foobar", "bar", true)', 3),
        ("LOWER(null)", ""),
        ('TRIM("--foo--", "-")', "foo"),
        ('LEFT("foobar", 3)', "foo"),
        ('REGEX_REPLACE("the quick", "the.*k", "a")', "a"),
        ('SUBSTITUTE("the quick brown", ["quick", "brown"], ["slow", "red"])', "the slow red"),
        ('LEVENSHTEIN_DISTANCE("foobar", "bar")', 3),
        ('LIKE("CAR", "c%", true)', True),
        ('FIND_LAST("foobarbaz", "ba")', 6),
        ('SHA256("foobar")', "c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"),
        ('MD5("foobar")', "3858f62230ac3c915f300c664312c63f"),
        ('TOKENS("quick brown fox", "text_en")', ["quick", "brown", "fox"]),
        ('TOKENS(["quick brown", "fox"], "text_en")', [["quick", "brown"], ["fox"]]),
        ("APPEND([1, 2, 3], [3, 4, 5, 2, 9], true)", [1, 2, 3, 4, 5, 9]),
        ("SLICE([1, 2, 3, 4, 5], 1, 2)", [2, 3]),
        ("SLICE([1, 2, 3, 4, 5], -3)", [3, 4, 5]),
        ("SLICE([1, 2, 3, 4, 5], 0, -2)", [1, 2, 3]),
        ("UNION_DISTINCT([1, 2], [2, 3])", [1, 2, 3]),
        ("FLATTEN([1, [2, [3]]], 2)", [1, 2, 3]),
        ("POSITION([2, 4], 4, true)", 1),
        ("MINUS([1, 2, 3], [2])", [1, 3]),
        ("NTH([1, 2], 5)", None),
        ("REMOVE_VALUE([1, 2, 2], 2, 1)", [1, 2]),
        ("MIN([null, 3, 2])", 2),
        ("MAX([])", None),
        ("SUM([])", 0),
        ("AVERAGE([5, 2, 9, 2])", 4.5),
        ("MEDIAN([1, 2, 3, 4])", 2.5),
        ("PERCENTILE([1, 2, 3, 4], 50)", 2),
        ("ROUND(-2.5)", -2),
        ("FIRST([])", None),
        ("LENGTH({a: 1})", 1),
        ("MERGE({a: 1}, {a: 2, b: {c: 1}})", {"a": 2, "b": {"c": 1}}),
        ("MERGE_RECURSIVE({a: {x: 1}}, {a: {y: 2}})", {"a": {"x": 1, "y": 2}}),
        ('KEEP({a: 1, b: 2}, "a", "z")', {"a": 1}),
        ('UNSET({a: 1, b: 2}, ["a"])', {"b": 2}),
        ('HAS({a: null}, "a")', True),
        ('ATTRIBUTES({foo: "bar", _key: "123", _custom: "yes"}, true)', ["foo"]),
        ('ZIP(["a", "b"], [1, 2])', {"a": 1, "b": 2}),
        ('VALUE({foo: {bar: "baz"}}, ["foo", "bar"])', "baz"),
        ('PARSE_IDENTIFIER("c/k")', {"collection": "c", "key": "k"}),
        ("NOT_NULL(null, 0, 1)", 0),
        ('JSON_PARSE("[1]")', [1]),
        ("JSON_STRINGIFY({a: [1, null]})", '{"a":[1,null]}'),
        ("1 == 1 || FAIL('e')", True),
        # dates
        ("DATE_ISO8601(1399472349522)", "2014-05-07T14:19:09.522Z"),
        ('DATE_TIMESTAMP("2014-05-07T14:19:09.522Z")', 1399472349522),
        ('DATE_ADD("2020-01-31", 1, "day")', "2020-02-01T00:00:00.000Z"),
        ('DATE_DIFF("2020-01-01", "2020-01-03", "d")', 2),
        ('DATE_ISO8601("2026-01-01T01:00:00+01:00")', "2026-01-01T00:00:00.000Z"),
        ('DATE_YEAR("2026-05-01")', 2026),
        ('DATE_ISO8601("x")', None),
        # vectors
        ("COSINE_SIMILARITY([0, 1], [1, 0])", 0),
        ("COSINE_SIMILARITY([1, 1], [2, 2])", 1),
        ("COSINE_SIMILARITY([1], [1, 2])", None),
        ("COSINE_SIMILARITY([[1, 0], [0, 1]], [1, 0])", [1, 0]),
        ("L2_DISTANCE([1, 1], [4, 5])", 5),
        ("COSINE_SIMILARITY([0], [1])", None),
        ('{"a": 1, "a": 2}', {"a": 1}),
        ("(FOR i IN 1..3 RETURN i)[1]", 2),
        ("LENGTH(FOR i IN 1..3 RETURN i)", 3),
    ],
)
def test_expression(one, expression, value):
    got = one(expression)
    assert got == (pytest.approx(value) if "SIMILARITY" in expression else value)
    assert "SIMILARITY" in expression or type(got) is type(value)


@pytest.mark.parametrize(
    ("query", "binds", "code"),
    [
        ("RETURN @a", {}, 1551),
        ("RETURN 1", {"a": 1}, 1552),
        ("RETURN", {}, 1501),
        ("FOR x IN [1] FILTER x = 1 RETURN x", {}, 1501),
        ("SELECT * FROM c", {}, 1501),
        ("FOR x IN [1] LIMIT x RETURN x", {}, 1501),
        ("RETURN NOSUCH(1)", {}, 1540),
        ("RETURN LOWER()", {}, 1541),
        ("FOR d IN absent RETURN d", {}, 1203),
        ("FOR d IN @@c RETURN d", {"@c": "absent"}, 1203),
        ("RETURN unknown", {}, 1203),
        ("INSERT {} INTO c FOR d IN c RETURN d", {}, 1579),
        ("INSERT {} INTO c INSERT {} INTO c", {}, 1579),
        ("INSERT {} INTO @@a INSERT {} INTO c", {"@a": "c"}, 1579),
        ("LET a = 1 LET a = 2 RETURN a", {}, 1511),
        ("RETURN FAIL('x')", {}, 1569),
        ("RETURN ASSERT(1 == 2, 'no')", {}, 1593),
        ("FOR x IN 5 RETURN x", {}, 1563),
        ("INSERT {_key: 'a'} INTO c", {}, 1210),
        ("INSERT {_key: 'a b'} INTO c", {}, 1221),
        ("REMOVE 'zz' IN c", {}, 1202),
        ("UPDATE {x: 1} IN c", {}, 1226),
        ("INSERT {} INTO e", {}, 1233),
        ("FOR v IN 1..2 OUTBOUND 'c/a' e OPTIONS {uniqueVertices: 'global'} RETURN v", {}, 10),
        ("RETURN c", {}, 9),
        ("INSERT {} INTO c OPTIONS {overwriteMode: 'ignore'} RETURN OLD", {}, 1501),
        ("RETURN DATE_YEAR(0, 'Europe/Berlin')", {}, 9),
        ("FOR v IN 1..1 OUTBOUND 'c/a' GRAPH 'no' RETURN v", {}, 1924),
        ("FOR v IN 1..1 OUTBOUND 'c/a' c RETURN v", {}, 1218),
        ("FOR x IN 1..3 COLLECT g = x AGGREGATE a = LOWER(x) RETURN a", {}, 1574),
        ("FOR d IN c SEARCH d.x == 1 RETURN d", {}, 1501),
        ("FOR x IN c LIMIT -1 RETURN x", {}, 1504),
        ("RETURN {x: 1", {}, 1501),
        ("RETURN 'a", {}, 1501),
    ],
)
def test_error_numbers(db, query, binds, code):
    db.create_collection("c").insert({"_key": "a"})
    db.create_collection("e", edge=True)
    with pytest.raises(AQLQueryExecuteError) as e:
        db.aql.execute(query, bind_vars=binds)
    assert code_of(e) == code


def test_parse_error_position(db):
    with pytest.raises(AQLQueryValidateError) as e:
        db.aql.validate("FOR d IN c\n  FILTER d.x = 1 RETURN d")
    assert code_of(e) == 1501
    assert "at position 2:14" in e.value.error_message


def test_warnings(db):
    cur = db.aql.execute("FOR i IN 1..30 RETURN i / 0")
    assert len(cur.warnings()) == 10
    assert cur.warnings()[0]["code"] == 1562
    assert len(db.aql.execute("FOR i IN 1..30 RETURN i / 0", max_warning_count=3).warnings()) == 3
    with pytest.raises(AQLQueryExecuteError) as e:
        db.aql.execute("RETURN COSINE_SIMILARITY([1], null)", fail_on_warning=True)
    assert code_of(e) == 1542
    assert (
        db.aql.execute("FOR x IN [] OPTIONS {nonsense: 1} RETURN x").warnings()[0]["code"] == 1539
    )


def test_failed_statement_leaves_nothing(db):
    c = db.create_collection("c")
    with pytest.raises(AQLQueryExecuteError):
        db.aql.execute("FOR k IN ['x', 'y', 'x'] INSERT {_key: k} INTO c")
    assert c.count() == 0


def test_collect(run):
    data = {"d": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "x"}]}
    assert run(
        "FOR d IN @d COLLECT b = d.b INTO g RETURN {b, n: LENGTH(g), a: g[*].d.a}", data
    ) == [
        {"b": "x", "n": 2, "a": [1, 3]},
        {"b": "y", "n": 1, "a": [2]},
    ]
    assert run("FOR d IN @d COLLECT b = d.b INTO g = d.a RETURN [b, g]", data) == [
        ["x", [1, 3]],
        ["y", [2]],
    ]
    assert run(
        "FOR d IN @d COLLECT AGGREGATE lo = MIN(d.a), hi = MAX(d.a), n = LENGTH(1) RETURN [lo, hi, n]",
        data,
    ) == [[1, 3, 3]]
    assert run(
        "FOR d IN @d COLLECT b = d.b AGGREGATE s = SUM(d.a), u = UNIQUE(d.a) RETURN [b, s, u]", data
    ) == [["x", 4, [1, 3]], ["y", 2, [2]]]
    assert run("FOR d IN @d COLLECT WITH COUNT INTO n RETURN n", data) == [3]
    assert run("FOR d IN [] COLLECT WITH COUNT INTO n RETURN n") == [0]
    assert run("FOR d IN @d LET z = 1 COLLECT b = d.b INTO g KEEP z RETURN g", data) == [
        [{"z": 1}, {"z": 1}],
        [{"z": 1}],
    ]
    assert run(
        "FOR o IN [7] LET s = (FOR d IN @d COLLECT b = d.b RETURN [o, b]) RETURN s", data
    ) == [[[7, "x"], [7, "y"]]]


def test_sort_limit_distinct(run):
    assert run("FOR x IN [3, 'a', null, [1], true, {}, 1] SORT x RETURN x") == [
        None,
        True,
        1,
        3,
        "a",
        [1],
        {},
    ]
    assert run("FOR x IN [3, 1, 2] SORT x DESC LIMIT 1, 1 RETURN x") == [2]
    assert run(
        "FOR x IN [{a: 1, b: 2}, {a: 1, b: 1}, {a: 0, b: 3}] SORT x.a DESC, x.b RETURN x.b"
    ) == [
        1,
        2,
        3,
    ]
    assert run("FOR x IN [1, 1.0, '1', 2] RETURN DISTINCT x") == [1, "1", 2]
    assert run("FOR x IN ['b', 'a', 'B', 'ä'] SORT x RETURN x") == ["B", "a", "b", "ä"]
    assert run("FOR [a, b] IN [[1, 2], [3]] RETURN {a, b}") == [
        {"a": 1, "b": 2},
        {"a": 3, "b": None},
    ]
    assert run("LET {x: [y]} = {x: [5]} RETURN y") == [5]


def test_bind_attributes(one):
    assert one("{a: {b: {c: 1}}}.@p", {"p": ["a", "b", "c"]}) == 1
    assert one("{foo: {bar: 'baz'}}.@x.@y", {"x": "foo", "y": "bar"}) == "baz"
    assert one("{[@k]: 1, @j: 2}", {"k": "x", "j": "y"}) == {"x": 1, "y": 2}


def test_modification(db, run):
    db.create_collection("c")
    assert run("FOR i IN 1..3 INSERT {_key: TO_STRING(i), v: i} INTO c RETURN NEW.v") == [1, 2, 3]
    assert run(
        "FOR d IN c FILTER d.v > 1 UPDATE d WITH {v: d.v * 10} IN c SORT OLD.v RETURN [OLD.v, NEW.v]"
    ) == [[2, 20], [3, 30]]
    assert run("REPLACE '1' WITH {w: 1} IN c RETURN UNSET(NEW, '_rev')") == [
        {"_key": "1", "_id": "c/1", "w": 1}
    ]
    assert run(
        "UPSERT {_key: '9'} INSERT {_key: '9', n: 1} UPDATE {n: OLD.n + 1} IN c RETURN [OLD, NEW.n]"
    ) == [[None, 1]]
    assert run("UPSERT {_key: '9'} INSERT {} UPDATE {n: OLD.n + 1} IN c RETURN NEW.n") == [2]
    assert run("UPSERT {_key: '9'} INSERT {} REPLACE {z: 1} IN c RETURN [NEW.z, NEW.n]") == [
        [1, None]
    ]
    assert run("UPDATE '9' WITH {o: {a: 1}} IN c RETURN NEW.o") == [{"a": 1}]
    assert run("UPDATE '9' WITH {o: {b: 1}} IN c RETURN NEW.o") == [{"a": 1, "b": 1}]
    assert run("UPDATE '9' WITH {o: {c: 1}} IN c OPTIONS {mergeObjects: false} RETURN NEW.o") == [
        {"c": 1}
    ]
    assert run("UPDATE '9' WITH {o: null} IN c OPTIONS {keepNull: false} RETURN HAS(NEW, 'o')") == [
        False
    ]
    assert run("INSERT {_key: '9'} INTO c OPTIONS {overwriteMode: 'ignore'} RETURN NEW") == [None]
    assert run("FOR d IN c REMOVE d IN c RETURN OLD._key") == ["1", "2", "3", "9"]
    assert run("RETURN LENGTH(c)") == [0]
    assert run("RETURN DOCUMENT('c/1')") == [None]


@pytest.fixture
def graph(db):
    db.create_collection("p").insert_many([{"_key": k} for k in "abcdef"])
    db.create_collection("e", edge=True).insert_many(
        [
            {"_key": x + y, "_from": "p/" + x, "_to": "p/" + y}
            for x, y in ("ab", "ac", "bd", "cd", "de", "ea")
        ]
    )


def test_traversals(graph, run):
    def q(text):
        return run("WITH p FOR v, e, p IN " + text)

    assert sorted(q("1..1 OUTBOUND 'p/a' e RETURN v._key")) == ["b", "c"]
    assert q("1..1 INBOUND 'p/a' e RETURN e._key") == ["ea"]
    assert sorted(q("1 ANY 'p/a' e RETURN v._key")) == ["b", "c", "e"]
    assert q("0..0 OUTBOUND 'p/a' e RETURN [v._key, e]") == [["a", None]]
    assert sorted(q("2..2 OUTBOUND 'p/a' e RETURN CONCAT(p.vertices[*]._key)")) == ["abd", "acd"]
    assert sorted(
        q("1..9 OUTBOUND 'p/a' e OPTIONS {order: 'bfs', uniqueVertices: 'global'} RETURN v._key")
    ) == ["b", "c", "d", "e"]
    assert q(
        "1..9 OUTBOUND 'p/a' e OPTIONS {order: 'bfs', uniqueVertices: 'global'} RETURN LENGTH(p.edges)"
    ) == [1, 1, 2, 3]
    assert q(
        "1..2 OUTBOUND 'p/a' e PRUNE v._key == 'b' OPTIONS {order: 'dfs'} RETURN CONCAT(p.vertices[*]._key)"
    ) == ["ab", "ac", "acd"]
    assert len(q("1..9 OUTBOUND 'p/a' e RETURN 1")) == len(
        set(q("1..9 OUTBOUND 'p/a' e RETURN CONCAT(p.edges[*]._key)"))
    )
    assert run("FOR v IN OUTBOUND SHORTEST_PATH 'p/a' TO 'p/e' e RETURN v._key")[-2:] == ["d", "e"]
    assert run(
        "FOR x IN p FILTER x._key IN ['a', 'd'] SORT x._key "
        "FOR v IN 1..1 OUTBOUND x e SORT v._key RETURN [x._key, v._key]"
    ) == [["a", "b"], ["a", "c"], ["d", "e"]]


def test_search_view(db, run):
    db.create_collection("c").insert_many(
        [
            {"_key": "1", "t": "Red red roses", "k": "x"},
            {"_key": "2", "t": "a red car", "k": "x"},
            {"_key": "3", "t": "blue", "k": "y", "hidden": "red"},
        ]
    )
    db.create_arangosearch_view(
        "v", properties={"links": {"c": {"fields": {"t": {"analyzers": ["text_en"]}, "k": {}}}}}
    )

    def q(cond):
        return run(f"FOR d IN v SEARCH {cond} SORT BM25(d) DESC, d._key RETURN d._key")

    assert q("ANALYZER(d.t IN TOKENS('RED', 'text_en'), 'text_en')") == ["1", "2"]
    assert q("d.t == 'red'") == []
    assert q("d.hidden == 'red'") == []
    assert q("d.k == 'y'") == ["3"]
    assert q("d.k == 'x' AND NOT PHRASE(d.t, 'red car', 'text_en')") == ["1"]
    assert q(
        "ANALYZER(STARTS_WITH(d.t, 'ro') OR LEVENSHTEIN_MATCH(d.t, 'bleu', 1), 'text_en')"
    ) == ["1", "3"]
    assert run("FOR d IN v COLLECT WITH COUNT INTO n RETURN n") == [3]
