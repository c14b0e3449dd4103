"""The embedded database: one SQLite file with full-text search, and indexes of large graphs beside
it.

From outside: `SqliteDatabase`, its `Limits`, and `backup`.
"""

from datasources.sqlite.database import SqliteDatabase
from datasources.sqlite.engine import Limits

__all__ = ["Limits", "SqliteDatabase"]
