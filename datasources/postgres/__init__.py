"""The PostgreSQL database, for production: shared by any number of servers.

Public: the names below. The driver is imported when a database is first opened: it is an extra, and
loading it takes longer than most commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datasources.postgres.address import PostgresAddress, is_postgres, parse_address
from datasources.postgres.service_role import role_script

if TYPE_CHECKING:
    from datasources.postgres.database import PostgresDatabase

__all__ = ["PostgresAddress", "PostgresDatabase", "is_postgres", "parse_address", "role_script"]


def __getattr__(name: str) -> Any:
    if name != "PostgresDatabase":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from datasources.postgres.database import PostgresDatabase

    return PostgresDatabase
