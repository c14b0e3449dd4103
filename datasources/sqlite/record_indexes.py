"""The indexes of the record fields that may be queried."""

from __future__ import annotations

from datasources.base import RECORD_INDEXES


def index_statements() -> list[str]:
    """Return the indexes of the declared record fields (names come from RECORD_INDEXES alone)."""
    return [
        f"CREATE INDEX IF NOT EXISTS records_{kind}_{name} "
        f"ON records (workspace, json_extract(data, '$.{name}'), key) WHERE kind = '{kind}'"
        for kind, names in RECORD_INDEXES.items()
        for name in names
    ]
