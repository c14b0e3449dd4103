"""ArangoDB: the database of production, shared by any number of servers and with Nodius itself."""

from datasources.arango.address import ArangoAddress, is_arango, parse_address
from datasources.arango.database import ArangoDatabase
from datasources.arango.engine import Limits
from datasources.arango.users import user_script

__all__ = ["ArangoAddress", "ArangoDatabase", "Limits", "is_arango", "parse_address", "user_script"]
