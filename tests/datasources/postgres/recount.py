"""Counts again what a PostgreSQL database keeps a count of."""

from __future__ import annotations

from collections import Counter

import psycopg

from datasources.postgres import parse_address
from datasources.postgres.node_words import StoredWords

_GRAPHS = """
SELECT id, nodes, edges, content_words, name_words, version,
    (SELECT count(*) FROM nodes WHERE graph = graphs.id),
    (SELECT count(*) FROM edges WHERE graph = graphs.id)
FROM graphs"""
# Rows without the row that they belong to.
_ORPHANS = {
    "edges": """
        SELECT count(*) FROM edges WHERE NOT EXISTS (
            SELECT FROM nodes WHERE graph = edges.graph AND key = edges.source)
        OR NOT EXISTS (SELECT FROM nodes WHERE graph = edges.graph AND key = edges.target)""",
    "vectors": """
        SELECT count(*) FROM vectors WHERE NOT EXISTS (
            SELECT FROM nodes WHERE graph = vectors.graph AND key = vectors.key)""",
    "node_terms": """
        SELECT count(*) FROM nodes WHERE NOT EXISTS (SELECT FROM node_terms WHERE node = nodes.id)""",
    "rows of deleted graphs": """
        SELECT (SELECT count(*) FROM nodes WHERE graph NOT IN (SELECT id FROM graphs))
            + (SELECT count(*) FROM term_counts WHERE graph NOT IN (SELECT id FROM graphs))
            + (SELECT count(*) FROM removed WHERE graph NOT IN (SELECT id FROM graphs))""",
    "versions": """
        SELECT count(*) FROM nodes JOIN graphs ON graphs.id = graph
        WHERE nodes.version > graphs.version""",
}


def faults(url: str) -> list[str]:
    """Returns what a recount finds wrong."""
    with psycopg.connect(parse_address(url).conninfo) as connection:
        connection.execute("SET search_path = nodius")
        connection.execute("SET nodius.all_workspaces = 'on'")
        found = [
            f"{name}: {count}"
            for name, statement in _ORPHANS.items()
            if (count := connection.execute(statement.encode()).fetchall()[0][0])
        ]
        for graph, nodes, edges, content, names, _, real_nodes, real_edges in connection.execute(
            _GRAPHS
        ).fetchall():
            words = [
                StoredWords(*row)
                for row in connection.execute(
                    "SELECT name_words, other_words FROM nodes WHERE graph = %s", (graph,)
                )
            ]
            real = (
                real_nodes,
                real_edges,
                sum(len(one.tokens("content")) for one in words),
                sum(len(one.tokens("name")) for one in words),
            )
            if (nodes, edges, content, names) != real:
                found.append(f"graph {graph}: {(nodes, edges, content, names)} is {real}")
            terms = Counter(number for one in words for number in one.terms())
            counted = dict(
                connection.execute(
                    "SELECT term, nodes FROM term_counts WHERE graph = %s", (graph,)
                ).fetchall()
            )
            if counted != terms:
                found.append(f"graph {graph}: terms are counted wrongly")
        return found
