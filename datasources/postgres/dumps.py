"""Dumps a database to a file and restores it, by the programs of PostgreSQL.

Decision: a backup is a dump by `pg_dump`. It is of one moment of all workspaces while servers
write, and PostgreSQL's own tools restore it, also into a later version. A copy by reading through
the sources would be of as many moments as it has parts.

Source: "pg_dump", "pg_restore", "psql" and "Snapshot Synchronization Functions" of the PostgreSQL
manual.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from datasources.errors import (
    DatabaseDamaged,
    DatabaseUnprepared,
    SourceBusy,
    SourceUnavailable,
)
from datasources.postgres.address import PostgresAddress
from datasources.postgres.postgres_errors import translated

# Row-level security applies to the owner of the tables too. This setting lets all rows through.
_ALL_WORKSPACES = "-c nodius.all_workspaces=on"
_COUNTS = """
SELECT (SELECT count(*) FROM nodius.graphs), (SELECT count(*) FROM nodius.nodes),
    (SELECT count(*) FROM nodius.edges), (SELECT count(*) FROM nodius.records),
    (SELECT count(*) FROM nodius.records WHERE kind = 'audit' AND key <> 'head')"""
_NAMES = ("graphs", "nodes", "edges", "records", "audit entries")
_OTHERS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND application_name = current_setting('application_name') AND pid <> pg_backend_pid()"""


@dataclass(frozen=True, slots=True)
class _Login:
    """How the programs sign in. The password is not among their arguments, which others see."""

    dbname: str
    environment: Mapping[str, str]

    @staticmethod
    def of(address: PostgresAddress) -> _Login:
        facts: dict[str, Any] = dict(conninfo_to_dict(address.conninfo))
        password = facts.pop("password", None)
        facts["options"] = f"{facts.get('options') or ''} {_ALL_WORKSPACES}".strip()
        environment = dict(os.environ)
        if password:
            environment["PGPASSWORD"] = password
        return _Login(make_conninfo("", **facts), environment)


def dump(address: PostgresAddress, target: Path, *, force: bool = False) -> dict[str, int]:
    """Writes the database, as it is at one moment, to a file; returns its counts by name.

    `target` appears complete, or not at all. Raises: FileExistsError, SourceUnavailable
    (DatabaseUnprepared if it is not set up).
    """
    if target.exists() and not force:
        raise FileExistsError(target)
    login = _Login.of(address)
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        part.touch(mode=0o600)
        with _snapshot(login, address) as (snapshot, counts, has_pgvector):
            command = ["pg_dump", f"--dbname={login.dbname}", "--schema=nodius", "--format=custom"]
            command += ["--enable-row-security", f"--snapshot={snapshot}", f"--file={part}"]
            _run([*command, *(["--extension=vector"] if has_pgvector else [])], login)
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return counts


@contextmanager
def _snapshot(
    login: _Login, address: PostgresAddress
) -> Generator[tuple[str, dict[str, int], bool]]:
    """Yields the name of a snapshot, its counts, and whether the database has pgvector."""
    with _connected(login, address) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if connection.execute("SELECT to_regclass('nodius.records')").fetchone() == (None,):
            raise DatabaseUnprepared(source=address.shown)
        counts = connection.execute(_COUNTS).fetchone() or ()
        has_pgvector = connection.execute("SELECT FROM pg_extension WHERE extname = 'vector'")
        [snapshot] = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        yield snapshot, dict(zip(_NAMES, counts, strict=True)), bool(has_pgvector.rowcount)


def restore(address: PostgresAddress, copy: Path, *, force: bool = False) -> dict[str, int]:
    """Replaces the database by a dump, in one transaction, and returns its counts by name.

    Raises: FileExistsError (there is one, without `force`), SourceBusy (in use), DatabaseDamaged
    (no dump), SourceUnavailable.
    """
    login = _Login.of(address)
    _check(copy, login)
    with _connected(login, address) as connection:
        [there] = connection.execute("SELECT to_regnamespace('nodius')").fetchone() or (None,)
        if there is not None and not force:
            raise FileExistsError(address.shown)
        [others] = connection.execute(_OTHERS).fetchone() or (0,)
        if others:
            raise SourceBusy(
                source=address.shown, reason=f"{others} connections use it: stop the servers first"
            )
    _replace(copy, login)
    with _connected(login, address) as connection:
        counts = connection.execute(_COUNTS).fetchone() or ()
    return dict(zip(_NAMES, counts, strict=True))


def _check(copy: Path, login: _Login) -> None:
    if not copy.is_file():
        raise SourceUnavailable(source=str(copy), reason="there is no such file")
    listed = subprocess.run(
        [_program("pg_restore"), "--list", str(copy)],
        env=login.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode or " SCHEMA - nodius " not in listed.stdout:
        reason = listed.stderr.strip() or "it is a dump of another database"
        raise DatabaseDamaged(path=str(copy), reason=reason)


def _replace(copy: Path, login: _Login) -> None:
    """Removes the schema and reads the dump, in one transaction of psql."""
    # Comments are those of the extension, which only its owner may set.
    reading = [_program("pg_restore"), "--no-owner", "--no-comments", "--file=-", str(copy)]
    psql = [
        _program("psql"),
        f"--dbname={login.dbname}",
        "--no-psqlrc",
        "--quiet",
        "--output=/dev/null",
    ]
    psql += ["--set=ON_ERROR_STOP=1", "--single-transaction"]
    psql += ["--command=DROP SCHEMA IF EXISTS nodius CASCADE", "--file=-"]
    with subprocess.Popen(
        reading, env=login.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as dumped:
        done = subprocess.run(
            psql, env=login.environment, stdin=dumped.stdout, capture_output=True, check=False
        )
        said = dumped.stderr.read() if dumped.stderr else b""
    if done.returncode or dumped.returncode:
        # The first error is the reason; those that follow come of it.
        raise SourceUnavailable(source="psql", reason=_reason("psql", done.stderr or said))


def _run(command: list[str], login: _Login) -> None:
    """Runs a program. Raises: SourceUnavailable with what it says."""
    done = subprocess.run(
        [_program(command[0]), *command[1:]],
        env=login.environment,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise SourceUnavailable(source=command[0], reason=_reason(command[0], done.stderr))


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed; it comes with the client programs of PostgreSQL"
        raise SourceUnavailable(source=name, reason=reason)
    return found


def _reason(program: str, said: bytes) -> str:
    """Returns the first lines of what a failed program said; later errors follow from the first."""
    lines = said.decode(errors="replace").strip().splitlines()
    text = "; ".join(lines[:2]) or "it failed without a message"
    return text if text.startswith(program) else f"{program}: {text}"


@contextmanager
def _connected(
    login: _Login, address: PostgresAddress
) -> Generator[psycopg.Connection[tuple[Any, ...]]]:
    """Yields a connection that sees all workspaces. Raises: SourceError."""
    password = login.environment.get("PGPASSWORD")
    try:
        with psycopg.connect(login.dbname, autocommit=True, password=password) as connection:
            yield connection
    except psycopg.Error as exc:
        raise translated(exc, address.shown, address.timeout_s) from exc
