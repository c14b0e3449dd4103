// A field that two people write as text, as `server/web/js/canvas/text-edit.js` reads it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { applyInstruction } from "../../server/web/js/canvas/instructions.js";
import { changesOf, clashesOf } from "../../server/web/js/canvas/text-edit.js";

// Any JSON value, from a generator of numbers below 1.
function drawn(random, depth = 0) {
  const kind = Math.floor(random() * (depth > 2 ? 4 : 6));
  if (kind < 4) return [null, true, Math.floor(random() * 3), "xyz"[Math.floor(random() * 3)]][kind];
  const parts = Array.from({ length: Math.floor(random() * 4) }, () => drawn(random, depth + 1));
  return kind === 4 ? parts : Object.fromEntries(parts.map((part) => ["abcd"[Math.floor(random() * 4)], part]));
}

function generator(seed) {
  let state = seed;
  return () => ((state = (state * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31);
}

const applied = (document, changes) => changes.reduce((now, { path, value }) => applyInstruction(now, value === undefined ? { o: 2, p: path } : { o: 1, p: path, v: value }), document);

// Objects do not tell their fields' order apart.
const sorted = (value) => (value && typeof value === "object" && !Array.isArray(value) ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])])) : value);

test("what changed leads from any value to any other", () => {
  const random = generator(7);
  for (let i = 0; i < 3000; i += 1) {
    const [before, after] = [{ data: drawn(random) }, { data: drawn(random) }];
    assert.deepEqual(sorted(applied(before, changesOf(before, after))), sorted(after));
    assert.deepEqual(changesOf(after, after), []);
  }
});

test("two edits that do not clash are both kept in either order", () => {
  const random = generator(11);
  let kept = 0;
  for (let i = 0; i < 3000; i += 1) {
    const base = { data: drawn(random) };
    const [mine, theirs] = [{ data: drawn(random) }, { data: drawn(random) }].map((after) => changesOf(base, after));
    if (clashesOf(mine, theirs).length) continue;
    kept += 1;
    assert.deepEqual(sorted(applied(applied(base, theirs), mine)), sorted(applied(applied(base, mine), theirs)));
  }
  assert.ok(kept > 100);
});

test("what both changed clashes, also where one of them replaced what holds it", () => {
  const base = { data: { a: { b: 1 }, c: 1 } };
  const theirs = changesOf(base, { data: { a: { b: 2 }, c: 1 } });
  const clash = (after) => clashesOf(changesOf(base, { data: after }), theirs).length;
  assert.deepEqual([clash({ a: { b: 3 }, c: 1 }), clash({ c: 1 }), clash(null), clash({ a: { b: 1 }, c: 2 }), clash({ a: { b: 2 }, c: 5 })], [1, 1, 1, 0, 0]);
});
