"""No statement that runs often reads a whole table: every plan of SQLite is looked at."""

import re
import sqlite3
from collections.abc import Iterator

import pytest

from datasources.record_kinds import RECORD_INDEXES, RecordQuery
from datasources.sqlite import schema, statements
from datasources.sqlite.change_log import TEXT_LOG, VECTOR_LOG
from datasources.sqlite.records import query_statement

STATEMENTS = (
    {
        name: text
        for name, text in vars(statements).items()
        if name.isupper() and name[0] != "_" and isinstance(text, str)
    }
    | {
        f"{of[name]} {name}": of[name]
        for of in (statements.VECTORS, statements.VECTORS_OF)
        for name in of
    }
    | {f"log {text}": text for log in (TEXT_LOG, VECTOR_LOG) for text in vars(log).values()}
)
MEANT_TO_READ_ALL = {
    "TOTALS": "a health check counts the graphs",
    "WORKSPACES": "every workspace is listed, from an index",
    "GRAPHS_WITH_TEXT": "once when a file is opened whose words an older program wrote",
    "GRAPH_IDS_OF_ALL": "a type of the root workspace concerns every graph",
}
GROWING = ("nodes", "edges", "vectors", "records", "text_log", "vector_log", "graphs", "configs")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "graphs.db"
    schema.prepare(path)
    connection = schema.connect(path)
    yield connection
    connection.close()


def plan_of(connection: sqlite3.Connection, statement: str) -> list[str]:
    named = dict.fromkeys(re.findall(r":(\w+)", statement), "[]")
    values: object = named or ["[]"] * statement.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]  # pyright: ignore[reportArgumentType]


def whole_tables(plan: list[str], statement: str) -> Iterator[str]:
    """Yield the steps that read a whole table, be it by an index."""
    aliases = re.findall(r"\b(\w+) ([a-z])\b", statement)
    names = {*GROWING, *(alias for table, alias in aliases if table in GROWING)}
    for step in plan:
        scanned = re.match(r"SCAN (\w+)", step)
        if scanned and scanned[1] in names:
            yield step
        if "AUTOMATIC" in step:
            yield step


@pytest.mark.parametrize("name", [*sorted(STATEMENTS.keys() - MEANT_TO_READ_ALL)])
def test_no_statement_reads_a_whole_table(connection: sqlite3.Connection, name: str) -> None:
    plan = plan_of(connection, STATEMENTS[name])
    assert list(whole_tables(plan, STATEMENTS[name])) == [], plan


@pytest.mark.parametrize("name", [*sorted(MEANT_TO_READ_ALL)])
def test_the_statements_that_may_do_so_are_recognised_as_such(
    connection: sqlite3.Connection, name: str
) -> None:
    assert list(whole_tables(plan_of(connection, STATEMENTS[name]), STATEMENTS[name]))


SORTED_BY_INDEX = ["GRAPH_LIST", "NODES", "EDGES"]


@pytest.mark.parametrize("name", [*SORTED_BY_INDEX])
def test_pages_come_sorted_from_an_index(connection: sqlite3.Connection, name: str) -> None:
    plan = plan_of(connection, STATEMENTS[name])
    assert not [step for step in plan if "TEMP B-TREE" in step], plan


@pytest.mark.parametrize(
    ("kind", "field"),
    [*[(kind, field) for kind, fields in RECORD_INDEXES.items() for field in fields]],
)
@pytest.mark.parametrize("asked", ["equal", "order", "descending", "equal and order"])
def test_every_record_query_uses_the_index_of_its_field(
    connection: sqlite3.Connection, kind: str, field: str, asked: str
) -> None:
    where = {field: "x"} if "equal" in asked else {}
    order = field if asked != "equal" else None
    query = RecordQuery(kind=kind, where=where, order_by=order, descending=asked == "descending")
    statement, values = query_statement("acme", query)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert any(f"records_{kind}_{field}" in step for step in plan), plan
    assert not [step for step in plan if step.startswith("SCAN")], plan
    if asked != "descending":  # backwards, ties are still in key order: only they are sorted
        assert not [step for step in plan if "TEMP B-TREE FOR ORDER BY" in step], plan


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("bounds", [(None, 5), (5, None), (5, 9)])
def test_a_bounded_query_goes_along_the_index_of_what_is_bounded(
    connection: sqlite3.Connection, bounds: tuple[int | None, int | None], descending: bool
) -> None:
    """Of a thousand enabled automations, those that are due are read, and no other."""
    least, most = bounds
    query = RecordQuery(
        kind="automation",
        where={"enabled": True},
        order_by="nextTime",
        at_least=least,
        at_most=most,
        descending=descending,
    )
    statement, values = query_statement("acme", query)
    (search, *sorting) = [
        row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
    ]
    assert (
        search
        == "SEARCH records USING INDEX records_automation_nextTime (workspace=? AND <expr>>? AND <expr><?)"
    )
    assert sorting == (["USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"] if descending else [])


@pytest.mark.parametrize("kind", [*RECORD_INDEXES, "no such kind"])
def test_records_without_a_condition_come_by_their_key(
    connection: sqlite3.Connection, kind: str
) -> None:
    query = RecordQuery(kind=kind, where={})
    statement, values = query_statement("acme", query)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert plan == ["SEARCH records USING PRIMARY KEY (workspace=? AND kind=?)"]
