// How a tool's result is shown at first, as `server/web/js/chat/tools.js` says it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { firstEntries } from "../../server/web/js/chat/tools.js";

test("of a long result its heading and five entries are shown, and how many are left out", () => {
  const rows = Array.from({ length: 42 }, (_, i) => `row ${i}`);
  const { first, more } = firstEntries(["heading", ...rows].join("\n"));
  assert.equal(more, 37);
  assert.equal(first, ["heading", ...rows.slice(0, 5)].join("\n"));
});

test("a short result is shown whole, also one that is a line longer", () => {
  for (const n of [1, 6, 7]) {
    const text = Array.from({ length: n }, (_, i) => `${i}`).join("\n");
    assert.deepEqual(firstEntries(text), { first: text, more: 0 });
  }
});
