// What the history says of an edit.

import assert from "node:assert/strict";
import { test } from "node:test";

import { sentences } from "../../server/web/js/names.js";

const t = Object.assign((key, facts) => (key === "step.values" ? `${facts.what}: ${facts.from} → ${facts.to}` : `${key} ${facts.field} of ${facts.key}`), { has: () => false });
const store = { get: () => ({ nodes: new Map([["a", { _key: "a", type: "t", data: { name: "Act v2" } }]]), nodeTypes: new Map() }) };
const said = (step) => sentences([{ type: "nodeUpdate", keys: ["a"], ...step }], { t, store })[0];

test("a short value is said before and after, and a renamed node by its name of then", () => {
  assert.equal(said({ field: "data.name", from: "Act", to: "Act v2" }), "step.nodeUpdate name of Act: Act → Act v2");
  assert.equal(said({ field: "data.level", from: 0, to: 2 }), "step.nodeUpdate level of Act v2: 0 → 2");
  assert.equal(said({ field: "data.code" }), "step.nodeUpdate code of Act v2");
});
