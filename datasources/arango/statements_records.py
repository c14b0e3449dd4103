"""AQL texts of records, and of the marks that applied mutations leave; binds only."""

from __future__ import annotations

RECORD_GET = """
FOR d IN @@records
  FILTER d._key IN @names AND d.workspace == @workspace
  LIMIT 1
  RETURN d
"""

RECORDS_INSERT = """
FOR w IN @writes
  INSERT w INTO @@records
  RETURN NEW._rev
"""

RECORDS_REPLACE = """
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key IN w.names AND d.workspace == @workspace AND d._rev == w.rev
    REPLACE d WITH w.document IN @@records OPTIONS { ignoreRevs: false }
    RETURN { key: w.key, rev: NEW._rev }
"""

RECORDS_REMOVE = """
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key IN w.names AND d.workspace == @workspace AND d._rev == w.rev
    REMOVE d IN @@records OPTIONS { ignoreRevs: false }
    RETURN { key: w.key, rev: OLD._rev }
"""

RECORDS_EXIST = """
FOR d IN @@records
  FILTER d._key IN @names AND d.workspace == @workspace
  RETURN d._key
"""

RECORDS_ALL = """
FOR d IN @@records
  FILTER d.workspace == @workspace
  SORT d.@order ASC, d.rag.key ASC
  LIMIT @limit
  RETURN d
"""

RECORDS_ALL_BACKWARDS = """
FOR d IN @@records
  FILTER d.workspace == @workspace
  SORT d.@order DESC, d.rag.key ASC
  LIMIT @limit
  RETURN d
"""

RECORDS_WHERE = """
FOR d IN @@records
  FILTER d.workspace == @workspace AND d.@field == @value
  FILTER LENGTH(@others[* FILTER d[CURRENT.field] != CURRENT.value]) == 0
  SORT d.@order ASC, d.rag.key ASC
  LIMIT @limit
  RETURN d
"""

RECORDS_WHERE_BACKWARDS = """
FOR d IN @@records
  FILTER d.workspace == @workspace AND d.@field == @value
  FILTER LENGTH(@others[* FILTER d[CURRENT.field] != CURRENT.value]) == 0
  SORT d.@order DESC, d.rag.key ASC
  LIMIT @limit
  RETURN d
"""

MARK_INSERT = """
INSERT @mark INTO @@marks
"""

MARK_GET = """
FOR m IN @@marks
  FILTER m._key == @mark
  RETURN m.result
"""

BINDS: dict[str, frozenset[str]] = {
    MARK_INSERT: frozenset({"@marks", "mark"}),
    MARK_GET: frozenset({"@marks", "mark"}),
    RECORD_GET: frozenset({"@records", "names", "workspace"}),
    RECORDS_INSERT: frozenset({"@records", "writes"}),
    RECORDS_REPLACE: frozenset({"@records", "writes", "workspace"}),
    RECORDS_REMOVE: frozenset({"@records", "writes", "workspace"}),
    RECORDS_EXIST: frozenset({"@records", "names", "workspace"}),
    RECORDS_ALL: frozenset({"@records", "workspace", "order", "limit"}),
    RECORDS_ALL_BACKWARDS: frozenset({"@records", "workspace", "order", "limit"}),
    RECORDS_WHERE: frozenset({"@records", "workspace", "field", "value", "others", "order", "limit"}),
    RECORDS_WHERE_BACKWARDS: frozenset(
        {"@records", "workspace", "field", "value", "others", "order", "limit"}
    ),
}
"""The bind keys of each text, those of collections with their `@`."""
