"""The fixtures that all tests share. Imported here alone: a module that imports one has one
of its own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import httpcore2
import pytest
from pydantic_settings import EnvSettingsSource

from graphrag.samples.restaurant_bodies import register_sample_builders
from graphrag.sessions import schedules
from tests.support.arango import arango, arango_address, arango_double, arango_faults, one_database
from tests.support.chosen_database import (
    CHOSEN,
    drop_databases_in,
    remove_new_databases,
    use_server,
)
from tests.support.databases import database, database_of_a_kind, memory, put_sample
from tests.support.log_entries import log_entries
from tests.support.planted import leak_guard, nothing_planted_leaves
from tests.support.postgres import (
    pgvector_server,
    pgvector_url,
    postgres_server,
    postgres_servers,
    postgres_url,
)
from tests.support.short_waits import (
    no_looks,
    short_ends_of_servers,
    short_looks,
    threads_of_all_loops,
)
from tests.support.ws_contract import messages_as_documented, messages_looked_at

__all__ = [
    "arango",
    "arango_address",
    "arango_double",
    "arango_faults",
    "log_entries",
    "one_database",
]
__all__ += ["database", "database_of_a_kind", "memory"]
__all__ += ["leak_guard", "messages_as_documented", "messages_looked_at", "nothing_planted_leaves"]
__all__ += ["pgvector_server", "pgvector_url"]
__all__ += ["postgres_server", "postgres_servers", "postgres_url"]
__all__ += ["no_looks", "short_ends_of_servers", "short_looks", "threads_of_all_loops"]


@pytest.fixture(scope="session", autouse=True)
def sample_builders() -> None:
    """Registers the sample body builders, as a starting service does."""
    register_sample_builders()


@pytest.fixture(scope="session", autouse=True)
def no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every HTTP client would read those of the system, 15 ms each; the servers here
    speak plain HTTP.

    A client that takes nothing from the environment would read those of `certifi`, 30 ms each.
    """
    read = httpcore2.default_ssl_context

    def of_the_environment(*, _trust_env: bool = True) -> ssl.SSLContext:
        return read()

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        patch.setattr(httpcore2, "default_ssl_context", of_the_environment)
        yield


@pytest.fixture(scope="session", autouse=True)
def worked_out_once() -> Iterator[None]:
    """What comes out the same each time is kept: what an environment says of
    settings, and schedules.
    """
    read = EnvSettingsSource.__call__
    known = dict[Any, dict[str, Any]]()

    def said_by_the_environment(source: EnvSettingsSource) -> dict[str, Any]:
        key = source.settings_cls, frozenset(source.env_vars.items())
        if key not in known:
            known[key] = read(source)
        return dict(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EnvSettingsSource, "__call__", said_by_the_environment)
        patch.setattr(schedules, "shortest_distance_s", cache(schedules.shortest_distance_s))
        yield


if CHOSEN:

    @pytest.fixture(scope="session", autouse=True)
    def chosen_server(request: pytest.FixtureRequest) -> None:
        """Starts the server that has the databases of the tests."""
        asyncio.run(use_server(request.getfixturevalue(f"{CHOSEN}_server"), put_sample))

    @pytest.fixture(autouse=True)
    async def chosen_databases(request: pytest.FixtureRequest) -> AsyncIterator[None]:
        """Removes the databases of a test after it."""
        with_folder = "tmp_path" in request.fixturenames
        folder = request.getfixturevalue("tmp_path") if with_folder else None
        yield
        await remove_new_databases()
        if folder is not None:
            drop_databases_in(folder)


@pytest.fixture
def ends_by_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that sends this process a signal to end its server.

    sse-starlette notes that for the process: the streams of all later servers would end at once.
    """
    monkeypatch.setattr("sse_starlette.sse.AppStatus.should_exit", False)
