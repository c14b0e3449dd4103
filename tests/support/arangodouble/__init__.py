"""An in-memory test double of an ArangoDB single server, for driver-level tests.  See README.md."""

from tests.support.arangodouble.server import ArangoDouble

__all__ = ["ArangoDouble"]
