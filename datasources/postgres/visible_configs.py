"""The node types that a workspace sees, held until a type changes."""

from __future__ import annotations

from datasources.cache import Cache
from datasources.postgres import statements as sql
from datasources.postgres.server_pool import Session
from datasources.stored_types import HeldTypes, parsed_configs
from datasources.types import NodeTypeConfig


def types_version(session: Session, workspace: str) -> int | None:
    """Returns the version of the types that a workspace sees, None if none is stored."""
    [[version]] = session.rows(sql.TYPES_VERSION, {"workspace": workspace})
    return version


def held_configs(
    session: Session, workspace: str, version: object, cache: Cache
) -> list[NodeTypeConfig]:
    """Returns the types that a workspace sees, cached until their `version` changes.

    Every question reads the types, and parsing a hundred of them takes a millisecond.
    """
    scope = {"workspace": workspace}
    types = cache.get(
        ("types", workspace),
        version,
        lambda _: HeldTypes(parsed_configs(session.rows(sql.CONFIGS, scope), workspace)),
    )
    return types.configs
