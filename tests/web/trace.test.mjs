// The steps of an answer, from the spans that are stored of it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { stepsOf, sumsOf } from "../../server/web/js/trace/steps.js";

const span = (operation, start, ms, attributes = {}, failed = false) => ({ operation, name: operation, start, ms, failed, attributes });
const NODES = [{ key: "a", score: 1, reasons: ["text"] }, { key: "b", score: 0.5, reasons: ["near:a"] }];
const FOUND = { query: "Why?", mode: "hybrid", stages: { embed: 1, search: 3, read: 2 }, searches: [{ name: "text", hits: 2, best: [["a", 1.5]] }], nodes: NODES, edges: 1 };
const PROPOSES = { tool: "propose_update_node", arguments: "{}", approvalId: "p1", resultChars: 0 };
const MODEL = { model: "m", provider: "openai", inputTokens: 100, outputTokens: 10, cachedTokens: 5, costUsd: 0.5, messages: 3, tools: 2 };
const TURN = {
  turn: 2, question: "Why?", context: [{ role: "user", text: "Why?", chars: 4 }],
  spans: [
    span("embeddings", 100, 1), span("retrieval", 100, 6, FOUND), span("chat", 110, 50, MODEL), span("execute_tool", 160, 4, { tool: "search_nodes" }), span("execute_tool", 164, 2, PROPOSES),
    span("invoke_agent", 90, 80, { status: "waiting", answer: "Let me." }),
    span("chat", 60_000, 20, { ...MODEL, costUsd: undefined }), span("invoke_agent", 59_990, 40, { status: "idle", answer: "Done.", answerChars: 5 }),
  ],
};
const kinds = (steps) => steps.map(({ kind, children }) => (children.length ? [kind, kinds(children)] : kind));

test("steps are nested, and what waits is left out of the axis", () => {
  const { steps, ms, waited } = stepsOf(TURN);
  assert.deepEqual(kinds(steps), ["question", ["search", ["embedding", ["searches", ["by"]], "read", "chosen"]], "saw", ["model", ["tool", ["tool", ["proposal"]]]], "wait", "model", "answer"]);
  assert.equal(ms, 120);
  assert.equal(waited, 59_990 - 170);
  const [first, second] = steps.filter(({ kind }) => kind === "model");
  assert.deepEqual([first.at, first.ms, second.at, second.ms], [20, 50, 90, 20]);
  assert.equal(steps.at(-1).facts.text, "Done.");
  const all = (list) => list.flatMap((one) => [one.id, ...all(one.children)]);
  assert.equal(new Set(all(steps)).size, all(steps).length);
});

test("answers of rules, second looks, failures and cut traces are told from each other", () => {
  const rules = stepsOf({ ...TURN, spans: [span("chat", 0, 5, { ...MODEL, provider: "offline" }), span("invoke_agent", 0, 6, { status: "failed" }, true)] });
  assert.deepEqual(kinds(rules.steps), ["question", "saw", "rules", "failed"]);
  const second = { ...MODEL, messages: undefined, tools: undefined };
  const looked = stepsOf({ ...TURN, context: [], spans: [span("retrieval", 0, 9, { ...FOUND, stages: undefined, cached: true }), span("chat", 2, 6, second), span("chat", 10, 5, MODEL)] });
  assert.deepEqual(kinds(looked.steps), ["question", ["search", [["searches", ["by"]], "chosen", "second_look"]], "model"]);
  assert.deepEqual(kinds(stepsOf({ turn: 1, question: "", spans: [], context: [] }).steps), []);
});

test("sums leave the rules out and say when a price is not known", () => {
  assert.deepEqual(sumsOf(TURN.spans), { calls: 2, read: 200, written: 20, cached: 10, cost: null });
  assert.deepEqual(sumsOf([span("chat", 0, 1, { ...MODEL, provider: "offline" })]), { calls: 0, read: 0, written: 0, cached: 0, cost: 0 });
});
