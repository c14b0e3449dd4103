"""Connections to a server that accepts encrypted ones only: what `sslmode` and `sslrootcert` of an
address check, for statements and for notices.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from datasources.errors import SourceUnavailable
from datasources.postgres import PostgresDatabase, parse_address
from tests.contracts.samples import WORKSPACE, a_graph
from tests.datasources.postgres.test_listen import listening
from tests.support.postgres import PostgresServer
from tests.support.server_fronts import own_certificate


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return own_certificate(tmp_path / "server.pem")


@pytest.fixture
def encrypted(postgres_servers: Callable[..., PostgresServer], certificate: Path) -> PostgresServer:
    """A server that refuses whoever does not encrypt."""
    server = postgres_servers(auth="scram-sha-256")
    for name in ("server.crt", "server.key"):
        file = Path(shutil.copy(certificate, server.data / name))
        file.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(file, "postgres", "postgres")
    (server.data / "pg_hba.conf").write_text(
        "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
    )
    server.execute("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
    return server


async def test_a_verified_server_is_used_with_encryption_only(
    encrypted: PostgresServer, certificate: Path
) -> None:
    name = encrypted.create_database()
    verified = f"?sslmode=verify-full&sslrootcert={certificate}"
    address = parse_address(encrypted.url(name, verified))
    async with PostgresDatabase(address, prepared=False) as database:
        await database.set_up()
        async with listening(encrypted.url(name, verified)):
            await database.source(WORKSPACE).create_graph(a_graph())
            used = encrypted.execute(
                "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
                " WHERE usename = 'nodius'"
            )
    assert len(used) >= 2
    assert all(ssl for (ssl,) in used)


async def test_a_certificate_that_cannot_be_verified_is_refused_and_named(
    encrypted: PostgresServer, tmp_path: Path
) -> None:
    name = encrypted.create_database()
    other = own_certificate(tmp_path / "other.pem")
    address = parse_address(encrypted.url(name, f"?sslmode=verify-full&sslrootcert={other}"))
    with pytest.raises(SourceUnavailable, match="certificate is not accepted"):
        async with PostgresDatabase(address, prepared=False) as database:
            await database.set_up()


async def test_a_connection_without_encryption_is_refused_by_such_a_server(
    encrypted: PostgresServer,
) -> None:
    name = encrypted.create_database()
    address = parse_address(encrypted.url(name, "?sslmode=disable"))
    with pytest.raises(SourceUnavailable, match="refuses the sign-in"):
        async with PostgresDatabase(address, prepared=False) as database:
            await database.set_up()
