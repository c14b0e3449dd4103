"""Looks at a database, sets it up and brings an older one up to date; several servers may do so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final

import orjson
import psycopg
from psycopg.sql import SQL, Composed, Identifier

from datasources.postgres import schema
from datasources.postgres.put_statements import half_text
from datasources.postgres.records import record_fields
from datasources.postgres.server_pool import Session
from datasources.postgres.type_changes import renew_words
from datasources.record_kinds import RECORD_INDEXES
from datasources.text import WORDS_VERSION
from datasources.vectors import vector_of

Connection = psycopg.Connection[Any]

# One row: the server, the role, and pgvector: its installed version and schema, the version that
# the server offers, and whether the role may add it.
_SERVER = """
SELECT current_setting('server_version'), current_user,
    (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user),
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    (SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'vector'),
    (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
        OR has_database_privilege(current_database(), 'CREATE') AND EXISTS (
            SELECT FROM pg_available_extension_versions v JOIN pg_available_extensions e
                ON e.name = v.name AND e.default_version = v.version
            WHERE v.name = 'vector' AND v.trusted)"""
_TABLES = """
SELECT relname, relrowsecurity AND relforcerowsecurity,
    ARRAY(SELECT polname::text FROM pg_policy WHERE polrelid = pg_class.oid ORDER BY 1)
FROM pg_class WHERE relnamespace = to_regnamespace('nodius') AND relkind = 'r'"""
_HAS_HALVES = """
SELECT count(*) = 2 FROM pg_attribute WHERE attrelid = to_regclass('nodius.vectors')
    AND attname IN ('content_half', 'name_half') AND NOT attisdropped"""
_META = "SELECT name, value FROM nodius.meta"
_INDEXES = "SELECT indexname FROM pg_indexes WHERE schemaname = 'nodius'"
_GROUPS = """
SELECT model, dim, count(*) FROM nodius.vectors GROUP BY model, dim
HAVING count(*) >= %s ORDER BY model, dim"""
_POLICIES = """
SELECT policyname FROM pg_policies WHERE schemaname = 'nodius' AND tablename = %s"""
# Past this memory an index of vectors is built many times slower. The server may give more.
_INDEX_MEMORY = """
SELECT set_config('maintenance_work_mem', greatest(setting::bigint, 512 * 1024) || 'kB', true)
FROM pg_settings WHERE name = 'maintenance_work_mem'"""
_ALL = "SELECT set_config('nodius.all_workspaces', 'on', true)"

PAGE = 1_000  # rows that are stored again at once

Progress = Callable[[int, int], None]
"""Called with the number of rows stored again and that of all."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a look at a database found. `version` is None if it is not set up.

    The rest is known of a database of this program's version only: `lost` tables, `unprotected`
    tables, lost indexes, `unindexed` models with the dimensions and numbers of their vectors.
    """

    server: str
    role: str
    bypasses_security: bool
    pgvector: str | None
    pgvector_schema: str | None
    pgvector_offered: str | None
    may_add_pgvector: bool
    version: int | None = None
    has_old_fields: bool = False
    has_old_words: bool = False
    lost: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    lost_indexes: tuple[str, ...] = ()
    has_halves: bool = False
    unindexed: tuple[tuple[str, int, int], ...] = ()

    @property
    def search_path(self) -> str:
        """The schemas of tables and of pgvector's operators."""
        return ", ".join(dict.fromkeys((schema.SCHEMA, self.pgvector_schema or "public")))

    @property
    def outdated(self) -> list[str]:
        """What an upgrade brings up to date."""
        found: list[str] = []
        if self.version is not None and self.version < schema.VERSION:
            found.append(f"the schema has version {self.version}, not {schema.VERSION}")
        if self.has_old_fields:
            found.append("records are queried by other fields than this program's")
        if self.has_old_words:
            found.append("nodes are found by the words of another version")
        return found

    @property
    def open_tables(self) -> list[str]:
        """Names what is changed in the row-level security."""
        return [f"row-level security of {name}" for name in self.unprotected]

    @property
    def altered(self) -> list[str]:
        """What a set-up restores."""
        return [*self.open_tables, *(f"index {name}" for name in self.lost_indexes)]

    @property
    def wants_extension(self) -> bool:
        return self.pgvector is None and is_usable(self.pgvector_offered) and self.may_add_pgvector

    @property
    def wants_halves(self) -> bool:
        return is_usable(self.pgvector) and not self.has_halves


def is_usable(pgvector: str | None) -> bool:
    """Returns True for a version of pgvector with iterative scans of halved vectors."""
    numbers = [int(part) for part in (pgvector or "0").split(".")[:2] if part.isdigit()]
    return tuple(numbers) >= schema.PGVECTOR


def read_facts(connection: Connection) -> Facts:
    """Looks at a database without changing it. Raises: psycopg.Error."""
    with connection.transaction():
        connection.execute(_ALL)
        [server] = connection.execute(_SERVER).fetchall()
        names = ("server", "role", "bypasses_security", "pgvector", "pgvector_schema")
        names += ("pgvector_offered", "may_add_pgvector")
        known: dict[str, Any] = dict(zip(names, server, strict=True))
        tables = {table: facts for table, *facts in connection.execute(_TABLES)}
        if "meta" not in tables:
            return Facts(**known)
        meta = dict(connection.execute(_META).fetchall())
        known |= {
            "version": int(meta.get("version", 0)),
            "has_old_fields": meta.get("record_fields") != schema.record_fields_version(),
            "has_old_words": meta.get("words") != str(WORDS_VERSION),
        }
        if known["version"] != schema.VERSION:
            return Facts(**known)
        lost = [name for name in (*schema.TABLES, *schema.OTHER_TABLES) if name not in tables]
        if lost:
            return Facts(**known, lost=tuple(lost))
        indexes = {name for (name,) in connection.execute(_INDEXES)}
        [has_halves] = connection.execute(_HAS_HALVES).fetchone() or (False,)
        return Facts(
            **known,
            unprotected=tuple(
                name for name in schema.TABLES if tables[name] != [True, schema.policies_of(name)]
            ),
            lost_indexes=tuple(sorted(schema.index_statements().keys() - indexes)),
            has_halves=has_halves,
            unindexed=tuple(_unindexed(connection, indexes)),
        )


def _unindexed(connection: Connection, indexes: Collection[str]) -> Iterator[tuple[str, int, int]]:
    for model, dim, count in connection.execute(_GROUPS, (schema.INDEX_FROM,)).fetchall():
        names = {schema.vector_index_name(model, dim, half) for half in schema.HALVES}
        if dim <= schema.MAX_INDEXED_DIM and not names.issubset(indexes):
            yield model, dim, count


def set_up(connection: Connection, progress: Progress) -> list[str]:
    """Creates what is missing and brings an older database up to date. Returns the actions.

    Decision: one transaction. What is interrupted leaves the database as it was, and begins again;
    half a renewal would leave nodes that no search finds. Raises: psycopg.Error.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (schema.LOCK,))
        return _set_up(connection, progress)


def planned(facts: Facts) -> Iterator[str]:
    """Yields what a set-up would do."""
    if facts.version is None:
        yield f"would create the schema {schema.SCHEMA} with its tables"
    yield from (f"would bring up to date: {why}" for why in facts.outdated)
    yield from (f"would restore: {name}" for name in facts.altered)
    if facts.wants_extension:
        yield "would add the extension pgvector"
    if facts.wants_extension or facts.wants_halves:
        yield "would add the columns of pgvector"
    if facts.wants_extension or is_usable(facts.pgvector):
        yield from (f"would index the {n:,} vectors of {model}" for model, _, n in facts.unindexed)


def _set_up(connection: Connection, progress: Progress) -> list[str]:
    facts = read_facts(connection)
    done = [f"brought up to date: {why}" for why in facts.outdated]
    if facts.version is None:  # a role that may not create schemas can repeat the set-up
        connection.execute("CREATE SCHEMA IF NOT EXISTS nodius")
        done.append(f"created the schema {schema.SCHEMA} with its tables")
    # pgvector goes where its operators are found later.
    connection.execute("SET LOCAL search_path = nodius")
    if facts.version is None:
        _run(connection, schema.table_statements())
        _run(connection, (s for table in schema.TABLES for s in schema.security_statements(table)))
    else:
        _run(connection, schema.upgrade_statements(facts.version))
    _note(connection, schema.first_meta())
    old_fields, old_words = facts.has_old_fields, facts.has_old_words
    facts = read_facts(connection)
    done += _restored(connection, facts)
    if facts.wants_extension and _has_extension(connection):
        done.append("added the extension pgvector")
        facts = read_facts(connection)
    connection.execute(_path(facts))
    connection.execute(_ALL)
    renewal = _Renewal(connection, progress)
    renewal.run(fields=old_fields, words=old_words, halves=facts.wants_halves)
    if facts.wants_halves:
        done.append("added the columns of pgvector")
    return [*done, *_indexed(connection)]


def _run(connection: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def _restored(connection: Connection, facts: Facts) -> list[str]:
    """Restores row-level security and indexes."""
    for table in facts.unprotected:
        for (policy,) in connection.execute(_POLICIES, (table,)).fetchall():
            drop = SQL("DROP POLICY {} ON {}").format(Identifier(policy), Identifier(table))
            connection.execute(drop)
        _run(connection, schema.security_statements(table))
    indexes = schema.index_statements()
    _run(connection, (indexes[name] for name in facts.lost_indexes))
    return [f"restored: {name}" for name in facts.altered]


def _indexed(connection: Connection) -> Iterator[str]:
    """Creates the indexes of vectors that are missing."""
    facts = read_facts(connection)
    for model, dim, count in facts.unindexed if facts.has_halves else ():
        connection.execute(_INDEX_MEMORY)
        for half in schema.HALVES:
            _build(connection, schema.vector_index_statement(model, dim, half))
        yield f"indexed the {count:,} vectors of {model}"


def _build(connection: Connection, statement: Composed) -> None:
    """Builds an index of vectors.

    Several processes build it in shared memory, of which a container has 64 MB by default. Where
    that is too little, one process builds it (https://github.com/pgvector/pgvector/issues/453).
    """
    try:
        with connection.transaction():
            connection.execute(statement)
    except psycopg.errors.DiskFull:
        connection.execute("SET LOCAL max_parallel_maintenance_workers = 0")
        connection.execute(statement)


def _path(facts: Facts) -> Composed:
    names = (Identifier(name) for name in facts.search_path.split(", "))
    return SQL("SET LOCAL search_path = {}").format(SQL(", ").join(names))


def _has_extension(connection: Connection) -> bool:
    """Adds pgvector; returns False if the server does not let the role do it."""
    refusals = (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported)
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION vector")
    except refusals:
        return False
    return True


def _note(connection: Connection, meta: dict[str, str]) -> None:
    put = """
        INSERT INTO meta (name, value) VALUES (%s, %s)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
    for name, value in meta.items():
        connection.execute(put, (name, value))


@final
@dataclass(slots=True)
class _Renewal:
    """Stores again, page by page, what this program stores otherwise."""

    connection: Connection
    progress: Progress
    done: int = 0
    total: int = 0

    def run(self, *, fields: bool, words: bool, halves: bool) -> None:
        """Stores again the fields to query records by, the words of nodes, the halved vectors."""
        kinds = (("records", fields), ("nodes", words), ("vectors", halves))
        self.total = sum(self._count(table) for table, wanted in kinds if wanted)
        if fields:
            self._renew_fields()
        if words:
            # Not watched: it may take long, and a person waits for it.
            session = Session(self.connection, [], lambda _, __: nullcontext(), keeps_open=True)
            renew_words(session, self._renewed)
        if halves:
            self._add_halves()

    def _count(self, table: str) -> int:
        statement = SQL("SELECT count(*) FROM {}").format(Identifier(table))
        [count] = self.connection.execute(statement).fetchone() or (0,)
        return count

    def _renewed(self, rows: int) -> None:
        self.done += rows
        self.progress(self.done, self.total)

    def _pages(self, statement: str, first: tuple[Any, ...]) -> Iterator[list[tuple[Any, ...]]]:
        """Yields the rows in pages; the first columns are those of their order."""
        after = first
        while rows := self.connection.execute(
            statement.encode(), (*after, PAGE), binary=True
        ).fetchall():
            yield rows
            self._renewed(len(rows))
            after = rows[-1][: len(first)]

    def _renew_fields(self) -> None:
        page = """
            SELECT workspace, kind, key, data FROM records WHERE (workspace, kind, key) > (%s, %s, %s)
            ORDER BY workspace, kind, key LIMIT %s"""
        put = """
            INSERT INTO record_fields (workspace, kind, name, key, value)
            SELECT %s, %s, name, %s, value FROM unnest(%s::text[], %s::text[]) AS f (name, value)"""
        own = "UPDATE records SET fields = %s WHERE workspace = %s AND kind = %s AND key = %s"
        self.connection.execute("DELETE FROM record_fields")
        for rows in self._pages(page, ("", "", "")):
            fields = [
                (workspace, kind, key, record_fields(kind, key, orjson.loads(data)))
                for workspace, kind, key, data in rows
            ]
            with self.connection.cursor() as cursor:
                cursor.executemany(
                    put,
                    [
                        (workspace, kind, key, list(RECORD_INDEXES[kind]), values)
                        for workspace, kind, key, values in fields
                        if values
                    ],
                )
                cursor.executemany(own, [(values, *names) for *names, values in fields])

    def _add_halves(self) -> None:
        """Adds the columns of pgvector and fills them from the stored vectors.

        Waits for the writers of graphs and keeps others from beginning: they look for the columns
        first.
        """
        self.connection.execute("LOCK TABLE graphs IN EXCLUSIVE MODE")
        for half in schema.HALVES:
            column = Identifier(half)
            self.connection.execute(SQL("ALTER TABLE vectors ADD COLUMN {} halfvec").format(column))
        page = """
            SELECT graph, key, content, name FROM vectors WHERE (graph, key) > (%s, %s)
            ORDER BY graph, key LIMIT %s"""
        put = """
            UPDATE vectors SET content_half = %s::halfvec, name_half = %s::halfvec
            WHERE graph = %s AND key = %s"""
        for rows in self._pages(page, (-1, "")):
            halves = [
                (*(None if one is None else half_text(vector_of(one)) for one in pair), graph, key)
                for graph, key, *pair in rows
            ]
            with self.connection.cursor() as cursor:
                cursor.executemany(put, halves)
