"""Chooses implementations: the one place that knows which database and embedder serve a setting."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from datasources.base import Database, MutableGraphDataSource
from datasources.errors import InvalidDatabaseUrl
from datasources.mock import open_nba
from datasources.sqlite import SqliteDatabase
from graphrag.config import Settings
from graphrag.context import ContextOptions
from graphrag.embedders import make_embedder
from graphrag.embeddings import EmbeddingProvider
from graphrag.retriever import RetrievalOptions, Retriever


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What a command or a request works with, for one workspace."""

    settings: Settings
    database: Database
    source: MutableGraphDataSource
    embedder: EmbeddingProvider | None
    retriever: Retriever

    @property
    def context_options(self) -> ContextOptions:
        s = self.settings
        return ContextOptions(
            truncate_process=s.truncate_process,
            truncate_data=s.truncate_data,
            budget_tokens=s.budget_tokens,
            language=s.language,
        )


def open_database(url: str, workspace: str) -> Database:
    """Return the database of an address, not yet opened.

    `sqlite:PATH` is a file (made when missing); `memory:` holds the NBA sample graph and is
    gone with the process. Raises: InvalidDatabaseUrl.
    """
    file = database_file(url)
    return open_nba(workspace) if file is None else SqliteDatabase(file)


def database_file(url: str) -> Path | None:
    """Return the file of a database address, None for one without a file. Raises: InvalidDatabaseUrl."""
    scheme, separator, rest = url.partition(":")
    if not separator:
        raise InvalidDatabaseUrl(url=url, reason="it has no scheme")
    if scheme == "memory":
        return None
    if scheme == "sqlite":
        path = rest.removeprefix("//")
        if not path:
            raise InvalidDatabaseUrl(url=url, reason="the path is missing")
        return Path(path).expanduser()
    raise InvalidDatabaseUrl(url=url, reason=f"unknown scheme {scheme!r}")


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncGenerator[Services]:
    """Open everything a command needs and close it again.

    Raises: InvalidDatabaseUrl and what opening the database raises.
    """
    embedder = make_embedder(settings)
    try:
        async with open_database(settings.db, settings.workspace) as database:
            source = database.source(settings.workspace)
            options = RetrievalOptions(
                mode=settings.mode,
                max_nodes=settings.max_nodes,
                max_depth=settings.max_depth,
                seeds=settings.seeds,
                min_cosine=settings.min_cosine,
            )
            retriever = Retriever(source, embedder, options=options, cache_ttl_s=settings.cache_ttl_s)
            yield Services(
                settings=settings, database=database, source=source, embedder=embedder, retriever=retriever
            )
    finally:
        if embedder is not None:
            await embedder.aclose()
