// The document operations of the page against the server's: CASES names a file of what the server made of each.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { applyInstruction } from "../../server/web/js/canvas/instructions.js";

const cases = JSON.parse(readFileSync(process.env.CASES, "utf8"));

test("the page makes of every operation what the server makes of it, and leaves the document as it was", () => {
  for (const { document, instruction, after } of cases) {
    const before = structuredClone(document);
    assert.deepEqual(applyInstruction(document, instruction), after, JSON.stringify({ document, instruction }));
    assert.deepEqual(document, before);
  }
});

test("no operation reaches what every object inherits", () => {
  for (const path of [["__proto__", "x"], ["data", "constructor"]]) {
    assert.throws(() => applyInstruction({ data: {} }, { o: 1, p: path, v: 1 }));
    assert.throws(() => applyInstruction({ data: {} }, { o: 18, p: ["data"], d: path }));
  }
});
