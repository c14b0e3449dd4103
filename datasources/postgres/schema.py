"""The tables, their row-level security, and what brings an older database up to date.

Decision: row-level security compares with a setting of the transaction, and is forced for the owner
of the tables too: a statement that forgot its workspace sees nothing of others. `node_terms` has no
workspace and no security. It holds numbers only, from which nothing is read but by way of `nodes`;
an index over arrays could not be used behind row-level security, because the operators of arrays
are not leakproof.

Decision: documents are stored as `json`, not `jsonb`: they come back as they were written, with the
order of their fields, and may hold a zero character in a text.

Decision: a search for words takes candidates from an index over the numbers of terms (an array for
each node), and scores them by BM25 here, like every store. `tsvector` knows neither how many nodes
of one graph have a word nor which words of one graph are rare, so a graph that shares its tables
with others would be searched through all of them.

Source: "Row Security Policies" and "GIN Indexes" of the PostgreSQL manual.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

import orjson
from psycopg.sql import SQL, Composed, Identifier, Literal

from datasources.record_kinds import RECORD_INDEXES
from datasources.text import WORDS_VERSION

SCHEMA = "nodius"
VERSION = 1
LOCK = 7236852  # of the set-up, so that servers that start together do it once
# The statements that bring the tables from a version to the next one.
UPGRADES: Mapping[int, Sequence[str]] = {}

TABLES = (
    *("graphs", "nodes", "term_counts", "uses", "edges", "vectors", "removed"),
    *("configs", "type_versions", "records", "record_fields"),
)
"""The tables with a workspace."""

OTHER_TABLES = ("meta", "node_terms", "writers")
SEEN_BY_ALL = ("configs", "type_versions")
"""Tables of which every workspace may read the rows of `root`."""

_MINE = "workspace = (SELECT current_setting('nodius.workspace', true))"
_ALL = "(SELECT current_setting('nodius.all_workspaces', true)) = 'on'"
_ROOT = "workspace = 'root'"

HALVES = ("content_half", "name_half")
PGVECTOR = (0, 8)  # the first version with iterative scans; older ones are not used
MAX_INDEXED_DIM = 4_000  # of halved vectors
INDEX_FROM = 20_000  # vectors of a model, fewer of which are compared exactly


def record_fields_version() -> str:
    """Returns a number that changes with the fields by which records may be queried."""
    kinds = {kind: sorted(names) for kind, names in RECORD_INDEXES.items()}
    return hashlib.sha256(orjson.dumps(kinds, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def table_statements() -> list[str]:
    """Returns the statements that create tables and indexes."""
    text = resources.files(__package__ or "").joinpath("schema.sql").read_text("utf-8")
    return [part.strip() for part in text.split(";") if part.strip()]


def index_statements() -> dict[str, str]:
    """Returns the statement that creates each index of a table, by the name of the index."""
    begin = "CREATE INDEX "
    statements = (text for text in table_statements() if text.startswith(begin))
    return {text.removeprefix(begin).split()[0]: text for text in statements}


def upgrade_statements(version: int) -> Iterator[str]:
    """Yields the statements that bring the tables of an older version up to date."""
    for older in range(version, VERSION):
        yield from UPGRADES.get(older, ())


def policies_of(table: str) -> list[str]:
    """Returns the names of a table's policies, in order."""
    return ["own", "root"] if table in SEEN_BY_ALL else ["own"]


def security_statements(table: str) -> list[str]:
    """Returns the statements of a table's row-level security."""
    statements = [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY own ON {table} USING ({_MINE} OR {_ALL})",
    ]
    if table in SEEN_BY_ALL:
        statements.append(f"CREATE POLICY root ON {table} FOR SELECT USING ({_ROOT})")
    return statements


def first_meta() -> dict[str, str]:
    """Returns what the table `meta` says of a new database."""
    return {
        "version": str(VERSION),
        "words": str(WORDS_VERSION),
        "record_fields": record_fields_version(),
    }


def vector_index_name(model: str, dim: int, half: str) -> str:
    """Returns the name of the index of the vectors of a model."""
    digest = hashlib.sha256(f"{model}\0{dim}".encode()).hexdigest()[:12]
    return f"vectors_{digest}_{half.removesuffix('_half')}"


def vector_index_statement(model: str, dim: int, half: str) -> Composed:
    """Returns the statement that creates the index of the vectors of a model."""
    text = (
        "CREATE INDEX IF NOT EXISTS {name} ON vectors USING hnsw "
        "(({half}::halfvec({dim})) halfvec_cosine_ops) WHERE model = {model} AND dim = {dim}"
    )
    return SQL(text).format(
        name=Identifier(vector_index_name(model, dim, half)),
        half=Identifier(half),
        model=Literal(model),
        dim=Literal(dim),
    )
