"""Answers in plain form, so that those of two databases can be compared."""

from collections.abc import Awaitable
from typing import Any, TypeVar

from datasources.base import Database, Record
from datasources.types import Subgraph

T = TypeVar("T")


async def entered(database: Database) -> Database:
    return await database.__aenter__()


async def awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


async def document(document: Awaitable[Any]) -> Any:
    return (await document).to_document()


async def documents(documents: Awaitable[list[Any]]) -> list[Any]:
    return [document.to_document() for document in await documents]


def plain_record(record: Record | None) -> Any:
    return None if record is None else (record.kind, record.key, dict(record.data))


def version_of(record: Record | None) -> str | None:
    return None if record is None else record.version


def plain_subgraph(found: Subgraph) -> Any:
    return (
        [node.to_document() for node in found.nodes],
        [edge.to_document() for edge in found.edges],
        list(found.depths.items()),
    )
