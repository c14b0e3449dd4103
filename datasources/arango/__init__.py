"""ArangoDB: the database of production, shared by any number of servers and with Nodius itself.

The driver is loaded when a database is first opened: it takes longer than most commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datasources.arango.address import ArangoAddress, is_arango, parse_address

if TYPE_CHECKING:
    from datasources.arango.database import ArangoDatabase
    from datasources.arango.engine import Limits
    from datasources.arango.users import user_script

__all__ = ["ArangoAddress", "ArangoDatabase", "Limits", "is_arango", "parse_address", "user_script"]


def __getattr__(name: str) -> Any:
    if name == "ArangoDatabase":
        from datasources.arango.database import ArangoDatabase

        return ArangoDatabase
    if name == "Limits":
        from datasources.arango.engine import Limits

        return Limits
    if name == "user_script":
        from datasources.arango.users import user_script

        return user_script
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
