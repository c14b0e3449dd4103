"""Examines an installation: what works, what is missing, and how to get it."""

from __future__ import annotations

import asyncio
import platform
import sqlite3

from datasources.base import Finding
from datasources.errors import SourceError
from graphrag.config import Settings
from graphrag.embedders import make_embedder
from graphrag.embeddings import EmbeddingError
from graphrag.tokens import tokenizer_name
from graphrag.wiring import database_file, open_database

_KEYS = (
    ("deepseek_api_key", "DeepSeek", "DEEPSEEK_API_KEY"),
    ("openai_api_key", "OpenAI", "OPENAI_API_KEY"),
    ("anthropic_api_key", "Anthropic", "ANTHROPIC_API_KEY"),
)

PATIENCE_S = 5.0
_FILL = "nodius demo, or nodius import FILE"


async def examine(settings: Settings, *, patience_s: float = PATIENCE_S) -> list[Finding]:
    """Return one finding for each part; nothing is raised for what can be reported.

    An embedding service is given `patience_s` seconds to answer.
    """
    return [
        Finding(
            name="python",
            status="ok",
            detail=f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        ),
        *await _database(settings),
        await _embeddings(settings, patience_s),
        _tokenizer(),
        _providers(settings),
    ]


async def _database(settings: Settings) -> list[Finding]:
    try:
        file = database_file(settings.db)
        if file is not None and not await asyncio.to_thread(file.exists):
            detail = f"{settings.db} is not there yet"
            return [Finding(name="database", status="warning", detail=detail, fix=_FILL)]
        async with open_database(settings.db, settings.workspace) as database:
            found = await database.check()
            graphs = await database.source(settings.workspace).list_graphs()
    except SourceError as exc:
        fix = "choose another with --db or NODIUS_DB; `nodius db check` tells more of a server"
        return [Finding(name="database", status="error", detail=str(exc), fix=fix)]
    if graphs:
        many = "1 graph" if len(graphs) == 1 else f"{len(graphs)} graphs"
        detail = f"{settings.workspace!r} holds {many}"
        return [*found, Finding(name="workspace", status="ok", detail=detail)]
    detail = f"{settings.workspace!r} holds no graph yet"
    return [*found, Finding(name="workspace", status="warning", detail=detail, fix=_FILL)]


async def _embeddings(settings: Settings, patience_s: float) -> Finding:
    name = "embeddings"
    local = "set NODIUS_EMBEDDINGS=local to embed without a key or network"
    try:
        embedder = make_embedder(settings)
    except EmbeddingError as exc:
        return Finding(name=name, status="error", detail=str(exc), fix=local)
    if embedder is None:
        fix = "set NODIUS_EMBEDDINGS=local (packaged, no key) to search by meaning too"
        return Finding(name=name, status="warning", detail="turned off: text search only", fix=fix)
    try:
        async with asyncio.timeout(patience_s):
            vectors = await embedder.embed(["a first text"])
    except TimeoutError:
        detail = f"{embedder.model} gave no answer within {patience_s:g} s"
        return Finding(name=name, status="error", detail=detail, fix=local)
    except EmbeddingError as exc:
        return Finding(name=name, status="error", detail=str(exc), fix=local)
    finally:
        await embedder.aclose()
    where = "in this process, no network" if settings.embeddings == "local" else "over the network"
    return Finding(name=name, status="ok", detail=f"{embedder.model}, {vectors.shape[1]} dimensions, {where}")


def _tokenizer() -> Finding:
    name = tokenizer_name()
    if "offline" in name:
        fix = "for exact counts of newer models put tiktoken's ranks file into TIKTOKEN_CACHE_DIR"
        return Finding(name="tokenizer", status="ok", detail=name, fix=fix)
    return Finding(name="tokenizer", status="ok", detail=name)


def _providers(settings: Settings) -> Finding:
    found = [name for field, name, _ in _KEYS if getattr(settings, field) is not None]
    missing = ", ".join(variable for field, _, variable in _KEYS if getattr(settings, field) is None)
    if not found:
        detail = "no key of a model service; everything here works without"
        return Finding(name="models", status="ok", detail=detail, fix=f"to use one set {missing}")
    return Finding(name="models", status="ok", detail=f"keys found: {', '.join(found)}")
