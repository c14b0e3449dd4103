// The phases of a conversation, as `server/web/js/chat/phases.js` says them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { nextPhase, PHASES } from "../../server/web/js/chat/phases.js";

const names = Object.keys(PHASES);
const after = (...events) => events.reduce(nextPhase, "idle");

test("every event leads to a phase of the table", () => {
  for (const row of Object.values(PHASES)) for (const phase of Object.values(row)) assert.ok(names.includes(phase), phase);
});

test("every phase can be reached from the beginning, and left again", () => {
  const reached = new Set(["idle"]);
  for (const phase of reached) Object.values(PHASES[phase]).forEach((next) => reached.add(next));
  assert.deepEqual([...reached].sort(), [...names].sort());
  for (const phase of names) assert.equal(nextPhase(phase, "clear"), "idle");
});

test("a question is answered, at once or after a decision, more rounds or another tab's turn", () => {
  assert.equal(after("send", "answered"), "idle");
  assert.equal(after("send", "proposed"), "waiting");
  assert.equal(after("send", "proposed", "send", "answered"), "idle");
  assert.equal(after("send", "proposed", "resumed"), "busy"); // decided elsewhere: the server goes on by itself
  assert.equal(after("send", "limited", "send"), "busy");
  assert.equal(after("follow", "answered"), "idle");
});

test("nothing is sent while an answer comes or a conversation is loaded", () => {
  for (const phase of ["busy", "following", "loading"]) assert.equal(nextPhase(phase, "send"), phase);
});

test("a stored turn that runs elsewhere is looked at again until it is shown", () => {
  assert.equal(after("open", "shown", "running"), "elsewhere");
  assert.equal(after("open", "shown", "running", "open"), "loading");
  assert.equal(after("open", "answered"), "loading"); // late news of what was shown before
});

test("a lost connection is waited for, and what failed may be sent again", () => {
  assert.equal(after("send", "lost"), "lost");
  assert.equal(after("send", "lost", "connected"), "idle");
  assert.equal(after("send", "lost", "send"), "busy");
  assert.equal(after("send", "failed", "send"), "busy");
});
