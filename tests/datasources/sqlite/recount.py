"""Counts again, from the stored documents alone, everything the embedded database
derives from them.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from datasources.builtin_types import types_by_name
from datasources.sqlite.writes import read_configs
from datasources.text import node_text, tokenize
from datasources.types import Edge, Graph, Node, parse_document

COLUMNS = ("key", "name", "type", "type_name", "description", "data", "process")
Rows = list[tuple[Any, ...]]


def faults(path: Path) -> list[str]:
    """Return what in the file contradicts its documents, or nothing."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        connection.execute("BEGIN")
        return list(_faults(connection))
    finally:
        connection.close()


def _faults(connection: sqlite3.Connection) -> Iterator[str]:
    checked = [text for (text,) in connection.execute("PRAGMA integrity_check")]
    if checked != ["ok"]:
        yield f"integrity: {checked}"
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    if orphans:
        yield f"rows that point nowhere: {orphans}"
    graphs = connection.execute("SELECT * FROM graphs").fetchall()
    names = [column[0] for column in connection.execute("SELECT * FROM graphs LIMIT 0").description]
    rids: set[int] = set()
    for values in graphs:
        row = dict(zip(names, values, strict=True))
        low = row["id"] << 32
        high = (row["id"] + 1 << 32) - 1
        nodes = connection.execute("SELECT * FROM nodes WHERE graph = ?", (row["id"],)).fetchall()
        edges = connection.execute("SELECT * FROM edges WHERE graph = ?", (row["id"],)).fetchall()
        numbers = [found[0] for found in nodes + edges]
        if any(not low < rid <= high or rid - low >= row["next_number"] for rid in numbers):
            yield f"{row['key']}: row ids outside of the graph's range"
        rids.update(found[0] for found in nodes)
        yield from _of_documents(row, nodes, edges)
        yield from _of_words(connection, row, nodes)
        yield from _of_vectors(connection, row, [found[0] for found in nodes])
    words = {rid for (rid,) in connection.execute("SELECT rowid FROM words")}
    if words != rids:
        yield f"full-text rows without a node {words - rids}, nodes without one {rids - words}"
    vectors = {rid for (rid,) in connection.execute("SELECT rid FROM vectors")}
    if vectors - rids:
        yield f"vectors without a node: {vectors - rids}"


def _of_documents(row: dict[str, Any], nodes: Rows, edges: Rows) -> Iterator[str]:
    graph = parse_document(Graph, row["body"], "graphs")
    stored = (row["key"], row["workspace"], row["revision"], row["nodes"], row["edges"])
    counted = (graph.key, graph.workspace, graph.revision, len(nodes), len(edges))
    if stored != counted:
        yield f"graph {stored}, counted {counted}"
    keys = {rid: key for rid, _, key, *_ in nodes}
    for _, _, key, sheet, kind, body in nodes:
        node = parse_document(Node, body, "nodes")
        if (node.graph_key, node.key, node.sheet, node.type) != (row["key"], key, sheet, kind):
            yield f"columns of node {key!r} differ from {node.to_document()}"
    for _, _, key, sheet, source, target, body in edges:
        edge = parse_document(Edge, body, "edges")
        ends = (keys.get(source), keys.get(target))
        if (edge.graph_key, edge.key, edge.sheet, edge.source, edge.target) != (
            row["key"],
            key,
            sheet,
            *ends,
        ):
            yield f"columns of edge {key!r} differ from {edge.to_document()}"


def _of_words(connection: sqlite3.Connection, row: dict[str, Any], nodes: Rows) -> Iterator[str]:
    types = types_by_name(read_configs(connection, row["workspace"]))
    totals = [0, 0]
    select = f"SELECT {', '.join(COLUMNS)} FROM words WHERE rowid = ?"
    for rid, _, key, _, kind, body in nodes:
        language = parse_document(Graph, row["body"], "graphs").language
        text = node_text(parse_document(Node, body, "nodes"), types.get(kind), language)
        expected = tuple(" ".join(tokenize(getattr(text, column))) for column in COLUMNS)
        stored = connection.execute(select, (rid,)).fetchone()
        if stored != expected:
            yield f"words of node {key!r} are {stored}, should be {expected}"
        names = " ".join(expected[:4]).split()
        whole = " ".join(expected).split()
        totals[0] += len(whole)
        totals[1] += len(names)
        yield from _not_found(connection, rid, set(whole), set(names))
    if [row["content_words"], row["name_words"]] != totals:
        yield f"{row['key']}: {row['content_words']}, {row['name_words']} words, counted {totals}"


def _not_found(
    connection: sqlite3.Connection, rid: int, content: set[str], name: set[str]
) -> Iterator[str]:
    """Ask the full-text index itself, not only the text it keeps, for every word of a node."""
    for words, columns in ((content, ""), (name, "{key name type type_name} : ")):
        query = " AND ".join(f'{columns}"{word}"' for word in sorted(words))
        match = "SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?"
        if query and not connection.execute(match, (query, rid)).fetchone():
            yield f"the full-text index does not find row {rid} by {query}"


def _of_vectors(
    connection: sqlite3.Connection, row: dict[str, Any], rids: list[int]
) -> Iterator[str]:
    counted: Counter[tuple[str, int]] = Counter()
    select = (
        "SELECT v.rid, v.model, v.dim, length(v.content), length(v.name), l.number FROM json_each(?) j "
        "JOIN vectors v ON v.rid = j.value LEFT JOIN vector_log l ON l.rid = v.rid"
    )
    for rid, model, dim, content, name, number in connection.execute(
        select, (orjson.dumps(rids).decode(),)
    ):
        counted[model, dim] += 1
        if content != 4 * dim or name not in (None, 4 * dim):
            yield f"the vector of row {rid} has {content} and {name} bytes for {dim} dimensions"
        if number is None and row["vector_log_floor"] == 0:
            yield f"the vector of row {rid} is not in the log of changes"
        if number is not None and number > row["vector_version"]:
            yield f"the vector of row {rid} is logged at {number}, the graph is at {row['vector_version']}"
    found = connection.execute(
        "SELECT model, dim, count FROM vector_counts WHERE graph = ?", (row["id"],)
    )
    stored = {(model, dim): count for model, dim, count in found}
    if stored != dict(counted):
        yield f"{row['key']}: vectors {stored}, counted {dict(counted)}"
