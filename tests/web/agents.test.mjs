// The documents of agents as the page shows them, and who may answer a new conversation.

import assert from "node:assert/strict";
import { test } from "node:test";

import { agentsFor, chosenAgent } from "../../server/web/js/chat/agent.js";
import { at, moveTool, put, toolsOf } from "../../server/web/js/agents/document.js";
import { faultOf, idOf, placed, placesOf } from "../../server/web/js/agents/places.js";
import { firstArguments } from "../../server/web/js/agents/trial.js";

const DOCUMENTS = JSON.parse(process.env.DOCUMENTS); // whole documents, as the service takes them

function paths(value, path = []) {
  const own = [[path.join("."), value]];
  return value && typeof value === "object" ? [...own, ...Object.entries(value).flatMap(([name, one]) => paths(one, [...path, name]))] : own;
}

test("every value of a document is found where it stands, however it is written", () => {
  for (const document of DOCUMENTS) {
    for (const text of [JSON.stringify(document), JSON.stringify(document, null, 2), JSON.stringify(document, null, "\t").replaceAll(":", " :\n")]) {
      if (text.includes(" :\n") && JSON.stringify(document).includes(":/")) continue; // not within texts
      const places = placesOf(text);
      const wanted = paths(document);
      assert.equal(places.size, new Set(wanted.map(([path]) => path)).size);
      for (const [path, value] of wanted) assert.deepEqual(JSON.parse(text.slice(...places.get(path))), value, path);
    }
    assert.equal(idOf(JSON.stringify(document)), document.agent.id);
  }
});

test("a mistake is shown at its place, at what is nearest around it, or without one", () => {
  const text = JSON.stringify({ agent: { id: "a", "x.y": [1, { b: 2 }] } }, null, 2);
  const at = (where, given = text) => placed(given, [{ where }]).map(({ place, line }) => [place && given.slice(...place), line])[0];
  assert.deepEqual([at("agent.id"), at("agent.x.y.1.b"), at("agent.x.y.0")], [['"a"', 3], ["2", 7], ["1", 5]]);
  assert.deepEqual([at("agent.name"), at("tools.a"), at("")], [["{", 2], [null, 0], [null, 0]]);
  for (let end = 0; end < text.length; end += 1) assert.doesNotThrow(() => placed(text.slice(0, end), [{ where: "agent.id" }]));
  assert.deepEqual(at("agent.id", `${text.slice(0, 30)}]]]`), ['"a"', 3]);
  for (const hostile of ["[".repeat(50_000), "{".repeat(9), '{"a":', '{"__proto__":1}', "\\", '"\u0000']) assert.doesNotThrow(() => placed(hostile, [{ where: "a" }]));
});

test("the id of a document in YAML is read too", () => {
  assert.equal(idOf('version: "2.0"\nagent:\n  name: Help # id: no\n  id: "help-desk"\n'), "help-desk");
  assert.deepEqual([idOf("agent: x"), idOf("id: y\n"), idOf("")], ["", "", ""]);
});

test("arguments begin with the examples and defaults of their schema", () => {
  const found = [["n", { type: "integer", default: 7 }], ["text", { type: "string", examples: ["a", "b"] }], ["other", { type: "string" }], ["odd", true]].map(([name, rule]) => ({ name, rule }));
  assert.deepEqual(firstArguments(found), { n: 7, text: "a" });
});

test("an agent may be chosen where it runs, chats, and reads the graph or none", () => {
  const agents = [{ id: "a", state: "running", channels: ["chat"], graphs: ["g"] }, { id: "b", state: "running", channels: ["chat"], graphs: [] }, { id: "c", state: "stopped", graphs: [] }, { id: "d", state: "running", channels: ["voice"] }];
  const ids = (key) => agentsFor(agents, key).map((one) => one.id).join();
  assert.deepEqual([ids("g"), ids("other"), ids(null)], ["a,b", "b", "b"]);
  assert.equal(chosenAgent({ agents, agentChosen: "a", graphKey: "other" }), null);
  assert.deepEqual(agentsFor(null, "g"), []);
});

test("a text is JSON as the standard has it, else the place is said where it ceases to be", () => {
  const pieces = ['{"a": [1, -2.5e3, true, null, "x\\u00e9\\n"]}', "[]", '""', "01", "[1,]", '{"a" 1}', '{"a": 1,}', "nul", "1 2", '"\t"', '"\\x"', "", "\u00a0[]", "[1}", "+1", "1.", "{\"a\": \"b}"];
  const isJson = (text) => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };
  for (const one of pieces) for (const other of pieces) for (const text of [one, `[${one}, ${other}]`, `{"k": ${one}, "l": ${other}}`]) assert.equal(faultOf(text) === null, isJson(text), text);
  assert.deepEqual(faultOf('{\n  "a": 1\n  "b": 2\n}'), { at: 13, line: 3, column: 3 });
  assert.deepEqual(faultOf('{"a": 1,\n "a": 2}'), { at: 10, line: 2, column: 2 }); // one of them would be lost
});

test("what is set and taken out again leaves a document as it was", () => {
  for (const document of [...DOCUMENTS, { chat: null, greeting: {}, tools: [], session: "x", agent: { id: "a" } }]) {
    const before = structuredClone(document);
    for (const path of [["chat", "opening"], ["greeting", "condition_field"], ["tools", "a", "body"], ["session", "tools", 0, "x"], ["agent", "__proto__"], ["new", "deep", "one"]]) {
      if (at(document, path) !== undefined) continue;
      put(document, path, "x");
      assert.equal(at(document, path), "x");
      put(document, path, undefined);
      assert.deepEqual(document, before, path.join());
    }
    const names = toolsOf(document).map(({ name }) => name);
    for (const tool of toolsOf(document)) {
      moveTool(document, tool, 1);
      moveTool(document, toolsOf(document).find(({ name }) => name === tool.name), -1);
    }
    assert.deepEqual(toolsOf(document).map(({ name }) => name).sort(), [...names].sort());
  }
});
