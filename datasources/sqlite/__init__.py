"""The embedded database: one SQLite file, full-text search inside, vector indexes beside it."""

from datasources.sqlite.database import SqliteDatabase
from datasources.sqlite.engine import Limits

__all__ = ["Limits", "SqliteDatabase"]
