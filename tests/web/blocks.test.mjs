// Blocks of a message and their periods, as `server/web/js/chat` writes them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { datesOf, isFixed, kindOf, ofDates, PRESETS, relativeOf } from "../../server/web/js/chat/periods.js";
import { moved, sentBlock, writtenOf } from "../../server/web/js/chat/segments.js";

const CASES = JSON.parse(process.env.PERIODS); // what the server made of relative periods: [{from, to, meant, sent}]

test("instants become the period that the server made them of", () => {
  assert.ok(CASES.length > 20);
  for (const { meant, sent, ...instants } of CASES) {
    assert.ok(isFixed(instants));
    assert.deepEqual(relativeOf(instants, sent), meant, JSON.stringify({ instants, sent: new Date(sent) }));
  }
});

test("a period is shown as what it is, and days of a calendar come back as chosen", () => {
  for (const [name, period] of Object.entries(PRESETS)) assert.equal(kindOf(period), name);
  assert.deepEqual([kindOf(undefined), kindOf({ from: "-3_DAY", to: "NOW" }), kindOf({ from: "2026-01-01T00:00:00Z", to: "NOW" })], ["none", "other", "dates"]);
  const now = new Date("2026-03-31T12:00").getTime();
  for (const [first, last] of [["2026-03-01", "2026-03-29"], ["2026-02-28", "2026-02-28"], ["2026-03-20", "2026-03-31"]]) {
    const made = ofDates(first, last, now);
    assert.deepEqual(datesOf(made, now), [first, last]);
    assert.equal(made.to === "NOW", last === "2026-03-31");
  }
  assert.equal(ofDates("", "2026-03-01", now), null);
});

test("a message is written again as it was, and its blocks move with its words", () => {
  const block = { id: "x", type: "USE", target: { kind: "node", key: "n" } };
  const messages = [{ content: "Look [uses n] well", segments: [{ text: "Look " }, { block }, { text: " well" }], time: 7 }, { content: "plain" }];
  const { text, blocks } = writtenOf(messages);
  assert.equal(text, "Look  well\n\nplain");
  assert.deepEqual(blocks.map(({ id, at, sent }) => [id, at, sent]), [["b1", 5, 7]]);
  assert.deepEqual(Object.keys(sentBlock(blocks[0])), ["id", "type", "target", "at"]);
  const at = (before, after) => moved([{ at: 5 }], before, after)[0].at;
  assert.deepEqual([at("Look  well", "Now look  well"), at("Look  well", "Look  wel"), at("Look  well", "k  well"), at("Look  well", "")], [9, 5, 2, 0]);
});
