// What the page makes of the server's proposals, which are recorded (`make recordings`).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { counts, fromDocument, isOpen, stateOf, waitsFor } from "../../server/web/js/review/approvals.js";

const RECORDED = JSON.parse(readFileSync(new URL("../data/recordings/approvals.json", import.meta.url)));
const known = (name) => RECORDED[name].approvals.map(fromDocument);

test("a proposal is in the state that the server gave it", () => {
  assert.deepEqual(new Set(known("proposed").map((one) => stateOf(one))), new Set(["pending"]));
  assert.deepEqual(known("decided").map((one) => stateOf(one)).sort(), ["pending", "pending", "rejected", "undo", "undone"]);
});

test("one that waits becomes expired at its time alone", () => {
  const [one] = known("proposed");
  assert.deepEqual([stateOf(one, one.expires - 1), stateOf(one, one.expires)], ["pending", "expired"]);
});

test("a proposal says what it changes, and waits for no other where it builds on none", () => {
  for (const one of known("proposed")) {
    assert.deepEqual([counts(one.preview).nodesChanged, isOpen(one), waitsFor(one, known("proposed"))], [1, true, []]);
    assert.match(one.title, /^[A-Z]/);
  }
});
