"""The ArangoDB database, for production: shared by any number of servers, and with Nodius itself.

Public: the names below. The driver is imported when a database is first opened, because loading it
takes longer than most commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datasources.arango.address import ArangoAddress, is_arango, parse_address
from datasources.arango.layout import user_script

if TYPE_CHECKING:
    from datasources.arango.database import ArangoDatabase

__all__ = ["ArangoAddress", "ArangoDatabase", "is_arango", "parse_address", "user_script"]


def __getattr__(name: str) -> Any:
    if name != "ArangoDatabase":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from datasources.arango.database import ArangoDatabase

    return ArangoDatabase
