// The address of what is shown, and what an address shows.

import assert from "node:assert/strict";
import { test } from "node:test";

import { addressOf, readRoute } from "../../server/web/js/router.js";

const STATE = {
  graphKey: "g", sheet: "0", panel: "chat", isAside: false, selection: [], nodes: new Map([["a b", {}]]),
  threadId: null, reviewShown: null, runShown: null, callShown: null, agentShown: null, traceShown: null,
};
const of = (more) => addressOf({ ...STATE, ...more });

test("an address is read back as what it was written for", () => {
  const shown = { panel: "automations", runShown: "auto/au_1/5", selection: ["a b"] };
  const route = readRoute(of(shown));
  assert.deepEqual([route.graphKey, route.sheet, route.panel, route.run, route.node], ["g", "0", "automations", "auto/au_1/5", "a b"]);
  assert.deepEqual([route.call, route.approval, route.thread], [null, null, null]);
});

test("an address names what its panel shows, and nothing that another panel keeps", () => {
  assert.equal(of({ runShown: "r", threadId: "t", callShown: "c" }), "#graph=g&sheet=0&panel=chat&thread=t");
  assert.equal(of({ panel: "calls", runShown: "r", threadId: "t", callShown: "c" }), "#graph=g&sheet=0&panel=calls&call=c");
});

test("several selected nodes, and an edge, are no node of the address", () => {
  assert.equal(of({ selection: ["a b", "c"] }), of({}));
  assert.equal(of({ selection: ["edge"] }), of({}));
});

test("the list of graphs has an address of its own only with panels beside it", () => {
  assert.equal(of({ graphKey: null }), "#");
  assert.equal(of({ graphKey: null, isAside: true, panel: "calls", callShown: "c" }), "#panel=calls&call=c");
});

test("what an address names opens its panel; a panel that is none is left out", () => {
  assert.equal(readRoute("#run=auto%2Fau_1%2F5").panel, "automations");
  assert.equal(readRoute("#graph=g&thread=t").panel, "chat");
  assert.equal(readRoute("#graph=g&panel=__proto__&approval=ap_1").panel, "review");
  assert.equal(readRoute("#panel=nothing").panel, null);
  assert.equal(readRoute("#run=").run, null);
});
