"""The script that makes a user who may do what this service does, and no more.

It is for `arangosh`, run once by an administrator. The user reads and writes the collections of
one database; to make collections and indexes (`nodius db init`) stays with the administrator.

Source: ArangoDB 3.12 documentation, "Managing Users": a collection level counts even where the
database level is lower, and `*` stands for every collection without a level of its own; "Managing
Users in the ArangoDB Shell": what `@arangodb/users` has.
"""

from __future__ import annotations

import json

from datasources.arango import layout

_SCRIPT = """\
// Run as an administrator:
//   NODIUS_ARANGO_PASSWORD=... arangosh --server.endpoint {endpoint} \\
//     --javascript.environment-variables-allowlist "^NODIUS_" --javascript.execute nodius-user.js
const users = require("@arangodb/users");
const password = process.env.NODIUS_ARANGO_PASSWORD;
if (!password) throw new Error("set NODIUS_ARANGO_PASSWORD");
const user = {user};
const database = {database};
const collections = {collections};
const known = users.all().some((each) => each.user === user);  // the shell has no `exists`
if (known) {{ users.update(user, password, true); }} else {{ users.save(user, password, true); }}
users.grantDatabase(user, "_system", "none");
users.grantDatabase(user, database, "ro");
users.grantCollection(user, database, "*", "none");
collections.forEach((name) => users.grantCollection(user, database, name, "rw"));
print("user " + user + " may read and write " + collections.length + " collections of " + database);
"""


def user_script(*, user: str, database: str, host: str) -> str:
    """Return the script. The password is read from the environment, never written."""
    return _SCRIPT.format(
        endpoint=host.replace("http://", "tcp://").replace("https://", "ssl://"),
        user=json.dumps(user),
        database=json.dumps(database),
        collections=json.dumps(sorted(layout.ALL_COLLECTIONS), indent=2),
    )
