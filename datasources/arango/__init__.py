"""ArangoDB: the database of production, shared by any number of servers and with Nodius itself.

From outside: the names below. The driver is loaded when a database is first opened: it takes longer than
most commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from datasources.arango.address import ArangoAddress, is_arango, parse_address

if TYPE_CHECKING:
    from datasources.arango.database import ArangoDatabase
    from datasources.arango.layout import user_script

__all__ = ["ArangoAddress", "ArangoDatabase", "is_arango", "parse_address", "user_script"]

_LATER = {"ArangoDatabase": "database", "user_script": "layout"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
