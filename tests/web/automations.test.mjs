// The schedules and the standing of runs, as `server/web/js/automations` says them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { choiceOf, KINDS, scheduleOf } from "../../server/web/js/automations/schedule.js";
import { isPaused, standingOf, STEPS, stepsOf, toneOfEnd, toneOfReport } from "../../server/web/js/automations/standing.js";
import { linesOf } from "../../server/web/js/review/lines.js";

const RECORDED = JSON.parse(readFileSync(new URL("../data/recordings/automations.json", import.meta.url))); // from the server
const lastOf = (name) => RECORDED[name].automations[0].last;

const again = (given) => scheduleOf(choiceOf(given));
const cron = (text) => ({ cron: text, dates: null });
const states = (run) => stepsOf(run).map((step) => step.state);
const PHASES = process.env.PHASES.split(",");
const ENDS = process.env.ENDS.split(",");

test("a schedule is shown by its preset and comes back as it was", () => {
  const table = {
    "0 2 * * *": "daily", "5 14 * * 1-5": "weekdays", "30 6 * * 1,3,0": "weekly", "0 8 15 * *": "monthly", "0 8 L * *": "monthly",
    "*/30 * * * *": "cron", "0 2 * 6 *": "cron", "0 2 1 * 1": "cron", "0 2 * * MON#1": "cron", "0 */4 * * *": "cron",
  };
  for (const [text, kind] of Object.entries(table)) {
    assert.equal(choiceOf({ cron: text }).kind, kind, text);
    assert.deepEqual(again({ cron: text }), cron(text));
  }
  assert.deepEqual(again({}), { cron: null, dates: null });
  assert.deepEqual(again({ dates: [3, 9] }), { cron: null, dates: [3, 9] });
});

test("what a person chooses becomes cron, whatever was there before", () => {
  const from = choiceOf({ dates: [1] });
  assert.deepEqual(scheduleOf({ ...from, kind: "daily", time: "07:05" }), cron("5 7 * * *"));
  assert.deepEqual(scheduleOf({ ...from, kind: "weekly", time: "00:00", days: [0, 5, 1] }), cron("0 0 * * 1,5,0"));
  assert.deepEqual(scheduleOf({ ...from, kind: "weekly", days: [7].map((day) => day % 7) }), cron("0 2 * * 0"));
  for (const kind of KINDS) assert.deepEqual(Object.keys(scheduleOf({ ...from, kind })), ["cron", "dates"]);
  assert.doesNotThrow(() => scheduleOf({ ...from, kind: "daily", time: "" }));
});

test("every phase of the server stands at one step, and only the current one is marked", () => {
  for (const phase of PHASES) {
    const found = states({ phase, startedTime: 1, proposed: 1, endReason: phase === "completed" ? "COMPLETED" : undefined });
    assert.equal(found.length, STEPS.length);
    assert.equal(found.filter((one) => ["now", "held"].includes(one)).length, phase === "completed" ? 0 : 1, phase);
  }
  assert.equal(standingOf({ phase: "calling_ai" }), "phase.calling_ai");
});

test("what a run had nothing to do with is not shown as done", () => {
  assert.deepEqual(states({ phase: "completed", startedTime: 1, proposed: 0, endReason: "COMPLETED" }), ["done", "done", "done", "skipped", "skipped", "done"]);
  assert.deepEqual(states({ phase: "completed", proposed: 0, endReason: "CANCELLED" }), ["done", ...Array(5).fill("skipped")]);
});

test("a run stands where the server says, in its list and by itself", () => {
  const table = {
    working: ["phase.calling_ai", "working", "now"], paused: ["phase.suspended", "working", "held"],
    waiting: ["phase.waiting_validation", "deciding", "now"], ended: ["ended.COMPLETED", undefined, undefined],
  };
  for (const [name, [standing, step, state]] of Object.entries(table)) {
    for (const run of [RECORDED[`${name}_run`], ...(RECORDED[name] ? [lastOf(name)] : [])]) {
      assert.equal(standingOf(run), standing, name);
      const now = stepsOf(run).find((one) => ["now", "held"].includes(one.state));
      assert.deepEqual([now?.name, now?.state], [step, state], name);
      assert.equal(isPaused(run), name === "paused");
    }
  }
  assert.deepEqual(states(RECORDED.ended_run), ["done", "done", "done", "done", "done", "done"]);
  assert.equal(toneOfReport(RECORDED.ended_run.report), "warn");
});

test("how it ended never says what it found", () => {
  for (const endReason of ENDS) assert.notEqual(toneOfEnd({ phase: "completed", endReason }), "good");
  assert.equal(toneOfReport({ outcome: "ok" }), "good");
  assert.equal(toneOfReport(undefined), "plain");
  assert.equal(standingOf({ phase: "completed", endReason: "TIMEOUT", report: { outcome: "ok" } }), "ended.TIMEOUT");
});

test("a run is one line of the history, an undo of its change another", () => {
  const change = (id, more) => ({ id, decision: { at: 20 }, ...more });
  const ofRun = { automationId: "a", threadId: "auto/a/10", scheduledTime: 10 };
  const approvals = [change("1", ofRun), change("2", ofRun), change("3", { threadId: "t", decision: { at: 15 } }), change("4", { ...ofRun, undoes: "1", decision: { at: 30 } }), change("5", { automationId: "b", threadId: "auto/b/5", scheduledTime: 5 })];
  const lines = linesOf(approvals, [{ sessionId: "auto/a/10", startedTime: 11 }, { sessionId: "auto/c/1", scheduledTime: 1 }]);
  assert.deepEqual(lines.map((line) => line.approval?.id ?? [line.runId, line.approvals.map((one) => one.id).join(), Boolean(line.run)]),
    ["4", "3", ["auto/a/10", "1,2", true], ["auto/b/5", "5", false], ["auto/c/1", "", true]]);
});
