// Run as an administrator:
//   NODIUS_ARANGO_PASSWORD=... arangosh --server.endpoint __ENDPOINT__ \
//     --javascript.environment-variables-allowlist "^NODIUS_" --javascript.execute nodius-user.js
const users = require("@arangodb/users");
const password = process.env.NODIUS_ARANGO_PASSWORD;
if (!password) throw new Error("set NODIUS_ARANGO_PASSWORD");
const user = __USER__;
const database = __DATABASE__;
const collections = __COLLECTIONS__;
const known = users.all().some((each) => each.user === user);  // the shell has no `exists`
if (known) { users.update(user, password, true); } else { users.save(user, password, true); }
users.grantDatabase(user, "_system", "none");
users.grantDatabase(user, database, "ro");
users.grantCollection(user, database, "*", "none");
collections.forEach((name) => users.grantCollection(user, database, name, "rw"));
print("user " + user + " may read and write " + collections.length + " collections of " + database);
