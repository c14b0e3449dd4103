// Stands in for arangosh: runs a script with what its documentation says of `@arangodb/users`, keeps the
// users and levels in the file of FAKE_USERS, and knows no other function.
// Source: ArangoDB 3.12 documentation, "Managing Users in the ArangoDB Shell", "Server security options".
"use strict";
const fs = require("fs");
const vm = require("vm");

const args = process.argv.slice(2);
const given = (name) => args[args.indexOf(name) + 1];
const kept = process.env.FAKE_USERS;
const state = JSON.parse(fs.readFileSync(kept, "utf8"));
state.signedIn = [given("--server.endpoint"), given("--server.username"), given("--server.password")];

const found = (name) => {
  if (!(name in state.users)) throw new Error("user not found");
  return state.users[name];
};
const put = (name, password, active) => {
  if (typeof password !== "string") throw new Error("a password is text");
  state.users[name] = { password, active, databases: {}, collections: {}, ...state.users[name], password };
};
const users = {
  save(name, password, active = true) {
    if (name in state.users) throw new Error("duplicate user");
    put(name, password, active);
  },
  update(name, password, active) { found(name); put(name, password, active); },
  all: () => Object.keys(state.users).map((user) => ({ user, active: true, extra: {} })),
  grantDatabase(name, database, level) { found(name).databases[database] = level; },
  grantCollection(name, database, collection, level) {
    (found(name).collections[database] ??= {})[collection] = level;
  },
};
const modules = { "@arangodb/users": users };
const shown = new RegExp(given("--javascript.environment-variables-allowlist"));
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => shown.test(name)));
vm.runInNewContext(fs.readFileSync(given("--javascript.execute"), "utf8"), {
  require: (name) => modules[name],
  print: console.log,
  process: { env },
});
fs.writeFileSync(kept, JSON.stringify(state));
